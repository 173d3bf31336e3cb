//! The words of the table in `docs/round_robin.md`: what a cell says, as something to ask and to
//! compare with. Words that are not here are a mistake in the page or a gap here.

/// A heartbeat and the state it meets, in the page's letters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// The number of consumers.
    pub(crate) n: usize,
    /// The proposal for the front task, if there is one, and how many have failed.
    pub(crate) front: Option<(i64, u32)>,
    /// How many are ready.
    pub(crate) ready: usize,
    /// Whether the client that heartbeats is among them.
    pub(crate) client_is_ready: bool,
    /// `current_round`.
    pub(crate) c: Option<i64>,
    /// `blocked_round`.
    pub(crate) b: Option<i64>,
    /// The highest `current_round` any other consumer has reported.
    pub(crate) others_latest: i64,
}

impl Situation {
    fn target(&self) -> i64 {
        self.front.expect("a proposal").0
    }

    /// `current_round` as the page counts it.
    fn current(&self) -> i64 {
        self.c.unwrap_or(0)
    }

    /// `T'`.
    pub(crate) fn next_target(&self) -> i64 {
        let latest = self.others_latest.max(self.current()).max(0);
        latest + 2 * 2_i64.pow(self.front.expect("a proposal").1)
    }

    /// Whether a condition of the first two columns is met.
    pub(crate) fn meets(&self, condition: &str) -> bool {
        let blocked_after = |round| self.b.is_none_or(|b| b > round);
        match condition {
            "none" => self.front.is_none(),
            "any" => true,
            "`T`" => self.front.is_some(),
            "client in `R`" => self.client_is_ready,
            "client not in `R`" => !self.client_is_ready,
            "`R` has fewer than `n - 1` members" => self.ready + 1 < self.n,
            "`R` has `n - 1` members" => self.ready + 1 == self.n,
            "`n = 1`" => self.n == 1,
            "`n > 1`" => self.n > 1,
            "`c < T`" => self.current() < self.target(),
            "`c >= T`" => self.current() >= self.target(),
            "`b` absent or `b > T`" => blocked_after(self.target()),
            "`b <= T`" => !blocked_after(self.target()),
            "`b` absent or `b > T'`" => blocked_after(self.next_target()),
            "`b <= T'`" => !blocked_after(self.next_target()),
            other => panic!("the page says {other:?}, and the test has no word for it"),
        }
    }

    /// What becomes of the front task.
    pub(crate) fn becomes(&self, state: &str) -> Fate {
        let stays = |ready: Ready| {
            let (target, failures) = self.front.expect("a proposal");
            Fate::Pending { target, failures, ready }
        };
        let moved = |ready: Ready| Fate::Pending {
            target: self.next_target(),
            failures: self.front.expect("a proposal").1 + 1,
            ready,
        };
        match state {
            "-" => Fate::None,
            "unchanged" => stays(Ready::AsBefore),
            "client joins `R`" => stays(Ready::AndClient),
            "`T := T'`, `f := f + 1`, `R := {}`" => moved(Ready::Nobody),
            "`T := T'`, `f := f + 1`, `R := {client}`" => moved(Ready::Client),
            "**promoted** with `starting_round = T'`" => Fate::Promoted(self.next_target()),
            other if other.starts_with("**promoted**: ") => {
                assert!(other.contains("`starting_round = T`"), "{other}");
                Fate::Promoted(self.target())
            }
            other => panic!("the page says {other:?}, and the test has no word for it"),
        }
    }

    /// The `block_round` of the reply; `after` is the proposal for the task that comes next.
    pub(crate) fn block_round(&self, reply: &str, after: Option<i64>) -> Option<i64> {
        match reply {
            "absent" => None,
            "`T`" => Some(self.target()),
            "`T'`" => Some(self.next_target()),
            "that of the next task in the queue, else absent" => after,
            other => panic!("the page says {other:?}, and the test has no word for it"),
        }
    }
}

/// What becomes of the front task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// There is none.
    None,
    /// It stays.
    Pending { target: i64, failures: u32, ready: Ready },
    /// It is on the list from this round on.
    Promoted(i64),
}

/// Who is ready afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    AsBefore,
    AndClient,
    Nobody,
    Client,
}

/// One row of the page's table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) front: Vec<String>,
    pub(crate) heartbeat: Vec<String>,
    pub(crate) records: Vec<String>,
    pub(crate) state: String,
    pub(crate) block_round: String,
}

/// The rows of the table of heartbeats.
pub(crate) fn rows(page: &str) -> Vec<Row> {
    let header =
        "| front of the queue | heartbeat | records | new state | `block_round` in the reply |";
    let table = page.split(header).nth(1).expect("the table");
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    lines.map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [front, heartbeat, records, state, block_round] = cells[..] else {
        panic!("not five cells: {line}");
    };
    let list = |cell: &str| cell.split(", ").map(String::from).collect();
    let records = match records {
        "-" => Vec::new(),
        some => some.split(", ").map(|r| r.trim_matches('`').into()).collect(),
    };
    Row {
        front: list(front),
        heartbeat: list(heartbeat),
        records,
        state: state.into(),
        block_round: block_round.into(),
    }
}

impl Row {
    pub(crate) fn is_about(&self, situation: &Situation) -> bool {
        let mut conditions = self.front.iter().chain(&self.heartbeat);
        conditions.all(|condition| situation.meets(condition))
    }
}
