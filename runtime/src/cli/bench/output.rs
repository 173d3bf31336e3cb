//! Measuring, and printing what was found.

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use super::super::exit::{Exit, Failure};
use super::figures::Figures;

/// Form of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables
    Table,
    /// One JSON object, with each round's figures
    Json,
}

impl Format {
    /// Measures on this thread, and prints the figures.
    ///
    /// # Errors
    /// When measuring fails, or nobody takes the figures.
    pub(super) fn print(
        self,
        measure: impl Future<Output = Result<Figures, Failure>>,
    ) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(Exit::Other, error))?;
        let text = self.text(&runtime.block_on(measure)?)?;
        let printed = std::io::stdout().write_all(text.as_bytes());
        printed.map_err(|error| Failure::new(Exit::Other, error))
    }

    /// Prints figures of another kind, which `table` makes a table of.
    ///
    /// # Errors
    /// When nobody takes them.
    pub(super) fn print_rounds<R: Serialize>(
        self,
        rounds: &R,
        table: impl FnOnce(&R) -> String,
    ) -> Result<(), Failure> {
        let text = match self {
            Self::Table => table(rounds),
            Self::Json => json(rounds)?,
        };
        let printed = std::io::stdout().write_all(text.as_bytes());
        printed.map_err(|error| Failure::new(Exit::Other, error))
    }

    fn text(self, figures: &Figures) -> Result<String, Failure> {
        match self {
            Self::Table => Ok(figures.tables()),
            Self::Json => json(figures),
        }
    }
}

fn json(figures: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(figures);
    Ok(text.map_err(|error| Failure::new(Exit::Other, error))? + "\n")
}
