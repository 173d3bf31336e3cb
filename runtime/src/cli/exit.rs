//! How `rondo` ends: one exit status per kind of failure, so that scripts can tell them apart.

use std::process::ExitCode;

use rondo_core::control::NO_UPDATES;
use rondo_core::status::{Code, Status};
use rondo_data::DataError;

use crate::store::DirectoryError;
use crate::store::blobs::NO_LARGE_VALUES;

/// Why the process ends. The numbers are part of the interface: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exit {
    /// Done, or stopped in an orderly way.
    Ok = 0,
    /// A failure without a number of its own.
    Other = 1,
    /// The command line, the environment, the configuration file or the pipeline is wrong.
    Usage = 2,
    /// The port is taken, or the address is not this machine's.
    Listen = 3,
    /// The data directory cannot be used.
    DataDirectory = 4,
    /// Another server uses the data directory.
    DataDirectoryInUse = 5,
    /// An acknowledged record of the journal is damaged or missing.
    JournalDamaged = 6,
    /// The server cannot be reached, or does not answer in time.
    Unreachable = 7,
    /// The server answers, and says that it is not healthy or not ready.
    Unhealthy = 8,
    /// The server stopped itself to keep its promises (a sync failed, say).
    Halted = 9,
    /// The user interrupted it (Ctrl-C), as shells count it.
    Interrupted = 130,
}

impl Exit {
    /// All of them with what they mean, for the documentation in `--help`.
    pub(super) const ALL: [(Self, &'static str); 11] = [
        (Self::Ok, "done, or stopped in an orderly way"),
        (Self::Other, "any other failure"),
        (Self::Usage, "wrong flag, environment variable, configuration file or pipeline"),
        (Self::Listen, "the port is taken, or the address is not this machine's"),
        (Self::DataDirectory, "the data directory cannot be used, or a later release wrote it"),
        (Self::DataDirectoryInUse, "another server uses the data directory"),
        (Self::JournalDamaged, "an acknowledged record of the journal is damaged or missing"),
        (Self::Unreachable, "the server cannot be reached"),
        (Self::Unhealthy, "the server is not ready or not healthy"),
        (Self::Halted, "the server stopped itself to keep its promises"),
        (
            Self::Interrupted,
            "interrupted by Ctrl-C; what `rondo read` wrote until then is acknowledged",
        ),
    ];

    /// The exit status.
    pub(super) const fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// How a data directory that cannot be used shows in the exit status.
pub(super) const fn of_directory(error: &DirectoryError) -> Exit {
    match error {
        DirectoryError::Locked { .. } => Exit::DataDirectoryInUse,
        _ => Exit::DataDirectory,
    }
}

/// How a server's refusal shows in the exit status. A server whose disk is full answers, so it is not
/// unreachable.
pub(super) fn of_status(status: &Status) -> Exit {
    let keeps_nothing =
        [NO_UPDATES, NO_LARGE_VALUES].iter().any(|text| status.message.contains(text));
    match status.code {
        Code::Unavailable if keeps_nothing => Exit::Unhealthy,
        Code::Unavailable | Code::DeadlineExceeded => Exit::Unreachable,
        _ => Exit::Other,
    }
}

/// How a failure to plan a pipeline shows in the exit status. What the pipeline says is wrong is a mistake
/// of its author; what its files hold, and that they are not there yet, is not.
pub(super) const fn of_data(error: &DataError) -> Exit {
    match error {
        DataError::Pipeline { .. }
        | DataError::Newer { .. }
        | DataError::OtherForm { .. }
        | DataError::NoColumn { .. }
        | DataError::Type { .. } => Exit::Usage,
        _ => Exit::Other,
    }
}

/// A failure on its way to the terminal: what to print, and how to exit.
#[derive(Debug)]
pub(super) struct Failure {
    /// How to exit.
    pub(super) exit: Exit,
    /// What to print.
    pub(super) text: String,
}

impl Failure {
    /// A failure of this kind.
    pub(super) fn new(exit: Exit, text: impl ToString) -> Self {
        Self { exit, text: text.to_string() }
    }

    /// The same failure, with what follows from it.
    pub(super) fn with(self, consequence: &str) -> Self {
        Self { text: format!("{}. {consequence}", self.text), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::super::serve::exit_of;
    use super::*;

    #[test]
    fn numbers_are_distinct_and_in_order() {
        let numbers = Exit::ALL.map(|(exit, _)| exit.number());
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130]);
    }

    #[test]
    fn a_server_that_stops_itself_ends_with_9_and_other_failures_do_not() {
        use crate::serve::ServeError;
        let halted = ServeError::Halted("a sync failed".into());
        assert_eq!(exit_of(&halted).number(), 9);
        let no_signals = ServeError::Signals(std::io::Error::other("none"));
        assert_eq!(exit_of(&no_signals), Exit::Other);
    }

    #[test]
    fn a_wrong_pipeline_is_the_users_mistake_and_a_missing_or_damaged_file_is_not() {
        let (file, what) = ("a.csv".to_owned(), "half a row".to_owned());
        assert_eq!(of_data(&DataError::Missing { file: file.clone() }), Exit::Other);
        assert_eq!(of_data(&DataError::Pipeline { what: what.clone() }), Exit::Usage);
        let damaged = DataError::Corrupt { file, unit: "byte", offset: 7, what };
        assert_eq!(of_data(&damaged), Exit::Other);
    }

    #[test]
    fn a_server_that_does_not_answer_ends_with_7_and_one_that_refuses_with_1() {
        for code in [Code::Unavailable, Code::DeadlineExceeded] {
            assert_eq!(of_status(&Status::new(code, "away")), Exit::Unreachable);
        }
        assert_eq!(of_status(&Status::new(Code::NotFound, "no such job")), Exit::Other);
    }

    #[test]
    fn a_server_that_has_no_room_ends_with_8() {
        for text in [
            "the journal takes no updates: no space for 90 bytes in the journal",
            "the server keeps no large value at present: no space for a blob of 90 bytes",
        ] {
            assert_eq!(of_status(&Status::new(Code::Unavailable, text)), Exit::Unhealthy);
        }
        // A connection that breaks says nothing of the server.
        let broke = Status::new(Code::Unavailable, "the connection to h:1 broke");
        assert_eq!(of_status(&broke), Exit::Unreachable);
    }

    #[test]
    fn the_documentation_has_each_status() {
        let documented = include_str!("../../../docs/operations.md");
        for (exit, meaning) in Exit::ALL {
            let row = format!("\n| {} | {meaning}", exit.number());
            assert!(documented.contains(&row), "{row:?}");
        }
    }
}
