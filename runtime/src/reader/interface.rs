//! A reader as its application holds it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use prost::Message;
use rondo_core::dispatcher::{GetOrCreateJob, ShardingPolicy, TargetWorkers};
use rondo_core::element::Spec;
use rondo_core::ids::DatasetId;
use rondo_core::reader::Report;
use rondo_core::status::{Code, Status};
use rondo_data::{Dataset, Origin};
use rondo_proto::convert::{
    RegisteredMetadata, SAVE_POSITION_PATH, decode_definition_answer, decode_metadata_answer,
    decode_version_answer, encode_get_definition, encode_get_metadata, encode_restoration,
    encode_version_request,
};
use rondo_proto::{admin, element};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use super::deliveries::{Deliveries, Delivery, News, acknowledge};
use super::driver::{Happened, Source, drive};
use super::settings::{Builder, Mode};
use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::transport::{Client, Transport};

/// How long a dispatcher that is away is waited for when a reader is opened.
pub const OPEN_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before it is asked again.
const OPEN_PAUSE: Duration = Duration::from_millis(100);
/// How long saving a position may take.
const SAVE_PATIENCE: Duration = Duration::from_secs(30);

/// Why a reader cannot be opened.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    /// The settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The dispatcher says why, or cannot be reached.
    #[error("{what}: {status}")]
    Dispatcher {
        /// What was asked.
        what: String,
        /// Its answer.
        status: Status,
    },
}

/// A consumer of a dataset. Its deliveries are a stream; dropping it leaves the job.
pub struct Reader {
    pub(super) deliveries: Deliveries,
    handle: Handle,
    is_by_split: bool,
    metadata: Option<RegisteredMetadata>,
    dataset: Option<Dataset>,
}

/// What can be asked of a reader while somebody else takes its deliveries. Clones are the same.
#[derive(Clone)]
pub struct Handle {
    happened: mpsc::UnboundedSender<Happened>,
    transport: Arc<dyn Transport>,
    dispatcher: String,
    job: Option<String>,
    opened: Instant,
    /// All was read and acknowledged.
    has_read_all: Arc<AtomicBool>,
    /// How far it came, once it has left.
    last_report: Arc<OnceLock<Report>>,
}

/// How far a reader has come.
#[derive(Clone, Debug)]
pub struct Progress {
    /// How it stands: what was read, of whom, and why it stalls if it does.
    pub report: Report,
    /// Since it was opened.
    pub elapsed: Duration,
}

impl Reader {
    /// A reader of the dispatcher at this address (`host:port`).
    pub fn builder(dispatcher: &str) -> Builder {
        Builder::of(dispatcher)
    }

    pub(super) async fn open(mut builder: Builder) -> Result<Self, OpenError> {
        builder.check()?;
        let made = || Arc::new(Client::of_reader()) as Arc<dyn Transport>;
        let transport = builder.transport.clone().unwrap_or_else(made);
        let dispatcher = builder.dispatcher.clone();
        let asked = Asked { transport: Arc::clone(&transport), dispatcher: &dispatcher };
        builder.dataset = asked.version_to_read(&builder).await?;
        let dataset = asked.own_dataset(&builder).await?;
        let is_by_split = builder.reads_by_split(dataset.as_ref())?;
        asked.restore_position(&builder).await?;
        let metadata = match is_by_split {
            true => None,
            false => Some(asked.metadata(&builder.dataset).await?),
        };
        let entropy = Entropy::from_system()
            .map_err(|error| OpenError::Settings(format!("no randomness to be had: {error}")))?;
        let source = Source {
            dispatcher: dispatcher.clone(),
            job: builder.wanted_job(),
            transport: Arc::clone(&transport),
            message_bytes_max: builder.message_bytes_max,
        };
        let ends = drive(builder.config(is_by_split), source, Clock::start(), entropy);
        let handle = Handle {
            happened: ends.happened.clone(),
            transport,
            dispatcher: builder.dispatcher,
            job: builder.job,
            opened: Instant::now(),
            has_read_all: Arc::clone(&ends.has_read_all),
            last_report: Arc::clone(&ends.last_report),
        };
        let deliveries = Deliveries::of(ends, dataset.clone(), builder.acknowledges_by_hand);
        Ok(Self { deliveries, handle, is_by_split, metadata, dataset })
    }

    /// What comes next; `None` at the end. A call that is dropped loses nothing. Unless the reader
    /// acknowledges by hand, this call says that what came before is consumed.
    ///
    /// # Errors
    /// Why nothing more comes: the error of a worker or the dispatcher that is not of the way.
    pub async fn next(&mut self) -> Option<Result<Delivery, Status>> {
        std::future::poll_fn(|context| self.deliveries.poll(context)).await
    }

