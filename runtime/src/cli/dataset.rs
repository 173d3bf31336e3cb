//! `rondo dataset`: registering datasets of Rondo's own, and what is registered.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{Subcommand, ValueEnum};
use prost::Message;
use rondo_core::dispatcher::Compression;
use rondo_core::element::{Component, Spec};
use rondo_core::status::{Code, Status};
use rondo_data::{DataError, Dataset, Pipeline, Stores, plan};
use rondo_proto::admin::{DatasetStatus, DeleteDatasetRequest};
use rondo_proto::convert::{
    DELETE_DATASET_PATH, RegisteredMetadata, decode_definition_answer, decode_metadata_answer,
    decode_registered, decode_version_answer, encode_get_definition, encode_get_metadata,
    encode_metadata, encode_register, encode_version_request,
};
use rondo_proto::element;

use super::ask::{ServerArgs, address, name, noticed, run, said_by};
use super::exit::{Exit, Failure, of_data, of_status};
use super::journal::say;
use super::table::Table;
use crate::transport::{Client, Transport};

/// How long the dispatcher may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to do about datasets.
#[derive(Subcommand, Clone, Debug)]
pub(super) enum DatasetCommand {
    /// Plan a pipeline and register it
    ///
    /// Its files are found and looked into here, and divided into splits. Workers read the same
    /// files, so they must reach them by the same names.
    Register {
        /// The pipeline, in YAML or (*.json) JSON
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// The id to register it under; else one of its content
        #[arg(long, value_name = "NAME", value_parser = name)]
        id: Option<String>,

        /// Whether elements travel compressed to TensorFlow's clients
        #[arg(long, value_name = "HOW", default_value = "none")]
        compression: CompressionArg,

        /// Pass over records that cannot be read, and count them, as `skip_corrupt: true` in the pipeline
        #[arg(long)]
        skip_corrupt: bool,

        /// Replace the dataset of this id: new jobs read the new version, and jobs that are there keep theirs
        #[arg(long, requires = "id")]
        replace: bool,

        /// The server to ask
        #[arg(
            long,
            env = "RONDO_SERVER",
            value_name = "HOST:PORT",
            default_value = "127.0.0.1:5050",
            value_parser = address
        )]
        server: String,
    },
    /// Show a dataset: its pipeline, files, splits and columns
    Show {
        /// Its id
        #[arg(value_name = "ID", value_parser = name)]
        id: String,

        /// The server to ask
        #[arg(
            long,
            env = "RONDO_SERVER",
            value_name = "HOST:PORT",
            default_value = "127.0.0.1:5050",
            value_parser = address
        )]
        server: String,
    },
    /// Delete a dataset that no job has, with all its versions
    ///
    /// `rondo job delete` deletes its jobs first.
    Delete {
        /// Its id
        #[arg(value_name = "ID", value_parser = name)]
        id: String,

        /// The server to ask
        #[arg(
            long,
            env = "RONDO_SERVER",
            value_name = "HOST:PORT",
            default_value = "127.0.0.1:5050",
            value_parser = address
        )]
        server: String,
    },
    /// Show all datasets
    List {
        /// The server to ask
        #[arg(
            long,
            env = "RONDO_SERVER",
            value_name = "HOST:PORT",
            default_value = "127.0.0.1:5050",
            value_parser = address
        )]
        server: String,
    },
}

/// Whether elements travel compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CompressionArg {
    /// As they are
    None,
    /// By snappy
    Snappy,
}

/// Carries out a command about datasets.
pub(super) fn dataset(command: &DatasetCommand) -> Result<(), Failure> {
    say(run(carry_out(command))?.trim_end())
}

async fn carry_out(command: &DatasetCommand) -> Result<String, Failure> {
    match command {
        DatasetCommand::Register { file, id, compression, skip_corrupt, replace, server } => {
            let (compression, skip_corrupt) = (*compression, *skip_corrupt);
            let how = How { compression, skip_corrupt, replaces: *replace };
            let registered = register(server, id.as_deref(), file, how).await?;
            Ok(told(id.as_deref(), &registered))
        }
        DatasetCommand::Show { id, server } => show(server, id).await,
        DatasetCommand::Delete { id, server } => {
            let request = DeleteDatasetRequest { dataset_id: id.clone() };
            let message = Bytes::from(request.encode_to_vec());
            ask(server, (DELETE_DATASET_PATH, message)).await?;
            Ok(format!("dataset {id:?} deleted"))
        }
        DatasetCommand::List { server } => list(server).await,
    }
}

