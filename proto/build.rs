//! Compiles the .proto files without needing a `protoc` binary.

use std::error::Error;

const FILES: [&str; 23] = [
    "tensorflow/tensor.proto",
    "tensorflow/example.proto",
    "tensorflow/cluster.proto",
    "tensorflow/coordination.proto",
    "tensorflow/struct.proto",
    "tensorflow/grpc_payloads.proto",
    "tensorflow/worker.proto",
    "tensorflow/data/dispatcher.proto",
    "tensorflow/data/worker.proto",
    "xla/coordination.proto",
    "grpc/health/v1/health.proto",
    "rondo/journal/v1/coordination.proto",
    "rondo/journal/v1/journal.proto",
    "rondo/v1/admin.proto",
    "rondo/v1/bulk.proto",
    "rondo/v1/coordination.proto",
    "rondo/v1/dataset.proto",
    "rondo/v1/exchange.proto",
    "rondo/v1/manifest.proto",
    "rondo/v1/pipeline.proto",
    "rondo/v1/reading.proto",
    "rondo/v1/relay.proto",
    "rondo/v1/rendezvous.proto",
];

/// Three times as long as any other record, rare, and else copied with each of millions of others.
const LONG_RECORD: &str = ".rondo.journal.v1.DispatcherRecord.kind.register_dataset";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=protos");
    let descriptors = protox::compile(FILES, ["protos"])?;
    prost_build::Config::new()
        .bytes(["."])
        .btree_map(["."])
        .boxed(LONG_RECORD)
        .compile_fds(descriptors)?;
    Ok(())
}