    /// As [`Reader::next`], and says when all there is was handed out. An application that acknowledges by
    /// hand gets more, or the end, only after it has acknowledged that: one that gathers deliveries before it
    /// acknowledges them does it then.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub async fn news(&mut self) -> Option<Result<News, Status>> {
        std::future::poll_fn(|context| self.deliveries.poll_news(context)).await
    }

    /// Says that this delivery is consumed, and all before it of its splits. The dispatcher hears of
    /// it soon; [`Handle::flush`] waits until it has.
    pub fn acknowledge(&self, delivery: &Delivery) {
        self.handle.acknowledge(delivery);
    }

    /// As [`Reader::acknowledge`], by where records come from alone.
    pub fn acknowledge_records(&self, identity: &[Origin]) {
        acknowledge(identity, &self.handle.happened);
    }

    /// Remembers, under this name, how far the job has been read: what was consumed, and nothing
    /// else, is behind the position. Unless the reader acknowledges by hand, this call says that what
    /// came last is consumed.
    ///
    /// # Errors
    /// As [`Handle::checkpoint`].
    pub async fn checkpoint(&mut self, name: &str) -> Result<(), Status> {
        self.deliveries.acknowledge_last();
        self.handle.checkpoint(name).await
    }

    /// How far it has come.
    pub async fn progress(&self) -> Progress {
        self.handle.progress().await
    }

    /// What can be asked of it while somebody else takes its deliveries.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Whether it reads by split.
    pub const fn is_by_split(&self) -> bool {
        self.is_by_split
    }

    /// The dataset, if it is one of Rondo's own and read by split.
    pub const fn dataset(&self) -> Option<&Dataset> {
        self.dataset.as_ref()
    }

    /// The structure of the elements, when reading by element and if it was registered.
    ///
    /// # Errors
    /// When the structure that was registered has parts that are not known.
    pub fn element_spec(&self) -> Result<Option<Spec>, Status> {
        let spec = self.metadata.as_ref().map(|metadata| &metadata.element_spec);
        spec.filter(|spec| !spec.is_empty()).map(|spec| element::decode_spec(spec)).transpose()
    }

    /// Leaves the job, and waits until the dispatcher knows that and what was consumed. A dispatcher
    /// that does not answer is told again, for 4 s at most. Closing consumes nothing: the delivery that
    /// came last counts as consumed only if the application asked for the next one, or acknowledged it.
    ///
    /// # Errors
    /// When the dispatcher does not know what was consumed last, so that another reader gets it again,
    /// or that this reader leaves. After the end of the data there is nothing left to tell, and no
    /// error.
    pub async fn close(self) -> Result<(), Status> {
        let left = self.deliveries.close().await;
        match self.handle.has_read_all.load(Ordering::Relaxed) {
            true => Ok(()),
            false => left,
        }
    }
}

impl futures_core::Stream for Reader {
    type Item = Result<Delivery, Status>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.deliveries.poll(context)
    }
}

impl Handle {
    /// As [`Reader::acknowledge`].
    pub fn acknowledge(&self, delivery: &Delivery) {
        acknowledge(&delivery.identity, &self.happened);
    }

    /// Whether the pass has come to its end: this reader and others have read all of it.
    pub fn has_read_all(&self) -> bool {
        self.has_read_all.load(Ordering::Relaxed)
    }

    /// Waits until the dispatcher's journal has what was consumed so far.
    ///
    /// # Errors
    /// When the reader has ended otherwise.
    pub async fn flush(&self) -> Result<(), Status> {
        let (reply, answer) = oneshot::channel();
        // A reader that has left drops the reply.
        let _ = self.happened.send(Happened::Flush(reply));
        match answer.await {
            Ok(result) => result,
            Err(_) if self.has_read_all() => Ok(()),
            Err(_) => Err(Status::new(Code::Cancelled, "the reader has ended")),
        }
    }

    /// As [`Reader::checkpoint`], of what was acknowledged.
    ///
    /// # Errors
    /// When the job has no name, the reader has ended with something not acknowledged, or the
    /// dispatcher refuses.
    pub async fn checkpoint(&self, name: &str) -> Result<(), Status> {
        let Some(job) = self.job.clone() else {
            let text = "a job without a name has no position: give it one";
            return Err(Status::new(Code::FailedPrecondition, text));
        };
        self.flush().await?;
        let request = admin::SavePositionRequest { name: name.to_owned(), job };
        let message = Bytes::from(request.encode_to_vec());
        let (to, path) = (&self.dispatcher, SAVE_POSITION_PATH);
        self.transport.unary(to, path, message, SAVE_PATIENCE).await.map(drop)
    }

    /// As [`Reader::progress`].
    pub async fn progress(&self) -> Progress {
        let (reply, answer) = oneshot::channel();
        // As above.
        let _ = self.happened.send(Happened::Report(reply));
        let report = match answer.await {
            Ok(report) => report,
            // It has left.
            Err(_) => self.last_report.get().cloned().unwrap_or_default(),
        };
        Progress { report, elapsed: self.opened.elapsed() }
    }
}

