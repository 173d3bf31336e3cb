//! The methods of `tensorflow.data.WorkerService`.

macro_rules! methods {
    ($($name:ident),* $(,)?) => {
        /// A method of `tensorflow.data.WorkerService`.
        #[allow(missing_docs)] // the names say it all
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum WorkerMethod {
            $($name,)*
        }

        impl WorkerMethod {
            /// Every method.
            pub const ALL: [Self; 4] = [$(Self::$name,)*];

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
                        concat!("/tensorflow.data.WorkerService/", stringify!($name))
                    })*
                }
            }

            /// The method at this path.
            pub fn from_path(path: &str) -> Option<Self> {
                match path.strip_prefix("/tensorflow.data.WorkerService/")? {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

methods!(ProcessTask, GetElement, GetWorkerTasks, GetSnapshotTaskProgresses);

#[cfg(test)]
mod tests {
    use super::WorkerMethod;
    use crate::convert::PROCESS_TASK_PATH;

    #[test]
    fn every_path_leads_back_to_its_method() {
        for method in WorkerMethod::ALL {
            assert_eq!(WorkerMethod::from_path(method.path()), Some(method));
        }
        assert_eq!(WorkerMethod::ProcessTask.path(), PROCESS_TASK_PATH);
    }

    #[test]
    fn other_paths_are_no_method() {
        for path in [
            "",
            "GetElement",
            "/tensorflow.data.WorkerService/",
            "/tensorflow.data.DispatcherService/GetSplit",
        ] {
            assert_eq!(WorkerMethod::from_path(path), None, "{path}");
        }
    }
}
