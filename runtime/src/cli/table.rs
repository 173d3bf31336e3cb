//! Tables for terminals.

use std::fmt;

use super::plain::plain;

/// Widest column of a narrow table, in characters.
const COLUMN_CHARS_MAX: usize = 40;
/// Between two columns.
const GAP: &str = "  ";

/// A table with a title. Columns are as wide as their widest cell.
#[derive(Clone, Debug)]
pub(super) struct Table {
    title: &'static str,
    columns: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// How many rows there would be without a limit.
    total: usize,
    wide: bool,
    is_of_newest: bool,
}

impl Table {
    /// A table of these columns. A wide one cuts nothing off.
    pub(super) fn new(title: &'static str, columns: &[&'static str], wide: bool) -> Self {
        Self {
            title,
            columns: columns.to_vec(),
            rows: Vec::new(),
            total: 0,
            wide,
            is_of_newest: false,
        }
    }

    /// Fills the table with the first `limit` rows.
    pub(super) fn fill<T>(mut self, items: &[T], limit: usize, row: fn(&T) -> Vec<String>) -> Self {
        self.total = items.len();
        self.rows = items.iter().take(limit).map(row).collect();
        self
    }

    /// Fills the table with the newest `limit` of items that are in the order in which they came.
    pub(super) fn fill_newest<T>(
        mut self,
        items: &[T],
        limit: usize,
        row: fn(&T) -> Vec<String>,
    ) -> Self {
        let newest = items.get(items.len().saturating_sub(limit)..).unwrap_or_default();
        self.is_of_newest = true;
        self.fill(newest, limit, row).out_of(items.len())
    }

    /// Says that the rows are the first of so many.
    pub(super) fn out_of(mut self, total: usize) -> Self {
        self.total = total;
        self
    }

    fn cell(&self, text: &str) -> String {
        let text = plain(text);
        if self.wide || text.chars().count() <= COLUMN_CHARS_MAX {
            return text;
        }
        text.chars().take(COLUMN_CHARS_MAX.saturating_sub(1)).chain(['…']).collect()
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let head = self.columns.iter().map(|name| name.to_uppercase()).collect();
        let row = |row: &Vec<String>| row.iter().map(|text| self.cell(text)).collect();
        std::iter::once(head).chain(self.rows.iter().map(row)).collect()
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{} ({})", self.title, self.total)?;
        if self.rows.is_empty() {
            return Ok(());
        }
        let lines = self.lines();
        let width = |column| {
            lines.iter().filter_map(move |line| line.get(column)).map(|cell: &String| chars(cell))
        };
        let widths: Vec<usize> =
            (0..self.columns.len()).map(|column| width(column).max().unwrap_or(0)).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            writeln!(out, "{GAP}{}", cells.collect::<Vec<_>>().join(GAP).trim_end())?;
        }
        let hidden = self.total.saturating_sub(self.rows.len());
        if hidden > 0 {
            let which = if self.is_of_newest { "older ones" } else { "more" };
            writeln!(out, "{GAP}… and {hidden} {which} (--limit 0 shows all)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str], limit: usize, wide: bool) -> String {
        Table::new("Jobs", &["name", "length"], wide)
            .fill(names, limit, |name| vec![(*name).to_owned(), name.len().to_string()])
            .to_string()
    }

    #[test]
    fn columns_line_up() {
        let text = table(&["a", "longer", "ß"], 9, false);
        assert_eq!(text, "Jobs (3)\n  NAME    LENGTH\n  a       1\n  longer  6\n  ß       2\n");
    }

    #[test]
    fn an_empty_table_is_its_title() {
        assert_eq!(table(&[], 9, false), "Jobs (0)\n");
    }

    #[test]
    fn rows_above_the_limit_are_counted() {
        let text = table(&["a", "b", "c"], 1, false);
        assert!(text.contains("Jobs (3)") && text.contains("… and 2 more"), "{text}");
        assert!(!text.contains("\n  b"), "{text}");
    }

    #[test]
    fn the_newest_rows_are_shown_and_the_older_ones_counted() {
        let newest = |limit| {
            let row = |name: &&str| vec![(*name).to_owned()];
            let table = Table::new("Jobs", &["name"], true);
            table.fill_newest(&["oldest", "older", "newer", "newest"], limit, row).to_string()
        };
        let text =
            "Jobs (4)\n  NAME\n  newer\n  newest\n  … and 2 older ones (--limit 0 shows all)\n";
        assert_eq!(newest(2), text);
        assert!(newest(4).ends_with("  newest\n"), "{}", newest(4));
        assert!(newest(usize::MAX).contains("oldest"));
    }

    #[test]
    fn long_names_are_cut_unless_the_table_is_wide() {
        let name = "x".repeat(41);
        assert!(!table(&[&name], 9, false).contains(&name));
        assert!(table(&[&name[..40]], 9, false).contains(&name[..40]));
        assert!(table(&[&name], 9, true).contains(&name));
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let text = table(&["\u{1b}[2J\n"], 9, true);
        assert!(!text.contains('\u{1b}') && text.lines().count() == 3, "{text:?}");
    }
}
