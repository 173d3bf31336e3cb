//! The table of planted bugs: found by which oracle, and how soon.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hunt::Point;
use super::plant::Plant;
use crate::trace::json::quoted;

/// One bug, and what came of it.
pub(super) struct Row {
    pub(super) plant: Plant,
    /// All starting points, or why there was nothing to run.
    pub(super) hunt: Result<Vec<Point>, String>,
    pub(super) build: Duration,
    pub(super) total: Duration,
}

/// What became of a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Found, by an oracle it should be found by from at least half of the points that found it.
    Found,
    /// Found, by another one.
    FoundOtherwise,
    /// Not found from any point.
    Survived,
    /// Does not apply or compile.
    NotPlanted,
}

impl Row {
    fn points(&self) -> &[Point] {
        self.hunt.as_deref().unwrap_or_default()
    }

    /// Promises broken, the most frequent first, with the number of points.
    fn fired(&self) -> Vec<(usize, &str)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for promise in self.points().iter().filter_map(|point| point.promise.as_deref()) {
            *counts.entry(promise).or_default() += 1;
        }
        let mut fired: Vec<(usize, &str)> =
            counts.into_iter().map(|(promise, count)| (count, promise)).collect();
        fired.sort_by_key(|(count, promise)| (usize::MAX.saturating_sub(*count), *promise));
        fired
    }

    fn found(&self) -> usize {
        self.points().iter().filter(|point| point.promise.is_some()).count()
    }

    fn fate(&self) -> Fate {
        let fired = self.fired().into_iter();
        let expected: usize =
            fired.filter(|(_, promise)| self.plant.expects(promise)).map(|(count, _)| count).sum();
        match (&self.hunt, self.found()) {
            (Err(_), _) => Fate::NotPlanted,
            (Ok(_), 0) => Fate::Survived,
            (Ok(_), found) if expected.saturating_mul(2) >= found => Fate::Found,
            (Ok(_), _) => Fate::FoundOtherwise,
        }
    }

    /// Seeds needed, the fewest first; a point that did not find it counts as more than it ran.
    fn needed(&self) -> Vec<(bool, u64)> {
        let points = self.points().iter();
        let mut needed: Vec<(bool, u64)> =
            points.map(|point| (point.promise.is_none(), point.seeds)).collect();
        needed.sort_unstable();
        needed
    }

    fn median(&self) -> String {
        // Of an even number the higher one.
        let needed = self.needed();
        needed.get(needed.len() / 2).map_or_else(|| "-".into(), |needed| count(*needed))
    }

    fn worst(&self) -> String {
        self.needed().last().map_or_else(|| "-".into(), |needed| count(*needed))
    }

    fn note(&self) -> &'static str {
        if self.fate() == Fate::FoundOtherwise { " (not as expected)" } else { "" }
    }

    fn fired_text(&self) -> String {
        match &self.hunt {
            Err(_) => "not planted".into(),
            Ok(_) if self.found() == 0 => "SURVIVED".into(),
            Ok(_) => {
                let fired = self.fired().into_iter();
                let fired = fired.map(|(count, promise)| format!("{promise} ×{count}"));
                fired.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Seeds needed, or more than those that were run.
fn count((survived, seeds): (bool, u64)) -> String {
    if survived { format!(">{seeds}") } else { seeds.to_string() }
}

/// The names of the columns.
pub(super) fn text_head() -> String {
    format!(
        "{:<30} {:<24} {:>7} {:>7} {:>6} {:>7} {:>7}  fired",
        "bug", "expected", "median", "worst", "found", "build s", "hunt s"
    )
}

/// One line of columns; why it could not be planted goes on the lines behind it.
pub(super) fn text_row(row: &Row) -> String {
    let fired = match &row.hunt {
        Err(reason) => reason.replace('\n', "\n    "),
        Ok(_) => row.fired_text(),
    };
    let note = row.note();
    format!(
        "{:<30} {:<24} {:>7} {:>7} {:>6} {:>7.1} {:>7.1}  {fired}{note}",
        row.plant.name,
        row.plant.expected.join(", "),
        row.median(),
        row.worst(),
        format!("{}/{}", row.found(), row.points().len()),
        row.build.as_secs_f64(),
        row.total.saturating_sub(row.build).as_secs_f64(),
    )
}

fn number(rows: &[Row], fate: Fate) -> usize {
    rows.iter().filter(|row| row.fate() == fate).count()
}

/// How many of each fate.
pub(super) fn summary(rows: &[Row]) -> String {
    format!(
        "{} bugs: {} found by an oracle expected, {} by another, {} survived, {} could not be planted",
        rows.len(),
        number(rows, Fate::Found),
        number(rows, Fate::FoundOtherwise),
        number(rows, Fate::Survived),
        number(rows, Fate::NotPlanted)
    )
}

/// Whether all were found, at least nine of ten by an oracle expected.
pub(super) fn is_well(rows: &[Row]) -> bool {
    let missed = number(rows, Fate::Survived) + number(rows, Fate::NotPlanted);
    missed == 0 && number(rows, Fate::FoundOtherwise) * 10 <= rows.len()
}

/// The head of a table for a page.
pub(super) const fn markdown_head() -> &'static str {
    "| bug | expected | fired, at how many points | median | worst | found |\n|---|---|---|---|---|---|"
}

/// A row of it.
pub(super) fn markdown_row(row: &Row) -> String {
    format!(
        "| `{}` | {} | {}{} | {} | {} | {}/{} |",
        row.plant.name,
        row.plant.expected.join(", "),
        row.fired_text().replace('\n', " "),
        row.note(),
        row.median(),
        row.worst(),
        row.found(),
        row.points().len()
    )
}

/// All of it for a program.
pub(super) fn json(rows: &[Row]) -> String {
    let rows: Vec<String> = rows.iter().map(json_row).collect();
    format!("{{\"bugs\":[\n{}\n]}}\n", rows.join(",\n"))
}

fn json_row(row: &Row) -> String {
    let expected: Vec<String> = row.plant.expected.iter().map(|name| quoted(name)).collect();
    let points: Vec<String> = row.points().iter().map(json_point).collect();
    let failure = row.hunt.as_ref().err().map_or_else(|| "null".into(), |reason| quoted(reason));
    let fate = match row.fate() {
        Fate::Found => "found",
        Fate::FoundOtherwise => "found by another",
        Fate::Survived => "survived",
        Fate::NotPlanted => "not planted",
    };
    format!(
        "{{\"bug\":{},\"what\":{},\"expected\":[{}],\"fate\":\"{fate}\",\"not_planted\":{failure},\
         \"points\":[{}],\"build_s\":{:.1},\"hunt_s\":{:.1}}}",
        quoted(&row.plant.name),
        quoted(&row.plant.what),
        expected.join(","),
        points.join(","),
        row.build.as_secs_f64(),
        row.total.saturating_sub(row.build).as_secs_f64(),
    )
}

fn json_point(point: &Point) -> String {
    let promise = point.promise.as_deref().map_or_else(|| "null".into(), quoted);
    format!("{{\"seeds\":{},\"promise\":{promise}}}", point.seeds)
}
