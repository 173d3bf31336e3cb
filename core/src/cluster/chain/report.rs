//! What detection found, and whether its sources agree.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::super::error::{Error, Fault};
use super::super::json::Json;
use super::Finding;

/// What became of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the one.
    Chosen(Finding),
    /// It is there too, after the one.
    Shadowed(Finding),
    /// It is not there: what is missing.
    Absent(Error),
    /// It was not looked for: another one was found, and asking this one costs requests.
    NotAsked,
    /// It is there, and makes no sense or cannot be asked.
    Broken(Error),
}

/// A source and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The source's name.
    pub source: &'static str,
    /// What became of it.
    pub verdict: Verdict,
}

/// Two sources that do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The source that was chosen.
    pub chosen: &'static str,
    /// The other one.
    pub other: &'static str,
    /// What they differ in: `rank` or `size`.
    pub field: &'static str,
    /// What the chosen one says.
    pub chosen_value: u32,
    /// What the other one says.
    pub other_value: u32,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chosen, other, field, chosen_value, other_value } = self;
        write!(out, "{chosen} says that the {field} is {chosen_value}, {other} says {other_value}")
    }
}

/// All sources, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each source and what became of it.
    pub entries: Vec<Entry>,
    /// Where sources do not agree with the chosen one.
    pub contradictions: Vec<Contradiction>,
    /// Where none is there: sources of which something is in the environment, and what they miss.
    pub hints: Vec<String>,
}

impl Report {
    /// The source that was chosen.
    pub fn chosen(&self) -> Option<&Finding> {
        self.entries.iter().find_map(|entry| match &entry.verdict {
            Verdict::Chosen(finding) => Some(finding),
            _ => None,
        })
    }

    /// What to go by: the chosen source, `None` if there is none.
    ///
    /// # Errors
    /// The failure of a source that is there and comes before any other; CONFLICT where sources contradict
    /// each other.
    pub fn settled(&self) -> Result<Option<&Finding>, Error> {
        let broken = self.entries.iter().find_map(|entry| match &entry.verdict {
            Verdict::Broken(error) => Some((entry.source, error)),
            _ => None,
        });
        let chosen = self.chosen();
        if let (None, Some((source, error))) = (chosen, broken) {
            let mut error = error.clone();
            error.text = format!("{} (source {source})", error.text);
            return Err(error);
        }
        if self.contradictions.is_empty() {
            return Ok(chosen);
        }
        let texts: Vec<String> = self.contradictions.iter().map(ToString::to_string).collect();
        Err(Error::new(Fault::Conflict, "cluster", texts.join("; ")))
    }

    /// Compares what other sources say with the chosen one.
    pub(super) fn contradict(&mut self) {
        let Some(chosen) = self.chosen().cloned() else { return };
        let mut found = Vec::new();
        for entry in &self.entries {
            let Verdict::Shadowed(other) = &entry.verdict else { continue };
            if counts_nodes(&chosen, other) {
                continue;
            }
            let (ours, theirs) = (&chosen.process, &other.process);
            let fields = [("rank", ours.rank, theirs.rank), ("size", ours.size, theirs.size)];
            for (field, ours, theirs) in fields {
                if let (Some(chosen_value), Some(other_value)) = (ours, theirs)
                    && chosen_value != other_value
                {
                    let (chosen, other) = (chosen.source, entry.source);
                    found.push(Contradiction { chosen, other, field, chosen_value, other_value });
                }
            }
        }
        self.contradictions = found;
    }

    /// The report as JSON, as `rondo cluster -o json` prints it.
    pub fn to_json(&self) -> Json {
        let entry = |entry: &Entry| {
            let (verdict, why, finding) = match &entry.verdict {
                Verdict::Chosen(finding) => ("chosen", None, Some(finding)),
                Verdict::Shadowed(finding) => ("shadowed", None, Some(finding)),
                Verdict::Absent(error) => ("absent", Some(error), None),
                Verdict::NotAsked => ("not_asked", None, None),
                Verdict::Broken(error) => ("broken", Some(error), None),
            };
            let members = [
                ("source", Json::text(entry.source)),
                ("verdict", Json::text(verdict)),
                ("fault", why.map_or(Json::Null, |why| Json::text(why.fault.name()))),
                ("why", why.map_or(Json::Null, |why| Json::text(why.to_string()))),
                ("finding", finding.map_or(Json::Null, Finding::to_json)),
            ];
            Json::Map(members.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
        };
        let contradictions = self.contradictions.iter().map(|it| Json::text(it.to_string()));
        Json::Map(Vec::from([
            ("chosen".to_string(), self.chosen().map_or(Json::Null, |it| Json::text(it.source))),
            ("sources".to_string(), Json::List(self.entries.iter().map(entry).collect())),
            ("contradictions".to_string(), Json::List(contradictions.collect())),
            ("hints".to_string(), Json::List(self.hints.iter().map(Json::text).collect())),
        ]))
    }
}

/// Whether the other source numbers hosts where the chosen one numbers processes: a launcher of one process
/// per host within another's.
fn counts_nodes(chosen: &Finding, other: &Finding) -> bool {
    let ours = (chosen.process.node_rank, chosen.process.nodes);
    ours.0.is_some() && ours.1.is_some() && ours == (other.process.rank, other.process.size)
}
