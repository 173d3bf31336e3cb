//! What is done to the processes while data is read: a worker is killed, then the server, each with
//! SIGKILL, and started again.

use std::time::Duration;

use super::super::exit::Failure;
use super::super::local::Member;
use super::board::Board;

/// How far the reading is when the worker is killed, in hundredths.
const WORKER_DIES_AT: u64 = 25;
/// How far it is when the server is killed.
const SERVER_DIES_AT: u64 = 55;
/// How long the worker stays dead.
const WORKER_DEAD: Duration = Duration::from_millis(1500);
/// How long the server stays dead.
const SERVER_DEAD: Duration = Duration::from_millis(700);
/// Time between two looks at the board.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// A crash, in times since the reading began.
#[derive(Clone, Debug)]
pub(super) struct Crash {
    /// Who was killed.
    pub(super) name: String,
    /// When.
    pub(super) killed: Duration,
    /// When it listened again.
    pub(super) back: Duration,
}

/// Kills a worker and the server in the midst of the reading, and starts them again.
///
/// # Errors
/// When a process does not come back.
pub(super) async fn play(
    board: &Board,
    server: &mut Member,
    worker: &mut Member,
) -> Result<Vec<Crash>, Failure> {
    reached(board, WORKER_DIES_AT).await;
    let first = crash(board, worker, WORKER_DEAD).await?;
    reached(board, SERVER_DIES_AT).await;
    let second = crash(board, server, SERVER_DEAD).await?;
    Ok(vec![first, second])
}

/// Waits until so many hundredths of all records are delivered.
async fn reached(board: &Board, hundredths: u64) {
    loop {
        let picture = board.picture();
        if picture.records.saturating_mul(100) >= picture.total.saturating_mul(hundredths) {
            return;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

async fn crash(board: &Board, member: &mut Member, dead: Duration) -> Result<Crash, Failure> {
    let name = member.name().to_owned();
    let pid = member.pid().unwrap_or_default();
    let killed = board.elapsed();
    member.kill()?;
    board.runs(&name, None);
    board.does(&name, String::new());
    board.tell(format!("{name} (process {pid}) killed with SIGKILL"), true);
    tokio::time::sleep(dead).await;
    member.launch()?;
    member.listening().await?;
    let back = board.elapsed();
    board.runs(&name, member.pid());
    let span = back.saturating_sub(killed).as_secs_f64();
    board.tell(format!("{name} is back after {span:.2} s"), false);
    Ok(Crash { name, killed, back })
}
