//! Rules about any text file: width, markers, names, and paths of somebody's machine.

use super::Violation;
use super::tree::Text;

/// Longest line of code, in columns.
const COLUMNS_MAX: usize = 110;

/// Checks one file.
pub(super) fn check(text: &Text) -> Vec<Violation> {
    let mut found = name(text);
    for (index, line) in text.content.lines().enumerate() {
        let violation = |rule: String| Violation::new(&text.path, index + 1, rule);
        found.extend(width(text, line).map(violation));
        found.extend(marker(line).map(violation));
        found.extend(machine_path(line).map(violation));
    }
    found
}

fn name(text: &Text) -> Vec<Violation> {
    if !text.is("rs") && !text.is("py") {
        return Vec::new();
    }
    let stem = text.name().split('.').next().unwrap_or_default();
    let vague = ["util", "utils", "common", "helper", "helpers", "misc"];
    let folders = text.path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let parts = folders.split('/').chain([stem]);
    parts
        .filter(|part| vague.contains(part))
        .map(|part| {
            Violation::new(&text.path, 1, format!("`{part}` says nothing: name the concern"))
        })
        .collect()
}

fn width(text: &Text, line: &str) -> Option<String> {
    let columns = line.chars().count();
    let is_code = ["rs", "py", "proto", "sh"].iter().any(|extension| text.is(extension));
    if !is_code || columns <= COLUMNS_MAX {
        return None;
    }
    Some(format!("{columns} columns, more than {COLUMNS_MAX}"))
}

fn marker(line: &str) -> Option<String> {
    // In two parts each, so that this file does not break its own rule.
    let markers = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut words = line.split(|sign: char| !sign.is_ascii_alphanumeric());
    let found = words.find(|word| markers.contains(word))?;
    Some(format!("leftover marker `{found}`: do it, or say in docs/ what is missing"))
}

fn machine_path(line: &str) -> Option<String> {
    let paths = [
        concat!("/wo", "rk/"),
        concat!("/tm", "p/"),
        concat!("/ro", "ot/"),
        concat!("../sh", "ared"),
    ];
    let found = paths.iter().find(|path| line.contains(*path))?;
    Some(format!("`{found}…` is a path of somebody's machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(path: &str, content: &str) -> Vec<String> {
        let text = Text { path: path.into(), content: content.into() };
        check(&text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_of_code_have_110_columns() {
        let line = |columns: usize| format!("a\n{}\n", "é".repeat(columns));
        assert_eq!(broken("core/src/a.rs", &line(110)), [""; 0]);
        assert_eq!(
            broken("core/src/a.rs", &line(111)),
            ["core/src/a.rs:2: 111 columns, more than 110"]
        );
        assert_eq!(broken("tests/python/a.py", &line(111)).len(), 1);
        assert_eq!(broken("README.md", &line(500)), [""; 0]);
    }

    #[test]
    fn no_marker_is_left() {
        for marker in [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")] {
            let found = broken("core/src/a.rs", &format!("a\n// {marker}: later\n"));
            assert!(found[0].starts_with("core/src/a.rs:2: leftover marker"), "{found:?}");
            assert_eq!(broken("core/src/a.rs", &format!("let a = {marker}S;")), [""; 0]);
        }
    }

    #[test]
    fn no_machine_is_named() {
        for path in [
            concat!("/wo", "rk/a"),
            concat!("/tm", "p/a"),
            concat!("/ro", "ot/a"),
            concat!("../sh", "ared/a"),
        ] {
            assert_eq!(broken("docs/a.md", &format!("see {path}")).len(), 1, "{path}");
        }
        assert_eq!(broken("docs/a.md", "see /var/lib/rondo and target/tmp"), [""; 0]);
    }

    #[test]
    fn names_say_something() {
        for path in ["core/src/utils.rs", "core/src/common/mod.rs", "tests/python/helpers.py"] {
            assert_eq!(broken(path, "").len(), 1, "{path}");
        }
        assert_eq!(broken("core/src/limits.rs", ""), [""; 0]);
    }
}
