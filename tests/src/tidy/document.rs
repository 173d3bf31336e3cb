//! docs/architecture.md names the rooms that exist and the invariants that are checked, no others.

use super::Violation;
use super::source::{Kind, Source, Token};
use super::tree::Text;

const DOCUMENT: &str = "docs/architecture.md";
const ROOMS: [&str; 6] =
    ["core", "proto", "runtime", "runtime/data", "runtime/python", "runtime/tensor"];

/// Checks the document against the crates' roots.
pub(super) fn check(texts: &[Text]) -> Vec<Violation> {
    let Some(document) = texts.iter().find(|text| text.path == DOCUMENT) else {
        return vec![Violation::new(DOCUMENT, 1, "the document is missing")];
    };
    let rooms = ROOMS.iter().flat_map(|room| check_room(document, room, texts));
    rooms.chain(check_invariants(document, texts)).collect()
}

/// Compares the document's numbered sentences with those in `core`.
fn check_invariants(document: &Text, texts: &[Text]) -> Vec<Violation> {
    let sources = texts.iter().filter(|text| text.is("rs") && text.path.starts_with("core/src/"));
    let checked: Vec<_> =
        sources.map(Source::parse).flat_map(|source| invariants(&source)).collect();
    let rows = rows(document);
    let mut found = Vec::new();
    for (path, line, row) in &checked {
        if !rows.iter().any(|(_, listed)| listed == row) {
            let rule = format!("{DOCUMENT} has no row `{row}`");
            found.push(Violation::new(path, *line, rule));
        }
    }
    for (line, row) in &rows {
        if !checked.iter().any(|(_, _, known)| known == row) {
            found.push(Violation::new(
                DOCUMENT,
                *line,
                "no invariant in core has this number and sentence",
            ));
        }
    }
    found
}

/// Rows of the document's table of invariants.
fn rows(document: &Text) -> Vec<(usize, String)> {
    let is_row = |line: &str| {
        let number =
            line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        number.starts_with(|first: char| first.is_ascii_uppercase())
            && number[1..].parse::<u32>().is_ok()
    };
    let lines = document.content.lines().enumerate();
    lines.filter(|(_, line)| is_row(line)).map(|(index, line)| (index + 1, line.into())).collect()
}

/// Each `number: "…", sentence: "…"` outside tests: file, line, and the row it should have.
fn invariants(source: &Source) -> Vec<(String, usize, String)> {
    let mut found = Vec::new();
    for window in source.tokens.windows(7) {
        let [
            key,
            _,
            Token { kind: Kind::Literal(number), line },
            _,
            other,
            _,
            Token { kind: Kind::Literal(sentence), .. },
        ] = window
        else {
            continue;
        };
        let word =
            |token: &Token, wanted: &str| matches!(&token.kind, Kind::Word(word) if word == wanted);
        if word(key, "number") && word(other, "sentence") && !source.is_test_line(*line) {
            let row = format!("| {} | {} |", text_of(number), text_of(sentence));
            found.push((source.path.clone(), *line, row));
        }
    }
    found
}

/// What a string literal means.
fn text_of(literal: &str) -> String {
    syn::parse_str::<syn::LitStr>(literal).map(|literal| literal.value()).unwrap_or_default()
}

fn check_room(document: &Text, room: &str, texts: &[Text]) -> Vec<Violation> {
    let root = format!("{room}/src/lib.rs");
    let Some(root) = texts.iter().find(|text| text.path == root) else {
        return Vec::new();
    };
    let named = named_modules(&document.content, room);
    let modules = Source::parse(root).modules;
    let mut found = Vec::new();
    for (module, line) in &modules {
        if !named.iter().any(|(name, _)| name == module) {
            let rule = format!(
                "module `{module}` has no row in {DOCUMENT} under a heading with `{room}/`"
            );
            found.push(Violation::new(&root.path, *line, rule));
        }
    }
    for (name, line) in &named {
        if !modules.iter().any(|(module, _)| module == name) {
            let rule = format!("`{name}` is no module of {room}/src/lib.rs");
            found.push(Violation::new(DOCUMENT, *line, rule));
        }
    }
    found
}

/// Modules named in the first column of the tables below the heading that names the room.
fn named_modules(document: &str, room: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        if line.starts_with('#') {
            inside = line.contains(&format!("`{room}/`"));
        } else if inside && line.starts_with('|') {
            let first = line.split('|').nth(1).unwrap_or_default();
            let names = first.split('`').skip(1).step_by(2);
            found.extend(names.map(|name| (name.trim_end_matches('/').to_string(), index + 1)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(document: &str) -> Vec<String> {
        let text = |path: &str, content: &str| Text { path: path.into(), content: content.into() };
        let root = text("core/src/lib.rs", "pub mod ids;\nmod dispatcher;\n");
        let found = check(&[text(DOCUMENT, document), root]);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_document_matches_the_tree() {
        let good =
            "## Rooms of `core/`\n\n| a | b |\n|---|---|\n| `ids` | x |\n| `dispatcher/` | `y` |\n";
        assert_eq!(broken(good), [""; 0]);
        let missing = broken("## Rooms of `core/`\n| `ids` | `dispatcher` |\n");
        assert!(
            missing[0].starts_with("core/src/lib.rs:2: module `dispatcher` has no row"),
            "{missing:?}"
        );
        let gone = broken(&good.replace("`ids`", "`ids`, `attic`"));
        assert_eq!(gone, ["docs/architecture.md:5: `attic` is no module of core/src/lib.rs"]);
        let elsewhere = broken(&good.replace("core", "proto"));
        assert_eq!(elsewhere.len(), 2);
        assert_eq!(check(&[]).len(), 1);
    }

    #[test]
    fn the_document_lists_the_invariants() {
        let text = |path: &str, content: &str| Text { path: path.into(), content: content.into() };
        let code = "const A: I = I { number: \"D1\", sentence: \"all \\
                    is well\", check: a };\n\
                    #[cfg(test)]\nmod tests {\n const B: I = I { number: \"D0\", sentence: \"x\" };\n}";
        let broken = |document: &str| {
            let found = check(&[text(DOCUMENT, document), text("core/src/dispatcher/a.rs", code)]);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(broken("| D1 | all is well |\n"), [""; 0]);
        assert_eq!(
            broken(""),
            ["core/src/dispatcher/a.rs:1: docs/architecture.md has no row `| D1 | all is well |`"]
        );
        assert_eq!(broken("| D1 | all is well |\n| D2 | more |\n").len(), 1);
        assert_eq!(broken("| D1 | all is fine |\n").len(), 2);
    }
}
