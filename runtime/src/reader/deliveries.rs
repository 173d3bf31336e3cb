//! Deliveries on their way to the application: decoded, and made into batches as the dataset asks.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use arrow::record_batch::RecordBatch;
use rondo_core::element::Element;
use rondo_core::reader::{Batch, Delivery as Received};
use rondo_core::status::{Code, Status};
use rondo_data::{BATCH_BYTES_MAX, Dataset, Origin, Rebatched, Rebatcher, from_ipc};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::driver::{Ends, Happened, Told};

/// Deliveries that the machine hands out ahead of the application: a few, and more if they are small.
const AHEAD_MIN: u64 = 2;
/// See [`AHEAD_MIN`].
const AHEAD_MAX: u64 = 64;
/// Their bytes, if they are more than a few.
const AHEAD_BYTES: u64 = 1 << 20;

/// What a reader delivers.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The records or the element.
    pub content: Content,
    /// Where the records come from, in their order: what is delivered again after a crash has the
    /// same. Nothing for elements.
    pub identity: Vec<Origin>,
}

/// What a reader has to say.
#[derive(Clone, Debug)]
pub enum News {
    /// Something was read.
    Delivered(Delivery),
    /// All there is for now was handed out: more, or the end, comes once that is acknowledged.
    Drained,
}

/// What was read.
#[derive(Clone, Debug)]
pub enum Content {
    /// Records, when reading by split.
    Records(RecordBatch),
    /// An element, when reading by element.
    Element(Element),
}

impl Delivery {
    /// Records, or elements, in it.
    pub fn records(&self) -> u64 {
        match &self.content {
            Content::Records(records) => records.num_rows() as u64,
            Content::Element(_) => 1,
        }
    }

    /// The first records of it, no more than so many.
    #[must_use]
    pub fn first(self, records: u64) -> Self {
        let content = match self.content {
            Content::Records(batch) => {
                let rows = usize::try_from(records).unwrap_or(usize::MAX).min(batch.num_rows());
                Content::Records(batch.slice(0, rows))
            }
            element @ Content::Element(_) => element,
        };
        let mut left = records;
        let mut identity = Vec::new();
        for origin in self.identity {
            let count = origin.count.min(left);
            left = left.saturating_sub(count);
            if count > 0 {
                identity.push(Origin { count, ..origin });
            }
        }
        Self { content, identity }
    }
}

/// Says that these records, and all before them of their splits, are consumed.
pub(super) fn acknowledge(origins: &[Origin], to: &mpsc::UnboundedSender<Happened>) {
    let upto = |origin: &Origin| (origin.place, origin.first.saturating_add(origin.count));
    if !origins.is_empty() {
        // A reader that has ended acknowledges nothing more.
        let _ = to.send(Happened::Consumed(origins.iter().map(upto).collect()));
    }
}

/// The stream of deliveries.
pub(super) struct Deliveries {
    happened: mpsc::UnboundedSender<Happened>,
    told: mpsc::UnboundedReceiver<Told>,
    task: JoinHandle<Result<(), Status>>,
    dataset: Option<Dataset>,
    rebatcher: Option<Rebatcher>,
    ready: VecDeque<Delivery>,
    /// The last one, until it counts as consumed.
    last: Vec<Origin>,
    acknowledges_by_hand: bool,
    /// Deliveries that the machine may hand out, and those of them that were taken.
    wanted: u64,
    taken: u64,
    /// The machine has handed out all there is, and the application has yet to hear of it.
    is_drained: bool,
    has_ended: bool,
}

impl Deliveries {
    pub(super) fn of(ends: Ends, dataset: Option<Dataset>, acknowledges_by_hand: bool) -> Self {
        let Ends { happened, told, task, .. } = ends;
        // The loop has only begun.
        let _ = happened.send(Happened::Wanted(AHEAD_MIN));
        Self {
            happened,
            told,
            task,
            rebatcher: dataset.as_ref().and_then(|dataset| dataset.rebatcher(BATCH_BYTES_MAX)),
            dataset,
            ready: VecDeque::new(),
            last: Vec::new(),
            acknowledges_by_hand,
            wanted: AHEAD_MIN,
            taken: 0,
            is_drained: false,
            has_ended: false,
        }
    }

