//! The callers of the coordination service. A request of dialect T says neither for which life of the
//! namespace it is meant nor which process of its task sends it, and a request for keys does not even say
//! the task. The connection it comes on knows all three from registrations and heartbeats.
//!
//! A client that gives up waiting for a key abandons the call without cancelling it. Such calls must
//! not fill the connection, or its heartbeats would find no room: hence a bound of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_core::coordination::{Caller, Dialect, Reply};
use rondo_core::ids::{Incarnation, ServiceIncarnation, TaskIndex};
use rondo_core::status::{Code, Status};

use crate::transport::{Call, ConnectionId};

/// Connections remembered; above it, the oldest is forgotten, and its next request counts as one of
/// nobody in particular.
const CONNECTIONS_MAX: usize = 65_536;

/// The connections of a namespace.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<BTreeMap<ConnectionId, Known>>);

/// What is known of a connection.
#[derive(Clone, Debug)]
struct Known {
    peer: Arc<str>,
    life: Option<ServiceIncarnation>,
    task: OnConnection,
    /// Calls that wait for what may never come.
    waiting: usize,
}

/// A waiting call's place; leaves with it.
pub(super) struct Place<'a> {
    callers: &'a Callers,
    connection: ConnectionId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.callers.connections().get_mut(&self.connection) {
            known.waiting = known.waiting.saturating_sub(1);
        }
    }
}

/// Whose a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnConnection {
    /// No request has named a task.
    Nobody,
    /// One task alone, and its process if that has registered or sent a heartbeat.
    One(TaskIndex, Option<Incarnation>),
    /// More than one, as when a test runs all tasks in one process.
    Several,
}

impl Callers {
    /// Adds to `caller` what the connection of `call` knows and the request does not say. `said` is the
    /// incarnation in a registration or a heartbeat.
    pub(super) fn identify(&self, call: &Call, said: Option<Incarnation>, caller: &mut Caller) {
        let mut connections = self.connections();
        if !connections.contains_key(&call.connection) && connections.len() >= CONNECTIONS_MAX {
            connections.pop_first();
        }
        let known = connections.entry(call.connection).or_insert_with(|| Known {
            peer: call.peer.to_string().into(),
            life: None,
            task: OnConnection::Nobody,
            waiting: 0,
        });
        if let Some(task) = caller.task {
            known.task = match known.task {
                OnConnection::Nobody => OnConnection::One(task, said),
                OnConnection::One(one, before) if one == task => {
                    OnConnection::One(task, said.or(before))
                }
                OnConnection::One(..) | OnConnection::Several => OnConnection::Several,
            };
        } else if let OnConnection::One(task, _) = known.task {
            caller.task = Some(task);
        }
        caller.peer = Some(known.peer.clone());
        if caller.dialect == Dialect::T {
            caller.life = known.life;
            caller.incarnation = match known.task {
                OnConnection::One(_, process) => process,
                OnConnection::Nobody | OnConnection::Several => None,
            };
        }
    }

