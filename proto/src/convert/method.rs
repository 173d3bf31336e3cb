//! The methods of `tensorflow.data.DispatcherService`.

use rondo_core::status::{Code, Status};

/// The path of the workers' method that a dispatcher calls.
pub const PROCESS_TASK_PATH: &str = "/tensorflow.data.WorkerService/ProcessTask";

macro_rules! methods {
    ($($name:ident),* $(,)?) => {
        /// A method of `tensorflow.data.DispatcherService`.
        #[allow(missing_docs)] // the names say it all
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Method {
            $($name,)*
        }

        impl Method {
            /// Every method.
            pub const ALL: [Self; 18] = [$(Self::$name,)*];

            /// The method's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The method's path, as HTTP/2 carries it.
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$name => {
                        concat!("/tensorflow.data.DispatcherService/", stringify!($name))
                    })*
                }
            }

            /// The method at this path.
            pub fn from_path(path: &str) -> Option<Self> {
                match path.strip_prefix("/tensorflow.data.DispatcherService/")? {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

methods!(
    GetVersion,
    GetOrRegisterDataset,
    GetDataServiceMetadata,
    GetDataServiceConfig,
    DisableCompressionAtRuntime,
    GetOrCreateJob,
    GetOrCreateIteration,
    ClientHeartbeat,
    ReleaseIterationClient,
    WorkerHeartbeat,
    WorkerUpdate,
    GetDatasetDef,
    GetSplit,
    MaybeRemoveTask,
    GetWorkers,
    Snapshot,
    GetSnapshotSplit,
    GetSnapshotStreams,
);

impl Method {
    /// The refusal of a method that is known but not offered.
    pub fn unimplemented(self) -> Status {
        let text = format!(
            "{} is not implemented: this dispatcher does not write distributed snapshots \
             (`distributed_save`); save with `tf.data.Dataset.save` instead",
            self.name()
        );
        Status::new(Code::Unimplemented, text)
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn every_path_leads_back_to_its_method() {
        for method in Method::ALL {
            assert_eq!(Method::from_path(method.path()), Some(method));
        }
        assert_eq!(Method::GetSplit.path(), "/tensorflow.data.DispatcherService/GetSplit");
    }

    #[test]
    fn other_paths_are_no_method() {
        for path in [
            "",
            "/",
            "GetSplit",
            "/tensorflow.data.DispatcherService/",
            "/tensorflow.data.DispatcherService/getsplit",
            "/tensorflow.data.DispatcherService/GetSplit/",
            "/tensorflow.data.WorkerService/GetElement",
        ] {
            assert_eq!(Method::from_path(path), None, "{path}");
        }
    }
}
