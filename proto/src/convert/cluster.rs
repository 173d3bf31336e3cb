//! Cluster specs: `ClusterDef`.

use bytes::Bytes;
use prost::Message;
use rondo_core::cluster::{ClusterSpec, Error, Fault};
use rondo_core::limits::CLUSTER_DOCUMENT_BYTES_MAX;
use rondo_core::status::{Code, Status};

use crate::tf;

/// Encodes `ClusterDef`: jobs in the order of their names, as TensorFlow does.
pub fn encode_cluster_def(spec: &ClusterSpec) -> Bytes {
    let mut names: Vec<&str> = spec.jobs().collect();
    names.sort_unstable();
    let job = |name: &str| {
        let tasks = spec.job(name).into_iter().flatten();
        // The core keeps indices within 31 bits.
        let task = |(index, address): (&u32, &String)| {
            Some((i32::try_from(*index).ok()?, address.clone()))
        };
        tf::JobDef { name: name.into(), tasks: tasks.filter_map(task).collect() }
    };
    tf::ClusterDef { job: names.into_iter().map(job).collect() }.encode_to_vec().into()
}

/// Decodes `ClusterDef`.
///
/// # Errors
/// INVALID_ARGUMENT for what is none, a negative index, a job without a name or named twice;
/// RESOURCE_EXHAUSTED for more jobs or tasks than a spec may have.
pub fn decode_cluster_def(bytes: &Bytes) -> Result<ClusterSpec, Status> {
    let size = bytes.len();
    if size > CLUSTER_DOCUMENT_BYTES_MAX {
        let text = format!(
            "ClusterDef is {size} bytes long; at most {CLUSTER_DOCUMENT_BYTES_MAX} are allowed"
        );
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    let message = tf::ClusterDef::decode(bytes.clone()).map_err(|error| {
        invalid(format!("the {size} bytes received are no ClusterDef: {error}"))
    })?;
    let mut spec = ClusterSpec::new();
    for job in message.job {
        if spec.job(&job.name).is_ok() {
            return Err(invalid(format!("ClusterDef.job: {:?} is named twice", job.name)));
        }
        spec.add_job(&job.name).map_err(refused)?;
        for (index, address) in job.tasks {
            let index = u32::try_from(index).map_err(|_| {
                invalid(format!("ClusterDef.job {:?}: {index} is no index of a task", job.name))
            })?;
            spec.add_task(&job.name, index, address).map_err(refused)?;
        }
    }
    Ok(spec)
}

fn invalid(text: String) -> Status {
    Status::new(Code::InvalidArgument, text)
}

fn refused(error: Error) -> Status {
    let code = match error.fault {
        Fault::TooLarge => Code::ResourceExhausted,
        _ => Code::InvalidArgument,
    };
    Status::new(code, format!("ClusterDef: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(job: Vec<tf::JobDef>) -> Bytes {
        tf::ClusterDef { job }.encode_to_vec().into()
    }

    fn job(name: &str, tasks: &[(i32, &str)]) -> tf::JobDef {
        let tasks = tasks.iter().map(|(index, address)| (*index, (*address).to_owned())).collect();
        tf::JobDef { name: name.into(), tasks }
    }

    #[test]
    fn a_spec_comes_back_and_jobs_are_sorted() {
        let mut spec = ClusterSpec::dense("worker", ["a:1", "b:2"]).unwrap();
        spec.add_task("ps", 3, "c:3").unwrap();
        spec.add_job("idle").unwrap();
        let bytes = encode_cluster_def(&spec);
        let read = decode_cluster_def(&bytes).unwrap();
        assert_eq!(read, spec);
        assert_eq!(read.jobs().collect::<Vec<_>>(), ["idle", "ps", "worker"]);
    }

    /// As the messages of the field are laid out: tags and lengths written by hand, key 0 left out.
    #[test]
    fn bytes_of_others_are_read() {
        let bytes = b"\x0a\x10\x0a\x06worker\x12\x06\x12\x04a:10".as_slice();
        let spec = decode_cluster_def(&Bytes::copy_from_slice(bytes)).unwrap();
        assert_eq!(spec.task_address("worker", 0).unwrap(), "a:10");
    }

    #[test]
    fn what_is_odd_is_refused() {
        let cases = [
            (message(vec![job("w", &[(-1, "a")])]), "-1 is no index"),
            (message(vec![job("w", &[]), job("w", &[])]), "\"w\" is named twice"),
            (message(vec![job("", &[])]), "\"\" is no name of a job"),
            (Bytes::from_static(b"\x0a\xff"), "are no ClusterDef"),
        ];
        for (bytes, wanted) in cases {
            let refused = decode_cluster_def(&bytes).unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument);
            assert!(refused.message.contains(wanted), "{refused:?}");
        }
    }
}
