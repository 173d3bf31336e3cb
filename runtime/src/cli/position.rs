//! `rondo position`: remembering how far a job has been read, and going back there.

use clap::{Subcommand, ValueEnum};
use rondo_core::dispatcher::{PositionReport, SavedRepetitionReport, SavedSplitReport};
use rondo_proto::admin as wire;
use rondo_proto::convert::{
    DELETE_POSITION_PATH, LIST_POSITIONS_PATH, RESTORE_POSITION_PATH, SAVE_POSITION_PATH,
};

use super::ask::{ServerArgs, name, run};
use super::exit::{Exit, Failure};
use super::journal::say;
use super::table::Table;

/// What to do about positions.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub(super) enum PositionCommand {
    /// Remember how far a job has been read
    ///
    /// Only jobs with DYNAMIC sharding have a position. Splits that workers have taken count as read,
    /// also those that are not consumed yet: save when the trainer has drained its input, such as
    /// at the end of an epoch. Of splits that Rondo's readers hold, what they have acknowledged does.
    /// A position of the same name is replaced.
    Save {
        /// The position's name
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,

        /// The job's name (`job_name` of `distribute`)
        #[arg(long, value_name = "NAME", value_parser = name)]
        job: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// End a job's iterations, and let its next ones begin at a position
    ///
    /// Consumers that still read get an error and must make new iterators. There need be no such
    /// job yet, and it may have another name than the one whose position was saved.
    Restore {
        /// The position's name
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,

        /// The job's name (`job_name` of `distribute`)
        #[arg(long, value_name = "NAME", value_parser = name)]
        job: String,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show all positions
    List {
        /// Form of the answer
        #[arg(long, value_name = "FORM", default_value = "table")]
        format: Format,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Forget a position; jobs that wait at it begin at the beginning
    Delete {
        /// The position's name
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table
    Table,
    /// A JSON list
    Json,
}

/// Carries out a command about positions.
pub(super) fn position(command: &PositionCommand) -> Result<(), Failure> {
    say(run(carry_out(command))?.trim_end())
}

async fn carry_out(command: &PositionCommand) -> Result<String, Failure> {
    match command {
        PositionCommand::Save { name, job, server } => {
            let (name, job) = (name.clone(), job.clone());
            let request = wire::SavePositionRequest { name, job };
            let response: wire::SavePositionResponse =
                server.ask(SAVE_POSITION_PATH, &request).await?;
            Ok(sentence("saved", response.position.unwrap_or_default()))
        }
        PositionCommand::Restore { name, job, server } => {
            let (name, job) = (name.clone(), job.clone());
            let request = wire::RestorePositionRequest { name, job, wanted: None };
            let response: wire::RestorePositionResponse =
                server.ask(RESTORE_POSITION_PATH, &request).await?;
            Ok(sentence("restored", response.position.unwrap_or_default()))
        }
        PositionCommand::List { format, server } => {
            let request = wire::ListPositionsRequest {};
            let response: wire::ListPositionsResponse =
                server.ask(LIST_POSITIONS_PATH, &request).await?;
            let positions = response.positions.into_iter();
            list(&positions.map(Into::into).collect::<Vec<_>>(), *format)
        }
        PositionCommand::Delete { name, server } => {
            let request = wire::DeletePositionRequest { name: name.clone() };
            let _: wire::DeletePositionResponse =
                server.ask(DELETE_POSITION_PATH, &request).await?;
            Ok(format!("position {name:?} deleted"))
        }
    }
}

fn sentence(done: &str, position: wire::Position) -> String {
    let position = PositionReport::from(position);
    format!(
        "position {:?} {done}: finished {}; reading {}",
        position.name,
        finished(&position),
        reading(&position)
    )
}

fn list(positions: &[PositionReport], format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        let json = serde_json::to_string_pretty(positions);
        let json = json.map_err(|error| Failure::new(Exit::Other, error))?;
        return Ok(json);
    }
    let columns = ["name", "job", "dataset", "saved ms", "finished", "reading", "waiting jobs"];
    let row = |position: &PositionReport| {
        vec![
            position.name.clone(),
            position.job.clone(),
            position.dataset.clone().unwrap_or_default(),
            position.saved_ms.to_string(),
            finished(position),
            reading(position),
            position.waiting.join(", "),
        ]
    };
    let table = Table::new("Positions", &columns, true).fill(positions, usize::MAX, row);
    Ok(table.to_string())
}

fn finished(position: &PositionReport) -> String {
    match position.finished.is_empty() {
        true => "none".into(),
        false => position.finished.join(", "),
    }
}

/// Splits shown of a repetition; of more, only how many they are.
const SPLITS_SHOWN: usize = 4;

/// Repetitions with where their sources stand, such as `3: 500 of pass 0`, and with the splits that
/// were being read, such as `but 498 from record 12`.
fn reading(position: &PositionReport) -> String {
    let repetition = |saved: &SavedRepetitionReport| {
        let sources = saved.sources.iter();
        let sources = sources.map(|at| format!("{} of pass {}", at.produced, at.repetition));
        let sources = sources.collect::<Vec<_>>().join(" + ");
        format!("{}: {sources}{}", saved.repetition, unread(&saved.splits))
    };
    match position.reading.is_empty() {
        true => "none".into(),
        false => {
            let all: Vec<String> = position.reading.iter().map(repetition).collect();
            all.join(", ")
        }
    }
}

fn unread(splits: &[SavedSplitReport]) -> String {
    let shown = splits.iter().take(SPLITS_SHOWN);
    let shown = shown.map(|split| format!("{} from record {}", split.place, split.records));
    let more = splits.len().saturating_sub(SPLITS_SHOWN);
    let more = (more > 0).then(|| format!("{more} more"));
    match splits.is_empty() {
        true => String::new(),
        false => format!(" but {}", shown.chain(more).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_that_were_being_read_are_shown_up_to_a_number() {
        let split = |place| SavedSplitReport { place, records: 12 };
        let splits = |places: std::ops::Range<u64>| unread(&places.map(split).collect::<Vec<_>>());
        assert_eq!(splits(0..0), "");
        assert_eq!(splits(7..9), " but 7 from record 12, 8 from record 12");
        assert!(splits(0..9).ends_with("3 from record 12, 5 more"), "{}", splits(0..9));
    }
}