    /// Gives a call a place among those of its connection that wait for what may never come.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when `places` are taken.
    pub(super) fn place(
        &self,
        connection: ConnectionId,
        places: usize,
    ) -> Result<Place<'_>, Status> {
        if let Some(known) = self.connections().get_mut(&connection) {
            if known.waiting >= places {
                let text = format!(
                    "{places} calls wait on this connection already: the bound is three quarters \
                     of --calls-per-connection-max"
                );
                return Err(Status::new(Code::ResourceExhausted, text));
            }
            known.waiting = known.waiting.saturating_add(1);
        }
        Ok(Place { callers: self, connection })
    }

    /// Learns from an answer in which life the connection takes part.
    pub(super) fn learn(&self, connection: ConnectionId, reply: &Reply) {
        let (Reply::Registered(life) | Reply::Heartbeat(life)) = reply else { return };
        if let Some(known) = self.connections().get_mut(&connection) {
            known.life = Some(*life);
        }
    }

    /// Forgets a connection that is closed.
    pub(super) fn forget(&self, connection: ConnectionId) {
        self.connections().remove(&connection);
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::RequestMemory;
    use crate::transport::budget::Budget;
    use bytes::Bytes;

    const LIFE: ServiceIncarnation = ServiceIncarnation::new(5);

    fn identified(callers: &Callers, connection: u64, caller: Caller) -> Caller {
        saying(callers, connection, None, caller)
    }

    /// A registration or a heartbeat that says an incarnation.
    fn saying(callers: &Callers, connection: u64, said: Option<u64>, mut caller: Caller) -> Caller {
        let call = Call {
            path: String::new(),
            message: Bytes::new(),
            peer: "10.0.0.1:7".parse().unwrap(),
            connection: ConnectionId::new(connection),
            worker: None,
            memory: RequestMemory::default(),
            budget: Budget::new(0, 0),
        };
        callers.identify(&call, said.map(Incarnation::new), &mut caller);
        caller
    }

    fn in_t(task: Option<i32>) -> Caller {
        Caller { dialect: Dialect::T, task: task.map(TaskIndex::new), ..Caller::default() }
    }

    #[test]
    fn requests_for_keys_belong_to_the_life_in_which_their_connection_registered() {
        let callers = Callers::default();
        assert_eq!(identified(&callers, 1, in_t(Some(3))).life, None);
        callers.learn(ConnectionId::new(1), &Reply::Registered(LIFE));
        callers.learn(ConnectionId::new(1), &Reply::ShutDown);
        let caller = identified(&callers, 1, in_t(None));
        assert_eq!((caller.life, caller.task), (Some(LIFE), Some(TaskIndex::new(3))));
        assert_eq!(caller.peer.as_deref(), Some("10.0.0.1:7"));
        let other = identified(&callers, 2, in_t(None));
        assert_eq!((other.life, other.task), (None, None));
        let later = ServiceIncarnation::new(6);
        callers.learn(ConnectionId::new(1), &Reply::Heartbeat(later));
        assert_eq!(identified(&callers, 1, in_t(None)).life, Some(later));
        callers.forget(ConnectionId::new(1));
        assert_eq!(identified(&callers, 1, in_t(None)).life, None);
    }

    #[test]
    fn a_request_of_dialect_t_comes_from_the_process_that_its_connection_belongs_to() {
        let callers = Callers::default();
        let process = |connection, said, task| {
            saying(&callers, connection, said, in_t(Some(task))).incarnation.map(Incarnation::get)
        };
        assert_eq!(process(1, Some(101), 3), Some(101), "the registration itself");
        assert_eq!(process(1, None, 3), Some(101), "a barrier");
        assert_eq!(process(2, Some(102), 3), Some(102), "the next process of the task");
        assert_eq!(process(1, None, 3), Some(101), "its former process is still the former one");
        assert_eq!(process(1, Some(103), 3), Some(103), "an agent that begins anew");
        assert_eq!(process(3, None, 3), None, "nothing was said");
        assert_eq!(process(1, Some(104), 4), None, "two tasks on one connection");
        assert_eq!(process(1, Some(103), 3), None);
    }

    #[test]
    fn dialect_x_says_its_life_itself() {
        let callers = Callers::default();
        let caller = Caller { life: Some(ServiceIncarnation::new(0)), ..Caller::default() };
        identified(&callers, 1, caller.clone());
        callers.learn(ConnectionId::new(1), &Reply::Registered(LIFE));
        assert_eq!(identified(&callers, 1, caller.clone()).life, caller.life);
    }

    #[test]
    fn of_several_tasks_on_a_connection_nobody_knows_who_asks() {
        let callers = Callers::default();
        for task in [1, 2, 1] {
            identified(&callers, 1, in_t(Some(task)));
        }
        assert_eq!(identified(&callers, 1, in_t(None)).task, None);
        assert_eq!(identified(&callers, 1, in_t(Some(2))).task, Some(TaskIndex::new(2)));
    }

    #[test]
    fn so_many_calls_of_a_connection_wait_and_leave_their_places() {
        let callers = Callers::default();
        identified(&callers, 1, in_t(Some(0)));
        identified(&callers, 2, in_t(Some(1)));
        let place = |connection| callers.place(ConnectionId::new(connection), 2);
        let (first, _second) = (place(1).unwrap(), place(1).unwrap());
        assert_eq!(place(1).err().unwrap().code, Code::ResourceExhausted);
        assert!(place(2).is_ok(), "others have places of their own");
        drop(first);
        assert!(place(1).is_ok());
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let callers = Callers::default();
        for number in 0..=CONNECTIONS_MAX as u64 {
            identified(&callers, number, in_t(Some(0)));
        }
        assert_eq!(callers.connections().len(), CONNECTIONS_MAX);
        assert_eq!(identified(&callers, 0, in_t(None)).task, None);
    }
}