impl Builder {
    fn check(&self) -> Result<(), OpenError> {
        let wrong = |text: &str| Err(OpenError::Settings(text.to_owned()));
        if self.dataset.is_empty() {
            return wrong("no dataset is named: give its id");
        }
        if self.position.is_some() && self.job.is_none() {
            return wrong("a position is of a job: give the job's name");
        }
        for member in self.group.iter().chain(&self.consumer) {
            if member.index >= member.size {
                let (index, size) = (member.index, member.size);
                return wrong(&format!("reader {index} of {size}: they are counted from 0"));
            }
        }
        if self.consumer.is_some() && self.sharding != ShardingPolicy::Off {
            let policy = self.sharding.name();
            return wrong(&format!("a coordinated read needs sharding OFF, not {policy}"));
        }
        Ok(())
    }

    /// Whether to read by split.
    fn reads_by_split(&self, dataset: Option<&Dataset>) -> Result<bool, OpenError> {
        let unfit = match dataset {
            _ if self.sharding != ShardingPolicy::Dynamic => Some("sharding is not DYNAMIC".into()),
            _ if self.consumer.is_some() => Some("the read is coordinated".into()),
            None => Some("the dataset is not one of Rondo's own".into()),
            Some(dataset) => dataset.unsplittable(),
        };
        match (self.mode, unfit) {
            (Mode::Element, _) => Ok(false),
            (_, None) => Ok(true),
            (Mode::Auto, Some(_)) if self.group.is_none() => Ok(false),
            (_, Some(why)) => Err(OpenError::Settings(format!("cannot be read by split: {why}"))),
        }
    }

    fn wanted_job(&self) -> GetOrCreateJob {
        GetOrCreateJob {
            dataset: DatasetId::new(self.dataset.as_str()),
            same_dataset: true,
            sharding: self.sharding,
            name: self.job.clone(),
            consumers: self.consumer.map(|consumer| i64::from(consumer.size)),
            use_cross_trainer_cache: false,
            target_workers: TargetWorkers::Auto,
        }
    }
}

/// What is asked before the reader begins.
struct Asked<'a> {
    transport: Arc<dyn Transport>,
    dispatcher: &'a str,
}

impl Asked<'_> {
    /// Asks the dispatcher, and waits for it while it is away.
    async fn ask(
        &self,
        what: &str,
        path: &'static str,
        message: Bytes,
    ) -> Result<Bytes, OpenError> {
        let until = Instant::now() + OPEN_PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let answer = self.transport.unary(self.dispatcher, path, message.clone(), left).await;
            match answer {
                Ok(answer) => return Ok(answer),
                Err(status) if status.code == Code::Unavailable && !left.is_zero() => {
                    tokio::time::sleep(OPEN_PAUSE).await;
                }
                Err(status) => return Err(OpenError::Dispatcher { what: what.to_owned(), status }),
            }
        }
    }

    /// The version of the dataset that a reader of the job is to read. TensorFlow's dispatcher knows no
    /// versions, nor does Rondo's of a former release.
    async fn version_to_read(&self, builder: &Builder) -> Result<String, OpenError> {
        let what = format!("dataset {:?}", builder.dataset);
        let (job, position) = (builder.job.as_deref(), builder.position.as_deref());
        let (path, message) = encode_version_request(&builder.dataset, job, position);
        match self.ask(&what, path, message).await {
            Ok(answer) => match decode_version_answer(&answer) {
                Ok(version) => Ok(version.as_str().to_owned()),
                Err(status) => Err(OpenError::Dispatcher { what, status }),
            },
            Err(OpenError::Dispatcher { status, .. }) if status.code == Code::Unimplemented => {
                Ok(builder.dataset.clone())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the job back to the position that the reader is to begin at. Nothing is taken back for a reader
    /// that is refused.
    async fn restore_position(&self, builder: &Builder) -> Result<(), OpenError> {
        let (Some(name), Some(_)) = (&builder.position, &builder.job) else {
            return Ok(());
        };
        let (path, message) = encode_restoration(name, &builder.wanted_job());
        self.ask(&format!("position {name:?}"), path, message).await.map(drop)
    }

    async fn metadata(&self, id: &str) -> Result<RegisteredMetadata, OpenError> {
        let what = format!("dataset {id:?}");
        let (path, message) = encode_get_metadata(id);
        let answer = self.ask(&what, path, message).await?;
        decode_metadata_answer(&answer).map_err(|status| OpenError::Dispatcher { what, status })
    }

    /// The dataset if it is one of Rondo's own and could be read by split.
    async fn own_dataset(&self, builder: &Builder) -> Result<Option<Dataset>, OpenError> {
        let is_possible = builder.sharding == ShardingPolicy::Dynamic && builder.consumer.is_none();
        if builder.mode == Mode::Element || !is_possible {
            return Ok(None);
        }
        let what = format!("dataset {:?}", builder.dataset);
        let (path, message) = encode_get_definition(&builder.dataset);
        let answer = self.ask(&what, path, message).await?;
        let definition = decode_definition_answer(&answer)
            .map_err(|status| OpenError::Dispatcher { what: what.clone(), status })?;
        Dataset::from_definition(&definition)
            .map_err(|error| OpenError::Dispatcher { what, status: error.status() })
    }
}
