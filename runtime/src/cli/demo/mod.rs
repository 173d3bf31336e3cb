//! `rondo demo`: the main job on one machine, with crashes in the midst of it and a proof at its end.

mod board;
mod consumer;
mod ledger;
mod proof;
mod scenario;
mod source;
mod view;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use rondo_data::{Dataset, Stores};
use tempfile::TempDir;

use self::board::Board;
use self::consumer::{Account, Consumer, NAME};
use self::ledger::Checksum;
use self::proof::Proof;
use self::scenario::Crash;
use self::source::Origin;
use self::view::View;
use super::exit::{Exit, Failure};
use super::local::LocalCluster;
use super::threads;
use super::units::{Span, span};

/// Workers of the demo.
const WORKERS: usize = 3;
/// Consumers of the demo.
const CONSUMERS: u64 = 2;
/// Records of a batch.
const BATCH: u64 = 32;
/// Batches in all, at least: the data is read as often as that takes.
const BATCHES_MIN: u64 = 1200;

/// What the demo is to show.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct DemoArgs {
    /// A Parquet, Arrow, TFRecord, CSV or JSON lines file to read instead of the weather of two cities
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,

    /// Print lines instead of a picture that changes; so it is where stdout is no terminal
    #[arg(long)]
    plain: bool,

    /// How long the reading is to take without crashes
    #[arg(long, value_name = "SPAN", default_value = "12s", value_parser = span(1000..=3_600_000))]
    duration: Span,
}

/// Shows how a job is read while its processes are killed.
pub(super) fn demo(args: &DemoArgs) -> Result<(), Failure> {
    threads::pool(None)?.block_on(async {
        tokio::select! {
            biased;
            shown = show(args) => shown,
            // Dropping the rest kills its processes.
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        }
    })
}

async fn show(args: &DemoArgs) -> Result<(), Failure> {
    let folder = TempDir::with_prefix("rondo-demo-");
    let folder = folder.map_err(|error| Failure::new(Exit::Other, error))?;
    let origin = Origin::find(args.data.as_deref(), folder.path())?;
    let stores = Stores::from_env();
    let once = origin.checksum(&stores).await?;
    let dataset = origin.dataset(&stores, passes(once), BATCH).await?;
    let mut cluster = LocalCluster::start(folder.path(), WORKERS).await?;
    cluster.register(NAME, &dataset).await?;
    say(&introduction(&origin, once, &dataset, &cluster));
    let total = once.times(dataset.passes());
    let view = View::new(args.plain);
    let board = Board::new(total.records, once.records);
    let account = Arc::new(Mutex::new(Account::default()));
    let step = step(args.duration.std(), total.records);
    let plot = perform(&mut cluster, &board, &account, step);
    let crashes = view.during(&board, plot).await?;
    let account = account.lock().unwrap_or_else(PoisonError::into_inner);
    let proof = Proof {
        source: origin.name(),
        once,
        passes: dataset.passes(),
        ledger: &account.ledger,
        deliveries: &account.deliveries,
        crashes: &crashes,
    };
    say(&proof.text());
    match proof.holds() {
        true => Ok(()),
        false => Err(Failure::new(Exit::Other, "not every record came exactly once")),
    }
}

/// How often to read records that are too few to show anything.
fn passes(once: Checksum) -> u64 {
    let wanted = BATCHES_MIN.saturating_mul(BATCH);
    wanted.div_ceil(once.records.max(1)).max(1)
}

/// How long each batch keeps a consumer busy, so that all take the time asked for.
fn step(duration: Duration, records: u64) -> Duration {
    let batches = records.div_ceil(BATCH).div_ceil(CONSUMERS).max(1);
    let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(nanoseconds.checked_div(batches).unwrap_or(0))
}

fn introduction(
    origin: &Origin,
    once: Checksum,
    dataset: &Dataset,
    cluster: &LocalCluster,
) -> String {
    format!(
        "{}: {} records, read {} times in {} splits a pass, by {CONSUMERS} consumers from {WORKERS} \
         workers.\nOn the way a worker and the server are killed with SIGKILL. Another terminal can \
         watch:\n  rondo status --server {}\n\n",
        origin.name(),
        once.records,
        dataset.passes(),
        dataset.splits(),
        cluster.dispatcher(),
    )
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    // Whoever closed stdout does not want to know.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Lets the consumers read while processes are killed.
async fn perform(
    cluster: &mut LocalCluster,
    board: &Board,
    account: &Arc<Mutex<Account>>,
    step: Duration,
) -> Result<Vec<Crash>, Failure> {
    let members = std::iter::once(&cluster.server).chain(&cluster.workers);
    members.for_each(|member| board.runs(member.name(), member.pid()));
    let addresses = cluster.workers.iter();
    let names: BTreeMap<String, String> =
        addresses.map(|it| (it.address().to_string(), it.name().to_owned())).collect();
    let names = Arc::new(names);
    let mut reading = tokio::task::JoinSet::new();
    for number in 1..=CONSUMERS {
        let consumer = Consumer {
            name: format!("consumer {number}"),
            server: cluster.server.address(),
            step,
            workers: Arc::clone(&names),
            account: Arc::clone(account),
            board: board.clone(),
        };
        board.does(&consumer.name, "begins".to_owned());
        reading.spawn(consumer.run());
    }
    let [_, victim, ..] = cluster.workers.as_mut_slice() else {
        return Err(Failure::new(Exit::Other, "there are fewer than two workers"));
    };
    let crashes = scenario::play(board, &mut cluster.server, victim);
    let all_read = async {
        while let Some(ended) = reading.join_next().await {
            ended.map_err(|error| Failure::new(Exit::Other, error))??;
        }
        Ok(())
    };
    let (crashes, ()) = tokio::try_join!(crashes, all_read)?;
    board.tell("all read".to_owned(), false);
    Ok(crashes)
}