    /// What was delivered last counts as consumed, unless the application says so by hand.
    pub(super) fn acknowledge_last(&mut self) {
        let last = std::mem::take(&mut self.last);
        if !self.acknowledges_by_hand {
            acknowledge(&last, &self.happened);
        }
    }

    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Delivery, Status>>> {
        loop {
            match std::task::ready!(self.poll_news(context)) {
                Some(Ok(News::Delivered(delivery))) => return Poll::Ready(Some(Ok(delivery))),
                Some(Ok(News::Drained)) => {}
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }

    /// As [`Deliveries::poll`], and when all was handed out.
    pub(super) fn poll_news(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<News, Status>>> {
        self.acknowledge_last();
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                self.last.clone_from(&delivery.identity);
                return Poll::Ready(Some(Ok(News::Delivered(delivery))));
            }
            if std::mem::take(&mut self.is_drained) {
                return Poll::Ready(Some(Ok(News::Drained)));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            let Poll::Ready(told) = self.told.poll_recv(context) else {
                return Poll::Pending;
            };
            if let Err(status) = self.take(told) {
                // The reader stays in its job until the application closes or drops it: what was consumed
                // can still be acknowledged.
                self.has_ended = true;
                return Poll::Ready(Some(Err(status)));
            }
        }
    }

    fn take(&mut self, told: Option<Told>) -> Result<(), Status> {
        match told {
            Some(Told::Delivered(delivery)) => {
                self.want_more(&delivery);
                self.received(delivery)
            }
            Some(Told::Drained) => {
                self.is_drained = true;
                self.end_batches()
            }
            Some(Told::Ended(Ok(()))) => {
                self.has_ended = true;
                self.end_batches()
            }
            Some(Told::Ended(Err(status))) => Err(status),
            None => Err(Status::new(Code::Cancelled, "the reader's loop has ended")),
        }
    }

    /// Something was taken: more of its size may be handed out.
    fn want_more(&mut self, taken: &Received) {
        let size = match taken {
            Received::Batch(batch) => batch.records.len() as u64,
            Received::Element(element) => element.size_bytes(),
        };
        self.taken = self.taken.saturating_add(1);
        if self.taken < self.wanted / 2 {
            return;
        }
        let left = self.wanted.saturating_sub(self.taken);
        let more = (AHEAD_BYTES / size.max(1)).clamp(AHEAD_MIN, AHEAD_MAX).saturating_sub(left);
        (self.wanted, self.taken) = (left.saturating_add(more), 0);
        // A reader that has ended delivers nothing more.
        let _ = self.happened.send(Happened::Wanted(more));
    }

    fn received(&mut self, delivery: Received) -> Result<(), Status> {
        match delivery {
            Received::Element(element) => {
                let content = Content::Element(element);
                self.ready.push_back(Delivery { content, identity: Vec::new() });
                Ok(())
            }
            Received::Batch(batch) => self.received_batch(&batch),
        }
    }

    fn received_batch(&mut self, batch: &Batch) -> Result<(), Status> {
        let (place, first, count) = (batch.place, batch.first, batch.count);
        let records = decode(batch)?;
        let (Some(dataset), Some(rebatcher)) = (&self.dataset, &mut self.rebatcher) else {
            let identity = vec![Origin { place, first, count }];
            self.ready.push_back(Delivery { content: Content::Records(records), identity });
            return Ok(());
        };
        let pass = dataset.pass_of(batch.split);
        let batch = rondo_data::Batch { first, records, skipped: Vec::new() };
        rebatcher.push(place, pass, batch).map_err(|error| error.status())?;
        self.take_batches();
        Ok(())
    }

    /// No more records come to those that wait for a batch to be full.
    fn end_batches(&mut self) -> Result<(), Status> {
        if let Some(rebatcher) = &mut self.rebatcher {
            rebatcher.end().map_err(|error| error.status())?;
            self.take_batches();
        }
        Ok(())
    }

    fn take_batches(&mut self) {
        let Some(rebatcher) = &mut self.rebatcher else {
            return;
        };
        while let Some(Rebatched { records, origins }) = rebatcher.pop() {
            let content = Content::Records(records);
            self.ready.push_back(Delivery { content, identity: origins });
        }
        // They are read, too, though nobody is to see them.
        acknowledge(&rebatcher.left_out(), &self.happened);
    }

    /// Leaves, and waits until that is done.
    ///
    /// # Errors
    /// When the dispatcher was not told what was consumed, or that the reader leaves.
    pub(super) async fn close(mut self) -> Result<(), Status> {
        // A reader that has ended has left.
        let _ = self.happened.send(Happened::Close);
        self.told.close();
        let left = (&mut self.task).await;
        left.unwrap_or_else(|error| Err(Status::new(Code::Internal, error.to_string())))
    }
}

/// The records of a batch that were not delivered before.
fn decode(batch: &Batch) -> Result<RecordBatch, Status> {
    let records = from_ipc(&batch.records).map_err(|error| error.status())?;
    let (found, passed) = (records.num_rows() as u64, batch.passed);
    if found != passed.saturating_add(batch.count) {
        let Batch { place, first, count, .. } = batch;
        let text = format!(
            "the split at place {place}: {found} records came where {count} from record {first} on \
             and {passed} before them were announced"
        );
        return Err(Status::new(Code::Internal, text));
    }
    // Both are at most what there are.
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(records.slice(at(passed), at(batch.count)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use bytes::Bytes;
    use rondo_data::to_ipc;

    use super::*;

    /// The loop's side of a reader.
    struct Loop {
        tells: mpsc::UnboundedSender<Told>,
        hears: mpsc::UnboundedReceiver<Happened>,
    }

    impl Loop {
        /// With the application's side.
        fn start(acknowledges_by_hand: bool) -> (Self, Deliveries) {
            let (happened, hears) = mpsc::unbounded_channel();
            let (tells, told) = mpsc::unbounded_channel();
            let task = tokio::spawn(async { Ok(()) });
            let (has_read_all, last_report) = (Arc::default(), Arc::default());
            let ends = Ends { happened, told, task, has_read_all, last_report };
            (Self { tells, hears }, Deliveries::of(ends, None, acknowledges_by_hand))
        }

        fn deliver(&self, place: u64, count: u64, records: Bytes) {
            let batch = Batch { place, split: 0, first: 0, count, passed: 0, records };
            self.tells.send(Told::Delivered(Received::Batch(batch))).unwrap();
        }

        /// Which records are consumed, and whether the reader is closed, in order.
        fn heard(&mut self) -> Vec<Option<(u64, u64)>> {
            let heard = std::iter::from_fn(|| self.hears.try_recv().ok());
            let told = heard.flat_map(|happened| match happened {
                Happened::Consumed(upto) => upto.into_iter().map(Some).collect(),
                Happened::Close => vec![None],
                _ => Vec::new(),
            });
            told.collect()
        }
    }

    fn three_records() -> Bytes {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        to_ipc(&RecordBatch::try_from_iter([("number", column)]).unwrap()).unwrap()
    }

    async fn next(deliveries: &mut Deliveries) -> Result<Delivery, Status> {
        std::future::poll_fn(|context| deliveries.poll(context)).await.unwrap()
    }

    #[tokio::test]
    async fn a_reader_that_cannot_decode_records_still_acknowledges_what_was_consumed() {
        let (mut side, mut deliveries) = Loop::start(true);
        side.deliver(7, 1, Bytes::from_static(b"no Arrow stream"));
        next(&mut deliveries).await.unwrap_err();
        acknowledge(&[Origin { place: 3, first: 0, count: 5 }], &deliveries.happened);
        deliveries.close().await.unwrap();
        assert_eq!(side.heard(), [Some((3, 5)), None]);
    }

    #[tokio::test]
    async fn a_reader_that_was_handed_all_there_is_hears_of_it_once() {
        let (side, mut deliveries) = Loop::start(true);
        side.deliver(7, 3, three_records());
        side.tells.send(Told::Drained).unwrap();
        side.tells.send(Told::Ended(Ok(()))).unwrap();
        let mut heard = Vec::new();
        while let Some(news) = std::future::poll_fn(|it| deliveries.poll_news(it)).await {
            heard.push(matches!(news.unwrap(), News::Drained));
        }
        assert_eq!(heard, [false, true]);
    }

    #[tokio::test]
    async fn an_application_that_only_takes_deliveries_hears_nothing_else() {
        let (side, mut deliveries) = Loop::start(false);
        side.tells.send(Told::Drained).unwrap();
        side.deliver(7, 3, three_records());
        assert_eq!(next(&mut deliveries).await.unwrap().records(), 3);
    }

    /// An application that dies while it works on a delivery has not consumed it.
    #[tokio::test]
    async fn a_delivery_is_consumed_when_the_next_one_is_asked_for() {
        let (mut side, mut deliveries) = Loop::start(false);
        side.deliver(7, 3, three_records());
        side.deliver(8, 3, three_records());
        assert_eq!(next(&mut deliveries).await.unwrap().records(), 3);
        assert_eq!(side.heard(), []);
        next(&mut deliveries).await.unwrap();
        assert_eq!(side.heard(), [Some((7, 3))]);
        drop(deliveries);
        assert_eq!(side.heard(), []);
    }
}
