//! Who may know whom inside `core`, and what every crate says at its top.

use super::Violation;
use super::source::{Kind, Source, Token};

/// Modules of `core` that know no other module but each other.
const FOUNDATION: [&str; 8] =
    ["element", "ids", "limits", "log", "memory", "stamp", "status", "time"];
/// Modules of `core` that may know all others.
const ROOF: [&str; 2] = ["control", "invariant"];
/// The one module of the roof that all may know: it says what an invariant is.
const INVARIANT: &str = "invariant";

/// What a crate's root must say.
const PURE_ROOMS: [(&str, &[&str]); 3] = [
    ("core", &["no_std", "forbid(unsafe_code)", "warn(missing_docs)"]),
    ("proto", &["forbid(unsafe_code)", "warn(missing_docs)"]),
    ("sim", &["forbid(unsafe_code)"]),
];

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let mut found = crate_root(source);
    if source.room == "core" && !source.is_test {
        found.extend(siblings(source));
    }
    found
}

fn crate_root(source: &Source) -> Vec<Violation> {
    let wanted = PURE_ROOMS
        .iter()
        .find(|(room, _)| source.path == format!("{room}/src/lib.rs"))
        .map_or(&[][..], |(_, wanted)| *wanted);
    let missing =
        wanted.iter().filter(|wanted| !source.attributes.iter().any(|has| has == *wanted));
    missing
        .map(|attribute| Violation::new(&source.path, 1, format!("`#![{attribute}]` is missing")))
        .collect()
}

/// Modules of `core` used by a module that should not know them.
fn siblings(source: &Source) -> Vec<Violation> {
    let module = module_path(&source.path);
    let Some(own) = module.first() else {
        return Vec::new();
    };
    if ROOF.contains(&own.as_str()) {
        return Vec::new();
    }
    let allowed = |used: &str| used == own || used == INVARIANT || FOUNDATION.contains(&used);
    let mut found = Vec::new();
    for index in 0..source.tokens.len() {
        for (used, line) in modules_used(&source.tokens, index, &module) {
            if !source.is_test_line(line) && is_module_name(&used) && !allowed(&used) {
                let rule = format!(
                    "`{own}` uses `crate::{used}`: siblings exchange values through `control` or the driver"
                );
                found.push(Violation::new(&source.path, line, rule));
            }
        }
    }
    found
}

/// The file's module path, such as `["dispatcher", "state"]`; empty for the crate's root.
fn module_path(path: &str) -> Vec<String> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let stem = inside.trim_end_matches(".rs");
    let parts = stem.split('/').filter(|part| !["mod", "lib", "main"].contains(part));
    parts.map(String::from).collect()
}

/// Re-exports at the crate's root are types (in capitals) or macros, not modules.
fn is_module_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// Top-level modules named by a path that starts at `index` with `crate` or enough `super`s.
fn modules_used(tokens: &[Token], index: usize, module: &[String]) -> Vec<(String, usize)> {
    let before = index.checked_sub(1).and_then(|before| tokens.get(before));
    if before.is_some_and(|token| token.kind == Kind::Sign(':')) {
        return Vec::new();
    }
    let mut at = index;
    let mut supers = 0;
    while is_word(tokens, at, "super") && is_path_sign(tokens, at + 1) {
        supers += 1;
        at += 3;
    }
    if is_word(tokens, at, "crate") && is_path_sign(tokens, at + 1) {
        return heads(tokens, at + 3);
    }
    if supers > 0 && supers >= module.len() { heads(tokens, at) } else { Vec::new() }
}

fn is_word(tokens: &[Token], at: usize, word: &str) -> bool {
    matches!(tokens.get(at), Some(Token { kind: Kind::Word(found), .. }) if found == word)
}

fn is_path_sign(tokens: &[Token], at: usize) -> bool {
    let is_colon = |at| matches!(tokens.get(at), Some(Token { kind: Kind::Sign(':'), .. }));
    is_colon(at) && is_colon(at + 1)
}

