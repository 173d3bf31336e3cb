//! Limits on functions and files, and the figures we hold ourselves to.

use super::Violation;
use super::source::Source;

/// Longest function anywhere, in lines from its signature to its last brace.
const FUNCTION_LINES_MAX: usize = 60;
/// Longest function in `core/`.
const CORE_FUNCTION_LINES_MAX: usize = 40;
/// Longest file, test code in it left out.
const FILE_LINES_MAX: usize = 500;
/// A file from here on is named in the notes.
const FILE_LINES_NOTED: usize = 400;

/// Checks the lengths in one file.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for (name, lines) in &source.functions {
        let (first, length) = (*lines.start(), lines.end() + 1 - lines.start());
        let max = function_lines_max(source, first);
        if length > max {
            let rule = format!("function `{name}` has {length} lines, more than {max}: split it");
            found.push(Violation::new(&source.path, first, rule));
        }
    }
    let lines = counted_lines(source);
    if lines > FILE_LINES_MAX {
        let rule =
            format!("{lines} lines outside tests, more than {FILE_LINES_MAX}: split the file");
        found.push(Violation::new(&source.path, source.lines, rule));
    }
    found
}

fn function_lines_max(source: &Source, line: usize) -> usize {
    if source.room == "core" && !source.is_test_line(line) {
        CORE_FUNCTION_LINES_MAX
    } else {
        FUNCTION_LINES_MAX
    }
}

/// Lines that count for a file's limit: the test crate's own files count in full.
fn counted_lines(source: &Source) -> usize {
    if source.room == "tests" { source.lines } else { source.lines_outside_tests() }
}

/// Median and ninth decile of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Half of all are no larger.
    pub median: usize,
    /// Nine in ten are no larger.
    pub p90: usize,
    /// None is larger.
    pub max: usize,
}

impl Figures {
    /// The figures of `values`; all zero for none.
    pub fn of(mut values: Vec<usize>) -> Self {
        values.sort_unstable();
        let at = |share: usize| -> usize {
            let index = (values.len() * share / 100).min(values.len().saturating_sub(1));
            values.get(index).copied().unwrap_or(0)
        };
        Self { median: at(50), p90: at(90), max: at(100) }
    }
}

/// Files that near their limit, and the distribution of lengths.
pub(super) fn notes(sources: &[Source]) -> Vec<String> {
    let mut notes = Vec::new();
    let (mut files, mut functions, mut tests, mut others) = (Vec::new(), Vec::new(), 0, 0);
    for source in sources {
        let lines = counted_lines(source);
        if lines >= FILE_LINES_NOTED {
            notes.push(format!("{}: {lines} of {FILE_LINES_MAX} lines", source.path));
        }
        let outside = source.lines_outside_tests();
        tests += source.lines - outside;
        others += outside;
        if !source.is_test {
            files.push(outside);
        }
        let lengths =
            source.functions.iter().filter(|(_, lines)| !source.is_test_line(*lines.start()));
        functions.extend(lengths.map(|(_, lines)| lines.end() + 1 - lines.start()));
    }
    notes.push(format!("lines of a file outside tests: {:?}", Figures::of(files)));
    notes.push(format!("lines of a function outside tests: {:?}", Figures::of(functions)));
    notes.push(format!("lines of test code: {tests}, other: {others}"));
    notes
}

#[cfg(test)]
mod tests {
    use super::super::source::testing::source;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_may_have_60_lines_and_no_more() {
        assert_eq!(check(&source("runtime/src/node.rs", &function(60))), []);
        let found = check(&source("runtime/src/node.rs", &function(61)));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("runtime/src/node.rs:1: function `long` has 61"));
    }

    #[test]
    fn in_core_40_unless_it_is_a_test() {
        assert_eq!(check(&source("core/src/time.rs", &function(40))), []);
        assert_eq!(check(&source("core/src/time.rs", &function(41))).len(), 1);
        let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(41));
        assert_eq!(check(&source("core/src/time.rs", &test)), []);
        let method = format!("impl A {{\n{}}}\n", function(41));
        assert_eq!(check(&source("core/src/time.rs", &method)).len(), 1);
    }

    #[test]
    fn a_file_may_have_500_lines_outside_tests() {
        let lines = |count: usize| "const A: u8 = 1;\n".repeat(count);
        assert_eq!(check(&source("proto/src/graph.rs", &lines(500))), []);
        let found = check(&source("proto/src/graph.rs", &lines(501)));
        assert!(found[0].rule.contains("501 lines outside tests"), "{found:?}");
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(500), lines(100));
        assert_eq!(check(&source("proto/src/graph.rs", &with_tests)), []);
        assert_eq!(check(&source("tests/src/server.rs", &lines(501))).len(), 1);
    }

    #[test]
    fn figures_of_known_values() {
        assert_eq!(Figures::of((1..=10).collect()), Figures { median: 6, p90: 10, max: 10 });
        assert_eq!(Figures::of(Vec::new()), Figures { median: 0, p90: 0, max: 0 });
    }

    #[test]
    fn files_near_the_limit_are_noted() {
        let near = source("core/src/a.rs", &"const A: u8 = 1;\n".repeat(400));
        assert_eq!(notes(&[near])[0], "core/src/a.rs: 400 of 500 lines");
    }
}