/// What a registration has come to. A version other than the first has an id of its own.
fn told(wished: Option<&str>, registered: &str) -> String {
    match wished.filter(|wished| *wished != registered) {
        None => format!("dataset {registered:?} registered"),
        Some(wished) => format!(
            "dataset {wished:?} registered as version {registered:?}: new jobs read it, and jobs that \
             are there keep the version they have"
        ),
    }
}

/// Hexadecimal digits of a definition's hash that are the id of a dataset without a name.
const CONTENT_DIGITS: usize = 16;

/// How to register what a file says.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) compression: CompressionArg,
    /// Also when the pipeline does not say so.
    pub(super) skip_corrupt: bool,
    /// Whether another dataset of the same id is replaced.
    pub(super) replaces: bool,
}

/// Plans the pipeline in a file, and registers it. Without an id it gets one of its content, so that
/// equal ones are the same dataset.
pub(super) async fn register(
    dispatcher: &str,
    id: Option<&str>,
    file: &Path,
    how: How,
) -> Result<String, Failure> {
    let mut pipeline = read(file)?;
    pipeline.skip_corrupt |= how.skip_corrupt;
    let dataset = plan(&pipeline, &Stores::from_env()).await.map_err(|error| of(file, &error))?;
    let registered = register_planned(dispatcher, id, &dataset, how).await;
    registered
        .map_err(|Failure { exit, text }| Failure::new(exit, format!("{}: {text}", file.display())))
}

/// Registers a dataset. Without an id it gets one of its content, so that equal ones are the same.
pub(super) async fn register_planned(
    dispatcher: &str,
    id: Option<&str>,
    dataset: &Dataset,
    how: How,
) -> Result<String, Failure> {
    let broken = |error: DataError| Failure::new(Exit::Other, error);
    let definition = dataset.to_definition().map_err(broken)?;
    let digest = blake3::hash(&definition).to_hex();
    let of_content: String = digest.chars().take(CONTENT_DIGITS).collect();
    let spec = dataset.element_spec().map_err(broken)?;
    let metadata = encode_metadata(&RegisteredMetadata {
        element_spec: element::encode_spec(&spec),
        compression: match how.compression {
            CompressionArg::None => Compression::Off,
            CompressionArg::Snappy => Compression::Snappy,
        },
        cardinality: dataset.cardinality(),
    });
    let wished = id.unwrap_or(&of_content);
    if how.replaces && wished != of_content && names_content(wished) {
        return Err(Failure::new(Exit::Usage, cannot_be_replaced(wished)));
    }
    let message = encode_register(Some(wished), definition, metadata, how.replaces);
    let answer = ask(dispatcher, message).await?;
    let registered = decode_registered(&answer).map_err(|status| refused(dispatcher, &status))?;
    Ok(registered.as_str().to_owned())
}

/// Whether an id looks like one that a dataset got of its content.
fn names_content(id: &str) -> bool {
    let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
    id.len() == CONTENT_DIGITS && id.bytes().all(is_digit)
}

fn cannot_be_replaced(id: &str) -> String {
    format!(
        "--id {id}: an id of {CONTENT_DIGITS} hexadecimal digits stands for the pipeline that has them as \
         its hash, and cannot be replaced by another pipeline: register this one under a name"
    )
}

fn read(file: &Path) -> Result<Pipeline, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(Exit::Usage, format!("cannot read {}: {error}", file.display()))
    })?;
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let read = match is_json {
        true => Pipeline::from_json(&text),
        false => Pipeline::from_yaml_of(&text, &file.display().to_string()),
    };
    read.map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", file.display())))
}

fn of(file: &Path, error: &DataError) -> Failure {
    Failure::new(of_data(error), format!("{}: {error}", file.display()))
}

