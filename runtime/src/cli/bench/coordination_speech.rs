//! What tasks say to a coordination service, in either dialect.

use std::sync::Arc;

use bytes::Bytes;
use clap::ValueEnum;
use prost::Message;
use rondo_proto::{tf, xla};

/// The job's name in dialect T.
const JOB: &str = "jax_worker";
/// The run of each task's process.
const INCARNATION: u64 = 7;

/// A wire dialect of the coordination service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Dialect {
    /// `tensorflow.CoordinationService`, of jaxlib up to 0.9
    T,
    /// `xla.coordination.CoordinationService`, of jaxlib from 0.10 on
    X,
}

/// A method that is measured, or needed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A task registers.
    Register,
    /// A task is alive.
    Heartbeat,
    /// A key gets a value, whether it has one or not.
    Insert,
    /// A key's value.
    TryGet,
    /// One more.
    Increment,
    /// A directory's keys and values.
    Directory,
    /// A task comes to a barrier of all tasks.
    Barrier,
}

/// Speaks for all tasks, to one life of the service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speaker {
    dialect: Dialect,
    service_incarnation: u64,
}

/// A task's coming to a barrier of all tasks, which nobody came to before.
#[derive(Clone, Debug)]
pub(super) struct Coming {
    /// The barrier.
    pub(super) id: Arc<str>,
    /// How long the first waits for the last, in ms.
    pub(super) timeout_ms: u32,
}

impl Speaker {
    /// Speaks to a service of which nothing is known yet.
    pub(super) const fn new(dialect: Dialect) -> Self {
        Self { dialect, service_incarnation: 0 }
    }

    /// The method's path.
    pub(super) const fn path(self, said: Said) -> &'static str {
        macro_rules! method {
            ($name:literal) => {
                match self.dialect {
                    Dialect::T => concat!("/tensorflow.CoordinationService/", $name),
                    Dialect::X => concat!("/xla.coordination.CoordinationService/", $name),
                }
            };
        }
        match said {
            Said::Register => method!("RegisterTask"),
            Said::Heartbeat => method!("Heartbeat"),
            Said::Insert => method!("InsertKeyValue"),
            Said::TryGet => method!("TryGetKeyValue"),
            Said::Increment => method!("IncrementKeyValue"),
            Said::Directory => method!("GetKeyValueDir"),
            Said::Barrier => method!("Barrier"),
        }
    }

    /// Takes the answer to a registration: from now on it is known which life is spoken to.
    ///
    /// # Errors
    /// When the answer is none.
    pub(super) fn registered(&mut self, answer: Bytes) -> Result<(), prost::DecodeError> {
        let registered = xla::RegisterTaskResponse::decode(answer)?;
        self.service_incarnation = registered.service_incarnation;
        Ok(())
    }

    /// A task registers.
    pub(super) fn register(self, task: u32) -> Bytes {
        let (incarnation, source_task) = (INCARNATION, named(task));
        match self.dialect {
            Dialect::T => encoded(&tf::RegisterTaskRequest { incarnation, source_task }),
            Dialect::X => {
                let source_task_id = number(task);
                encoded(&xla::RegisterTaskRequest { incarnation, source_task_id })
            }
        }
    }

    /// A task is alive.
    pub(super) fn heartbeat(self, task: u32) -> Bytes {
        let (incarnation, source_task) = (INCARNATION, named(task));
        match self.dialect {
            Dialect::T => encoded(&tf::HeartbeatRequest { incarnation, source_task }),
            Dialect::X => encoded(&xla::HeartbeatRequest {
                incarnations: self.incarnations(task),
                incarnation,
                source_task_id: number(task),
            }),
        }
    }

    /// A key gets a value.
    pub(super) fn insert(self, key: String, value: Bytes) -> Bytes {
        match self.dialect {
            Dialect::T => encoded(&tf::InsertKeyValueRequest {
                kv: Some(tf::KeyValueEntry { key, value }),
                allow_overwrite: true,
            }),
            Dialect::X => encoded(&xla::InsertKeyValueRequest {
                incarnations: self.incarnations(0),
                kv: Some(xla::KeyValueEntry { key, value }),
                allow_overwrite: true,
            }),
        }
    }

    /// A key's value is asked for.
    pub(super) fn try_get(self, key: String) -> Bytes {
        let incarnations = self.incarnations(0);
        match self.dialect {
            Dialect::T => encoded(&tf::TryGetKeyValueRequest { key }),
            Dialect::X => encoded(&xla::TryGetKeyValueRequest { incarnations, key }),
        }
    }

    /// A key counts one more.
    pub(super) fn increment(self, key: String) -> Bytes {
        let (incarnations, increment) = (self.incarnations(0), 1);
        match self.dialect {
            Dialect::T => encoded(&tf::IncrementKeyValueRequest { key, increment }),
            Dialect::X => encoded(&xla::IncrementKeyValueRequest { incarnations, key, increment }),
        }
    }

    /// A directory is asked for.
    pub(super) fn directory(self, directory_key: String) -> Bytes {
        let incarnations = self.incarnations(0);
        match self.dialect {
            Dialect::T => encoded(&tf::GetKeyValueDirRequest { directory_key }),
            Dialect::X => encoded(&xla::GetKeyValueDirRequest { incarnations, directory_key }),
        }
    }

    /// A task comes to a barrier of all tasks.
    pub(super) fn barrier(self, coming: &Coming, task: u32) -> Bytes {
        let barrier_id = coming.id.to_string();
        let barrier_timeout_in_ms = i64::from(coming.timeout_ms);
        match self.dialect {
            Dialect::T => encoded(&tf::BarrierRequest {
                barrier_id,
                barrier_timeout_in_ms,
                source_task: named(task),
                ..Default::default()
            }),
            Dialect::X => encoded(&xla::BarrierRequest {
                incarnations: self.incarnations(task),
                barrier_id,
                barrier_timeout_in_ms,
                source_task_id: number(task),
                ..Default::default()
            }),
        }
    }

    fn incarnations(self, task: u32) -> Option<xla::Incarnations> {
        Some(xla::Incarnations {
            task_id: number(task),
            task_incarnation: INCARNATION,
            service_incarnation: self.service_incarnation,
        })
    }
}

fn encoded(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

fn named(task: u32) -> Option<tf::CoordinatedTask> {
    Some(tf::CoordinatedTask { job_name: JOB.into(), task_id: number(task), recoverable: false })
}

fn number(task: u32) -> i32 {
    i32::try_from(task).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use rondo_proto::convert::CoordinationMethod;

    use super::*;

    #[test]
    fn every_path_is_one_of_the_service() {
        let said = [
            (Said::Register, CoordinationMethod::RegisterTask),
            (Said::Heartbeat, CoordinationMethod::Heartbeat),
            (Said::Insert, CoordinationMethod::InsertKeyValue),
            (Said::TryGet, CoordinationMethod::TryGetKeyValue),
            (Said::Increment, CoordinationMethod::IncrementKeyValue),
            (Said::Directory, CoordinationMethod::GetKeyValueDir),
            (Said::Barrier, CoordinationMethod::Barrier),
        ];
        for (said, method) in said {
            for dialect in Dialect::value_variants() {
                let path = Speaker::new(*dialect).path(said);
                let (_, found) = CoordinationMethod::from_path(path).unwrap();
                assert_eq!(found, method, "{path}");
            }
        }
    }
}
