//! The methods by which a rendezvous is spoken to: those of `tensorflow.WorkerService` that concern it,
//! and those of `rondo.v1.Rendezvous`.

/// TensorFlow's service of a worker.
pub const SERVICE_WORKER: &str = "tensorflow.WorkerService";
/// The service of a worker that is Rondo's too, and of producers outside of its process.
pub const SERVICE_RENDEZVOUS: &str = "rondo.v1.Rendezvous";

macro_rules! methods {
    ($($name:ident = $path:literal,)*) => {
        /// A method by which a rendezvous is spoken to.
        #[allow(missing_docs)] // the names say it all
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RendezvousMethod {
            $($name,)*
        }

        impl RendezvousMethod {
            /// Every method.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The method's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The method's path, as HTTP/2 carries it.
            pub const fn path(self) -> &'static str {
                match self {
                    $(Self::$name => $path,)*
                }
            }

            /// The method at this path.
            pub fn from_path(path: &str) -> Option<Self> {
                match path {
                    $($path => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

methods!(
    GetStatus = "/tensorflow.WorkerService/GetStatus",
    RecvTensor = "/tensorflow.WorkerService/RecvTensor",
    CleanupGraph = "/tensorflow.WorkerService/CleanupGraph",
    CleanupAll = "/tensorflow.WorkerService/CleanupAll",
    MarkRecvFinished = "/tensorflow.WorkerService/MarkRecvFinished",
    Fetch = "/rondo.v1.Rendezvous/Fetch",
    Finish = "/rondo.v1.Rendezvous/Finish",
    Send = "/rondo.v1.Rendezvous/Send",
    Initialize = "/rondo.v1.Rendezvous/Initialize",
    Abort = "/rondo.v1.Rendezvous/Abort",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_leads_back_to_its_method() {
        for method in RendezvousMethod::ALL {
            let (service, name) = method.path()[1..].split_once('/').unwrap();
            assert!([SERVICE_WORKER, SERVICE_RENDEZVOUS].contains(&service), "{service}");
            assert_eq!(name, method.name());
            assert_eq!(RendezvousMethod::from_path(method.path()), Some(*method));
        }
    }

    #[test]
    fn other_paths_are_no_method() {
        for path in
            ["", "RecvTensor", "/tensorflow.WorkerService/RunGraph", "/rondo.v1.Rendezvous/"]
        {
            assert_eq!(RendezvousMethod::from_path(path), None, "{path}");
        }
    }
}
