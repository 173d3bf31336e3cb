//! Who takes part, and who knows it.

use rondo_core::exchange::membership::{Member, Membership, Sizes, State};
use rondo_core::exchange::{InstanceRank, MembershipVersion, Role};
use rondo_core::exchange::{server, worker};

use super::{Net, Setup};

/// Nobody.
pub(super) fn empty(setup: Setup) -> Membership {
    let count = |of: usize| u32::try_from(of).unwrap();
    let sizes = Sizes { workers: count(setup.workers), servers: count(setup.servers), group: 1 };
    Membership { version: MembershipVersion::new(0), sizes, members: Vec::new() }
}

impl Net {
    /// Everybody starts, and learns who takes part.
    pub(super) fn all_join(&mut self) {
        (0..self.servers.len()).for_each(|nth| self.start_server(nth));
        (0..self.workers.len()).for_each(|nth| self.start_worker(nth));
        self.publish_all();
        self.hear_all_news();
    }

    /// All that run are members in their present run.
    pub(super) fn publish_all(&mut self) {
        let member = |role, nth: usize, incarnation| Member {
            role,
            rank: InstanceRank::new(u32::try_from(nth).unwrap()),
            incarnation,
            addresses: vec![format!("{role}:{nth}").into()],
            host: "here".into(),
            state: State::Up,
        };
        let servers = self.servers.iter().enumerate();
        let servers = servers.map(|(nth, it)| member(Role::Server, nth, it.incarnation));
        let workers = self.workers.iter().enumerate();
        let workers = workers.map(|(nth, it)| member(Role::Worker, nth, it.incarnation));
        self.membership.members = servers.chain(workers).collect();
        self.publish();
    }

    /// What the scheduler says of one of them.
    pub(super) fn declare(&mut self, role: Role, nth: usize, state: State) {
        let incarnation = match role {
            Role::Worker => self.workers[nth].incarnation,
            _ => self.servers[nth].incarnation,
        };
        let rank = InstanceRank::new(u32::try_from(nth).unwrap());
        for member in &mut self.membership.members {
            if member.role == role && member.rank == rank {
                (member.state, member.incarnation) = (state, incarnation);
            }
        }
        assert!(self.membership.is_ordered());
        self.publish();
    }

    /// A new version goes out to everybody.
    fn publish(&mut self) {
        self.membership.version = self.membership.version.next();
        let news = &self.membership;
        self.workers.iter_mut().for_each(|it| it.news.push_back(news.clone()));
        self.servers.iter_mut().for_each(|it| it.news.push_back(news.clone()));
    }

    /// One of the processes learns the next membership; the workers come first.
    pub(crate) fn hear_news(&mut self, nth: usize) {
        let nth = nth % (self.workers.len() + self.servers.len());
        if let Some(worker) = self.workers.get_mut(nth) {
            if let Some(news) = worker.news.pop_front() {
                self.tell_worker(nth, worker::Input::Membership(news));
            }
            return;
        }
        let nth = nth - self.workers.len();
        if let Some(news) = self.servers[nth].news.pop_front() {
            self.server_hears(nth, news);
        }
    }

    fn server_hears(&mut self, nth: usize, news: Membership) {
        let server = &mut self.servers[nth];
        let before = server.up.clone();
        for member in news.members.iter().filter(|member| member.role == Role::Worker) {
            let rank = member.rank.get();
            let run = server.runs.insert(rank, (member.incarnation, member.state));
            // Who was up before, and still is in the same run, may be lost by the server's own lights.
            match member.state {
                State::Up if run == Some((member.incarnation, State::Up)) => before.contains(&rank),
                State::Up => server.up.insert(rank),
                State::Left | State::Lost => server.up.remove(&rank),
            };
        }
        server.is_learning = true;
        self.tell_server(nth, server::Input::Membership(news));
        self.servers[nth].is_learning = false;
    }

    pub(super) fn hear_all_news(&mut self) {
        for nth in 0..self.workers.len() + self.servers.len() {
            (0..self.membership.version.get()).for_each(|_| self.hear_news(nth));
        }
    }
}