/// The first words at `at`: one, or each in a group in braces, macros' `!` left out.
fn heads(tokens: &[Token], at: usize) -> Vec<(String, usize)> {
    let word = |at: usize| match tokens.get(at) {
        Some(Token { kind: Kind::Word(word), line }) if !is_macro(tokens, at) => {
            Some((word.clone(), *line))
        }
        _ => None,
    };
    if !matches!(tokens.get(at), Some(Token { kind: Kind::Open('{'), .. })) {
        return word(at).into_iter().collect();
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for (offset, token) in tokens.iter().enumerate().skip(at) {
        let after =
            offset.checked_sub(1).and_then(|before| tokens.get(before)).map(|token| &token.kind);
        if depth == 1 && matches!(after, Some(Kind::Open('{') | Kind::Sign(','))) {
            found.extend(word(offset));
        }
        match token.kind {
            Kind::Open(_) => depth += 1,
            Kind::Close(_) if depth <= 1 => break,
            Kind::Close(_) => depth -= 1,
            _ => {}
        }
    }
    found
}

fn is_macro(tokens: &[Token], at: usize) -> bool {
    matches!(tokens.get(at + 1), Some(Token { kind: Kind::Sign('!'), .. }))
}

#[cfg(test)]
mod tests {
    use super::super::source::testing::source;
    use super::*;

    fn broken(path: &str, content: &str) -> Vec<String> {
        check(&source(path, content)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn machines_do_not_know_each_other() {
        for content in [
            "use crate::coordination::Barrier;",
            "use crate::{ids::JobId, coordination};",
            "use super::coordination::Barrier;",
            "fn a() { crate::coordination::b(); }",
            "type A = crate::control::Lsn;",
        ] {
            let found = broken("core/src/dispatcher/mod.rs", content);
            assert_eq!(found.len(), 1, "{content}: {found:?}");
            assert!(found[0].starts_with("core/src/dispatcher/mod.rs:1: `dispatcher` uses"));
        }
        let deep = "use super::super::coordination::Barrier;";
        assert_eq!(broken("core/src/dispatcher/state.rs", deep).len(), 1);
    }

    #[test]
    fn the_foundation_knows_no_machine() {
        assert_eq!(broken("core/src/time.rs", "use crate::dispatcher::State;").len(), 1);
        assert_eq!(broken("core/src/journal/scan.rs", "use crate::control::Record;").len(), 1);
    }

    #[test]
    fn what_is_allowed() {
        let own = "use super::types::Task; use crate::ids::{JobId, TaskId}; use crate::dispatcher::x; \
                   use crate::{time::Time, limits}; crate::bound!(a); use crate::invariant::Invariant;";
        assert_eq!(broken("core/src/dispatcher/state.rs", own), [""; 0]);
        let roof = "use crate::dispatcher::State; use crate::coordination::State as B;";
        assert_eq!(broken("core/src/control/node.rs", roof), [""; 0]);
        let tests = "#[cfg(test)]\nmod tests {\n use crate::control::Node;\n}";
        assert_eq!(broken("core/src/dispatcher/state.rs", tests), [""; 0]);
        assert_eq!(broken("runtime/src/node.rs", "use crate::store::Store;"), [""; 0]);
    }

    #[test]
    fn the_pure_crates_say_so() {
        let found = broken("core/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\n");
        assert_eq!(found, ["core/src/lib.rs:1: `#![warn(missing_docs)]` is missing"]);
        assert_eq!(broken("core/src/lib.rs", "").len(), 3);
        let all = "#![no_std]\n#![forbid(unsafe_code)]\n#![warn(missing_docs)]\n";
        assert_eq!(broken("core/src/lib.rs", all), [""; 0]);
        assert_eq!(broken("proto/src/lib.rs", "#![warn(missing_docs)]").len(), 1);
    }
}
