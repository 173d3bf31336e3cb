//! Code generated from the .proto files; their comments say what the messages mean.

/// Package `tensorflow`.
#[allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "generated")]
pub mod tf {
    include!(concat!(env!("OUT_DIR"), "/tensorflow.rs"));

    /// Package `tensorflow.data`.
    pub mod data {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.data.rs"));
    }

    /// Package `tensorflow.distributed_runtime`.
    pub mod distributed_runtime {
        include!(concat!(env!("OUT_DIR"), "/tensorflow.distributed_runtime.rs"));
    }
}

/// Package `xla.coordination`.
#[allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "generated")]
pub mod xla {
    include!(concat!(env!("OUT_DIR"), "/xla.coordination.rs"));
}

/// Package `grpc.health.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "generated")]
pub mod health {
    include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.rs"));
}

/// Package `rondo.journal.v1`.
#[allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "generated")]
pub mod journal {
    include!(concat!(env!("OUT_DIR"), "/rondo.journal.v1.rs"));

    /// Package `rondo.journal.v1.coordination`.
    pub mod coordination {
        include!(concat!(env!("OUT_DIR"), "/rondo.journal.v1.coordination.rs"));
    }
}

/// Package `rondo.v1`: administration, and what no dialect of the coordination service has.
#[allow(missing_docs, clippy::all, unreachable_pub, unused_qualifications, reason = "generated")]
pub mod admin {
    include!(concat!(env!("OUT_DIR"), "/rondo.v1.rs"));
}
