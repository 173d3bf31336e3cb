//! The coordination service's methods in all that it speaks.

use rondo_core::coordination::Dialect;

/// The full name of dialect T's service.
pub const SERVICE_T: &str = "tensorflow.CoordinationService";
/// The full name of dialect X's service.
pub const SERVICE_X: &str = "xla.coordination.CoordinationService";
/// The full name of our own service, for what no dialect has.
pub const SERVICE_RONDO: &str = "rondo.v1.Coordination";
/// The path of the one method that is answered with a stream.
pub const WATCH_KEYS_PATH: &str = "/rondo.v1.Coordination/WatchKeys";

/// The services by their names.
const SERVICES: [(&str, Dialect); 3] =
    [(SERVICE_T, Dialect::T), (SERVICE_X, Dialect::X), (SERVICE_RONDO, Dialect::Rondo)];

/// Which dialects have a method.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    T,
    X,
    Both,
    Rondo,
}

impl In {
    const fn has(self, dialect: Dialect) -> bool {
        matches!(
            (self, dialect),
            (Self::T | Self::Both, Dialect::T)
                | (Self::X | Self::Both, Dialect::X)
                | (Self::Rondo, Dialect::Rondo)
        )
    }
}

macro_rules! methods {
    ($($name:ident in $dialects:ident),* $(,)?) => {
        /// A method of the coordination service.
        #[allow(missing_docs)] // the names say it all
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum CoordinationMethod {
            $($name,)*
        }

        impl CoordinationMethod {
            /// Every method.
            pub const ALL: [Self; 24] = [$(Self::$name,)*];

            /// The method's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            const fn dialects(self) -> In {
                match self {
                    $(Self::$name => In::$dialects,)*
                }
            }

            fn of_name(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

methods!(
    RegisterTask in Both,
    Heartbeat in Both,
    WaitForAllTasks in T,
    ShutdownTask in Both,
    ResetTask in T,
    ReportErrorToTask in T,
    ReportErrorToService in Both,
    PollForError in Both,
    GetTaskState in T,
    GetJobState in T,
    WatchJobState in T,
    WatchTasks in X,
    InsertKeyValue in Both,
    GetKeyValue in Both,
    TryGetKeyValue in Both,
    IncrementKeyValue in Both,
    GetKeyValueDir in Both,
    DeleteKeyValue in Both,
    Barrier in Both,
    CancelBarrier in Both,
    GetAliveTasks in Both,
    PutKey in Rondo,
    DeleteKey in Rondo,
    WatchKeys in Rondo,
);

impl CoordinationMethod {
    /// The dialect and the method at this path, such as
    /// `/xla.coordination.CoordinationService/Heartbeat`.
    pub fn from_path(path: &str) -> Option<(Dialect, Self)> {
        let (service, method) = path.strip_prefix('/')?.split_once('/')?;
        let (_, dialect) = SERVICES.into_iter().find(|(name, _)| *name == service)?;
        let method = Self::of_name(method)?;
        method.dialects().has(dialect).then_some((dialect, method))
    }

    /// Whether a request holds a value.
    pub const fn has_value(self) -> bool {
        matches!(self, Self::InsertKeyValue | Self::PutKey)
    }

    /// Whether a request may be as long as a value, or a task's devices.
    pub(super) const fn is_long(self) -> bool {
        self.has_value() || matches!(self, Self::WaitForAllTasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_has_the_methods_of_the_table() {
        let methods = |service: &str, dialect| {
            let has = |method: &&CoordinationMethod| {
                let path = format!("/{service}/{}", method.name());
                CoordinationMethod::from_path(&path) == Some((dialect, **method))
            };
            CoordinationMethod::ALL.iter().filter(has).count()
        };
        assert_eq!(methods("tensorflow.CoordinationService", Dialect::T), 20);
        assert_eq!(methods("xla.coordination.CoordinationService", Dialect::X), 15);
        assert_eq!(methods("rondo.v1.Coordination", Dialect::Rondo), 3);
    }

    #[test]
    fn other_paths_are_no_method() {
        for path in [
            "",
            "/",
            "/tensorflow.CoordinationService/",
            "/tensorflow.CoordinationService/WatchTasks",
            "/tensorflow.CoordinationService/heartbeat",
            "/xla.coordination.CoordinationService/WatchJobState",
            "/xla.coordination.CoordinationService/GetTaskState",
            "/xla.CoordinationService/Heartbeat",
            "/rondo.v1.Coordination/Heartbeat",
            "tensorflow.CoordinationService/Heartbeat",
        ] {
            assert_eq!(CoordinationMethod::from_path(path), None, "{path}");
        }
    }
}