async fn ask(dispatcher: &str, call: (&'static str, Bytes)) -> Result<Bytes, Failure> {
    let (path, message) = call;
    let answer = async { Client::new().unary(dispatcher, path, message, PATIENCE).await };
    let answer = noticed(dispatcher, PATIENCE, answer).await;
    answer.map_err(|status| refused(dispatcher, &status))
}

fn refused(dispatcher: &str, status: &Status) -> Failure {
    Failure::new(of_status(status), said_by(dispatcher, &status.message))
}

/// The id of the version that new jobs read. A server of a former release knows no versions.
async fn version(dispatcher: &str, id: &str) -> Result<String, Failure> {
    let (path, message) = encode_version_request(id, None, None);
    match Client::new().unary(dispatcher, path, message, PATIENCE).await {
        Ok(answer) => {
            let version = decode_version_answer(&answer);
            Ok(version.map_err(|status| refused(dispatcher, &status))?.as_str().to_owned())
        }
        Err(status) if status.code == Code::Unimplemented => Ok(id.to_owned()),
        Err(status) => Err(refused(dispatcher, &status)),
    }
}

async fn show(dispatcher: &str, id: &str) -> Result<String, Failure> {
    let refuse = |status: Status| refused(dispatcher, &status);
    let version = version(dispatcher, id).await?;
    let id = version.as_str();
    let metadata = ask(dispatcher, encode_get_metadata(id)).await?;
    let metadata = decode_metadata_answer(&metadata).map_err(refuse)?;
    let definition = ask(dispatcher, encode_get_definition(id)).await?;
    let definition = decode_definition_answer(&definition).map_err(refuse)?;
    let compression = match metadata.compression {
        Compression::Unspecified => "unspecified",
        Compression::Off => "none",
        Compression::Snappy => "snappy",
        Compression::ForcedSnappy => "snappy, always",
    };
    let mut lines = vec![
        format!("dataset {id:?}"),
        format!("  definition   {} bytes", definition.len()),
        format!("  compression  {compression}"),
        format!("  cardinality  {}", cardinality(metadata.cardinality)),
    ];
    let own = Dataset::from_definition(&definition)
        .map_err(|error| Failure::new(Exit::Other, format!("{dispatcher}: {error}")))?;
    match own {
        Some(dataset) => own_lines(&dataset, &mut lines)?,
        None => lines.push("  kind         a graph of TensorFlow's".to_owned()),
    }
    if let Ok(spec) = element::decode_spec(&metadata.element_spec) {
        lines.extend(spec_lines(&spec));
    }
    Ok(lines.join("\n"))
}

fn cardinality(count: i64) -> String {
    match count {
        -1 => "endless".to_owned(),
        ..-1 => "unknown".to_owned(),
        count => count.to_string(),
    }
}

fn own_lines(dataset: &Dataset, lines: &mut Vec<String>) -> Result<(), Failure> {
    let passes = match dataset.passes() {
        0 => "endless".to_owned(),
        passes => passes.to_string(),
    };
    let records = dataset.records_per_pass().map_or("unknown".to_owned(), |it| it.to_string());
    lines.push("  kind         Rondo's own".to_owned());
    lines.push(format!("  splits       {} a pass, {passes} passes", dataset.splits()));
    lines.push(format!("  records      {records} a pass"));
    if let Some(why) = dataset.unsplittable() {
        lines.push(format!("  not to be split: {why}"));
    }
    lines.extend(dataset.files().map(|file| format!("  file         {}", file.escape_debug())));
    let columns = dataset.schema();
    let columns = columns.fields().iter();
    lines.extend(columns.map(|it| format!("  column       {} ({})", it.name(), it.data_type())));
    let json = dataset.pipeline().to_json();
    let json = json.map_err(|error| Failure::new(Exit::Other, error))?;
    lines.push(format!("  pipeline     {json}"));
    Ok(())
}

fn spec_lines(spec: &Spec) -> Vec<String> {
    let components = spec.components().into_iter();
    let line = |component: Component<'_>| {
        let tensor = match component.spec {
            Spec::Tensor { tensor, .. } => format!("{} {:?}", tensor.dtype, tensor.shape),
            other => format!("{other:?}"),
        };
        let path = if component.path.is_empty() { "(element)" } else { &component.path };
        format!("  tensor       {} {tensor}", path.escape_debug())
    };
    components.map(line).collect()
}

/// Which version of which dataset it is, if that was replaced.
fn version_of(dataset: &DatasetStatus) -> String {
    match (&dataset.version_of, dataset.current) {
        (None, _) => "-".to_owned(),
        (Some(name), true) => format!("current of {name}"),
        (Some(name), false) => format!("former of {name}"),
    }
}

async fn list(dispatcher: &str) -> Result<String, Failure> {
    let server = ServerArgs::of(dispatcher);
    let datasets = server.status().await?.dispatcher.unwrap_or_default().datasets;
    let row = |dataset: &DatasetStatus| {
        vec![
            dataset.id.clone(),
            dataset.size_bytes.to_string(),
            cardinality(dataset.cardinality),
            dataset.split_sources.map_or("-".to_owned(), |sources| sources.to_string()),
            version_of(dataset),
        ]
    };
    let columns = ["id", "definition bytes", "elements", "split sources", "version"];
    Ok(Table::new("Datasets", &columns, true).fill(&datasets, usize::MAX, row).to_string())
}
