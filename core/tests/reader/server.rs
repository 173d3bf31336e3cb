//! A dispatcher as a reader by split sees it: what it says it remembers, whatever happens to it.

use std::collections::{BTreeMap, BTreeSet};

use rondo_core::ids::{ClientId, JobId, TaskId};
use rondo_core::reader::{
    Answer, HeartbeatAnswer, HeldSplit, Member, Request, SplitProgress, SplitsAnswer, Task,
};
use rondo_core::status::{Code, Status};

/// What became of a split.
#[derive(Clone, Debug, Default)]
pub(crate) struct Split {
    pub(crate) holder: Option<ClientId>,
    pub(crate) records: u64,
    pub(crate) is_finished: bool,
    /// Which client acknowledged which of its records.
    pub(crate) by: Vec<(ClientId, std::ops::Range<u64>)>,
}

/// The dispatcher.
pub(crate) struct Server {
    pub(crate) splits: Vec<Split>,
    pub(crate) clients: BTreeSet<ClientId>,
    last_client: i64,
    /// Workers that have a task, by name.
    pub(crate) tasks: BTreeMap<String, TaskId>,
    /// Those of them that serve elements only.
    pub(crate) by_element: BTreeSet<String>,
    /// Whether workers have all that is left.
    pub(crate) is_with_workers: bool,
}

impl Server {
    pub(crate) fn new(splits: usize) -> Self {
        Self {
            splits: vec![Split::default(); splits],
            clients: BTreeSet::new(),
            last_client: 3000,
            tasks: BTreeMap::new(),
            by_element: BTreeSet::new(),
            is_with_workers: false,
        }
    }

    pub(crate) fn take(&mut self, request: &Request) -> Result<Answer, Status> {
        Ok(match request {
            Request::CreateJob => Answer::Job(JobId::new(5000)),
            Request::CreateIteration { .. } => {
                self.last_client += 1;
                let client = ClientId::new(self.last_client);
                self.clients.insert(client);
                Answer::Client(client)
            }
            Request::Heartbeat { client, .. } => {
                self.known(*client)?;
                let tasks = self.tasks.iter().map(|(name, id)| self.task(name, *id)).collect();
                let is_finished = self.is_finished();
                Answer::Heartbeat(HeartbeatAnswer { tasks, is_finished, block_round: None })
            }
            Request::HoldSplits { client, hold, progress, group } => {
                self.known(*client)?;
                Answer::Splits(self.hold(*client, *hold as usize, progress, *group))
            }
            Request::Release { client } => {
                self.known(*client)?;
                self.forget(*client);
                Answer::Released
            }
            Request::RemoveTask { .. } => panic!("nobody coordinates here"),
        })
    }

    fn known(&self, client: ClientId) -> Result<(), Status> {
        if self.clients.contains(&client) {
            return Ok(());
        }
        Err(Status::new(Code::NotFound, "Unknown iteration client id"))
    }

    /// A client is gone: what it holds is others', behind what it acknowledged.
    pub(crate) fn forget(&mut self, client: ClientId) {
        self.clients.remove(&client);
        for split in self.splits.iter_mut().filter(|split| split.holder == Some(client)) {
            split.holder = None;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.splits.iter().all(|split| split.is_finished)
    }

    fn task(&self, name: &str, id: TaskId) -> Task {
        let mut servers = vec![("grpc".into(), name.into())];
        if !self.by_element.contains(name) {
            servers.push(("rondo".into(), format!("{name}/r").into()));
        }
        Task { id, worker: name.into(), servers, starting_round: 0 }
    }

    fn hold(
        &mut self,
        client: ClientId,
        hold: usize,
        progress: &[SplitProgress],
        group: Option<Member>,
    ) -> SplitsAnswer {
        for SplitProgress { place, records, is_finished } in progress {
            let split = &mut self.splits[usize::try_from(*place).unwrap()];
            if split.holder != Some(client) || split.is_finished {
                continue;
            }
            if *records > split.records {
                split.by.push((client, split.records..*records));
                split.records = *records;
            }
            if *is_finished {
                (split.is_finished, split.holder) = (true, None);
            }
        }
        let is_mine = |place: usize| {
            let of = |it: Member| place % it.size as usize == it.index as usize;
            group.is_none_or(of)
        };
        let mut held = self.splits.iter().filter(|split| split.holder == Some(client)).count();
        for (place, split) in self.splits.iter_mut().enumerate() {
            if held < hold && split.holder.is_none() && !split.is_finished && is_mine(place) {
                split.holder = Some(client);
                held += 1;
            }
        }
        let splits = self.splits.iter().enumerate();
        let splits = splits.filter(|(_, split)| split.holder == Some(client));
        let splits = splits.map(|(place, split)| HeldSplit {
            place: place as u64,
            split: value_of(place as u64),
            records: split.records,
        });
        SplitsAnswer {
            splits: splits.collect(),
            is_finished: self.is_finished(),
            is_with_workers: self.is_with_workers,
        }
    }
}

/// The value of the split at a place.
pub(crate) const fn value_of(place: u64) -> i64 {
    place.cast_signed() * 7 - 3
}
