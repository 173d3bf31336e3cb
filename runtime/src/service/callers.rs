//! Who calls the coordination service. Dialect T's requests for keys say neither which task asks nor
//! which life of the namespace they are meant for; the connection they come on knows: who registered
//! on it, or sent a heartbeat, and in which life.
//!
//! A client that gives up waiting for a key abandons the call without cancelling it. Such calls must
//! not fill the connection, or its heartbeats would find no room: hence a bound of their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rondo_core::coordination::{Caller, Dialect, Reply};
use rondo_core::ids::{ServiceIncarnation, TaskIndex};
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
    /// Nobody has said who he is.
    Nobody,
    /// One task alone.
    One(TaskIndex),
    /// More than one, as when processes share a relay, or a test has them all in one.
    Several,
}

impl Callers {
    /// Adds to `caller` what the connection of `call` knows and the request does not say.
    pub(super) fn identify(&self, call: &Call, caller: &mut Caller) {
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
                OnConnection::Nobody => OnConnection::One(task),
                OnConnection::One(one) if one == task => known.task,
                OnConnection::One(_) | OnConnection::Several => OnConnection::Several,
            };
        } else if let OnConnection::One(task) = known.task {
            caller.task = Some(task);
        }
        caller.peer = Some(known.peer.clone());
        if caller.dialect == Dialect::T {
            caller.life = known.life;
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
    use bytes::Bytes;

    const LIFE: ServiceIncarnation = ServiceIncarnation::new(5);

    fn identified(callers: &Callers, connection: u64, mut caller: Caller) -> Caller {
        let call = Call {
            path: String::new(),
            message: Bytes::new(),
            peer: "10.0.0.1:7".parse().unwrap(),
            connection: ConnectionId::new(connection),
            worker: None,
        };
        callers.identify(&call, &mut caller);
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
