//! Words and calls that have no place in a crate.

use super::Violation;
use super::source::{Kind, Source, Token};

/// Checks one file.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for index in 0..source.tokens.len() {
        let here = Here { source, index };
        found.extend(here.select_without_bias());
        if source.is_test_line(here.line()) {
            continue;
        }
        found.extend(here.panicking_call());
        found.extend(here.panicking_macro());
        found.extend(here.indexing());
        found.extend(here.printing());
        if is_pure(source) {
            found.extend(here.unordered());
            found.extend(here.shared_static());
            if !is_shell_world(source) {
                found.extend(here.clocked());
                found.extend(here.outside_world());
            }
        }
        if source.room == "core" {
            found.extend(here.float());
        }
    }
    for (lint, line) in &source.waivers_unexplained {
        if !source.is_test_line(*line) {
            let rule = format!("`clippy::{lint}` is switched off without a `reason`");
            found.push(Violation::new(&source.path, *line, rule));
        }
    }
    found
}

/// Whether a file may know nothing of the outside world. The simulator's command line must, to read
/// and write files and to use all cores; no run of the simulation does.
fn is_pure(source: &Source) -> bool {
    let programs = ["sim/src/main.rs", COST_PROGRAM];
    let is_command_line =
        source.path.starts_with("sim/src/cli/") || programs.contains(&source.path.as_str());
    ["core", "proto", "sim"].contains(&source.room.as_str()) && !is_command_line
}

/// Whether a file belongs to the world in which the runtime's own code runs. It stands on madsim,
/// whose clock, tasks and sockets bear the names of those they stand for.
fn is_shell_world(source: &Source) -> bool {
    source.path.starts_with("sim/src/shell/")
}

/// The program that counts the work of steps.
const COST_PROGRAM: &str = "sim/cost/src/main.rs";
/// Files with counts that decide nothing of what a run simulates. Oracles count in `checks.rs` how often they
/// judged; each thread has its own counts, and nothing in a run reads them. The other two hold the count of
/// blocks that have run, the function that reads it, which is set before the first run, and the step nearest
/// to its bound, which is printed at the end.
const COUNTS: [&str; 3] = ["sim/src/checks.rs", "sim/src/cost.rs", COST_PROGRAM];

/// A token in its file.
struct Here<'a> {
    source: &'a Source,
    index: usize,
}

impl Here<'_> {
    fn token(&self, offset: isize) -> Option<&Token> {
        self.index.checked_add_signed(offset).and_then(|index| self.source.tokens.get(index))
    }

    fn line(&self) -> usize {
        self.token(0).map_or(0, |token| token.line)
    }

    fn word(&self, offset: isize) -> Option<&str> {
        match &self.token(offset)?.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is_sign(&self, offset: isize, sign: char) -> bool {
        self.token(offset).is_some_and(|token| token.kind == Kind::Sign(sign))
    }

    fn is_open(&self, offset: isize, open: char) -> bool {
        self.token(offset).is_some_and(|token| token.kind == Kind::Open(open))
    }

    /// A word that starts a path: nothing before it, and `::` behind it.
    fn starts_path(&self) -> bool {
        !self.is_sign(-1, ':')
            && !self.is_sign(-1, '.')
            && self.is_sign(1, ':')
            && self.is_sign(2, ':')
    }

    fn violation(&self, rule: impl Into<String>) -> Option<Violation> {
        Some(Violation::new(&self.source.path, self.line(), rule))
    }

    /// A violation unless the Clippy lint is waived here with a reason.
    fn unless_waived(&self, lint: &str, rule: impl Into<String>) -> Option<Violation> {
        if self.source.waives(lint, self.line()) { None } else { self.violation(rule) }
    }

    fn panicking_call(&self) -> Option<Violation> {
        let word = self.word(0)?;
        if !self.is_sign(-1, '.') || !self.is_open(1, '(') {
            return None;
        }
        let argument = self.token(2).map(|token| &token.kind);
        match (word, argument) {
            ("unwrap" | "unwrap_err", Some(Kind::Close(')'))) => {
                self.unless_waived("unwrap_used", format!("`{word}()`: handle the other case"))
            }
            ("expect" | "expect_err", Some(Kind::Literal(_) | Kind::Sign('&'))) => {
                let rule = format!(
                    "`{word}(…)`: handle the other case, or waive with the proof as the reason"
                );
                self.unless_waived("expect_used", rule)
            }
            _ => None,
        }
    }

    fn panicking_macro(&self) -> Option<Violation> {
        let word = self.word(0)?;
        if !["panic", "todo", "unimplemented"].contains(&word) || !self.is_sign(1, '!') {
            return None;
        }
        self.unless_waived(word, format!("`{word}!`: return an error instead"))
    }

    /// `a[b]`, except where `b` is made of numbers: those Clippy judges with the type in hand.
    fn indexing(&self) -> Option<Violation> {
        if !self.is_open(0, '[') {
            return None;
        }
        let indexes = match &self.token(-1)?.kind {
            Kind::Word(word) => !KEYWORDS.contains(&word.as_str()),
            Kind::Close(close) => *close != '}' && !self.closes_attribute(),
            Kind::Sign(sign) => *sign == '?',
            _ => false,
        };
        if !indexes || self.is_constant_index() {
            return None;
        }
        self.unless_waived("indexing_slicing", "indexing can panic: use `get`")
    }

    /// True when between this bracket and its end stand numbers and dots only.
    fn is_constant_index(&self) -> bool {
        let mut offset = 1;
        while let Some(token) = self.token(offset) {
            match token.kind {
                Kind::Close(']') => return true,
                Kind::Literal(_) | Kind::Sign('.' | '=') => offset += 1,
                _ => return false,
            }
        }
        false
    }

    /// True when the bracket before this token ends an attribute.
    fn closes_attribute(&self) -> bool {
        let mut depth = 0_i32;
        let mut offset = -1;
        while let Some(token) = self.token(offset) {
            match token.kind {
                Kind::Close(']') => depth += 1,
                Kind::Open('[') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.is_sign(offset - 1, '#') || self.is_sign(offset - 1, '!');
            }
            offset -= 1;
        }
        false
    }

    fn printing(&self) -> Option<Violation> {
        let word = self.word(0)?;
        let prints = ["print", "println", "eprint", "eprintln", "dbg"].contains(&word);
        let command_lines = ["runtime/src/cli", "sim/src/cli", COST_PROGRAM];
        let talks = command_lines.iter().any(|path| self.source.path.starts_with(path));
        if !prints || !self.is_sign(1, '!') || talks {
            return None;
        }
        // Build scripts talk to cargo this way.
        if self.source.path.ends_with("/build.rs") {
            return None;
        }
        self.violation(format!("`{word}!` outside a command line: use `tracing`"))
    }

    fn select_without_bias(&self) -> Option<Violation> {
        let is_select = self.word(0)? == "select" && self.is_sign(1, '!');
        if !is_select || self.word(3) == Some("biased") {
            return None;
        }
        self.violation("`select!` without `biased;`: the order of branches would be random")
    }

    fn unordered(&self) -> Option<Violation> {
        match self.word(0)? {
            "HashMap" => self.instead("`BTreeMap`"),
            "HashSet" => self.instead("`BTreeSet`"),
            _ => None,
        }
    }

    fn clocked(&self) -> Option<Violation> {
        match self.word(0)? {
            "Instant" | "SystemTime" => self.instead("the time that comes in as an input"),
            _ => None,
        }
    }

    fn instead(&self, instead: &str) -> Option<Violation> {
        self.violation(format!("`{}` in {}: use {instead}", self.word(0)?, self.source.room))
    }

    /// `std::fs`, `std::{net, …}`, `tokio::…` and their like.
    fn outside_world(&self) -> Option<Violation> {
        let word = self.word(0)?;
        let crates = ["tokio", "rand", "fastrand", "getrandom", "tonic", "sled"];
        if crates.contains(&word) && self.starts_path() {
            return self
                .violation(format!("`{word}` in {}: it belongs to the runtime", self.source.room));
        }
        // A build script is no part of the crate.
        if word != "std" || !self.starts_path() || self.source.path.ends_with("/build.rs") {
            return None;
        }
        let parts = ["thread", "fs", "net", "env", "process"];
        let part = self.path_heads(3).into_iter().find(|part| parts.contains(part))?;
        self.violation(format!("`std::{part}` in {}: it belongs to the runtime", self.source.room))
    }

    /// The first words of what follows a `::`: one, or all in braces.
    fn path_heads(&self, offset: isize) -> Vec<&str> {
        if !self.is_open(offset, '{') {
            return self.word(offset).into_iter().collect();
        }
        let mut heads = Vec::new();
        let (mut depth, mut at) = (0_i32, offset);
        while let Some(token) = self.token(at) {
            match token.kind {
                Kind::Open(_) => depth += 1,
                Kind::Close(_) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            if depth == 1 && (self.is_open(at - 1, '{') || self.is_sign(at - 1, ',')) {
                heads.extend(self.word(at));
            }
            at += 1;
        }
        heads
    }

    fn shared_static(&self) -> Option<Violation> {
        if COUNTS.contains(&self.source.path.as_str()) {
            return None;
        }
        if self.word(0)? == "thread_local" && self.is_sign(1, '!') {
            return self.violation("`thread_local!`: state belongs to a machine");
        }
        if self.word(0)? != "static" {
            return None;
        }
        let kinds =
            ["mut", "Mutex", "RwLock", "OnceLock", "LazyLock", "OnceCell", "RefCell", "Cell"];
        let mut offset = 1;
        while let Some(token) = self.token(offset) {
            if matches!(token.kind, Kind::Sign('=' | ';') | Kind::Open('{' | '(')) {
                break;
            }
            let word = self.word(offset).unwrap_or_default();
            if kinds.contains(&word) || word.starts_with("Atomic") {
                return self
                    .violation(format!("a static with `{word}`: state belongs to a machine"));
            }
            offset += 1;
        }
        None
    }

    fn float(&self) -> Option<Violation> {
        let word = self.word(0)?;
        if !["f32", "f64"].contains(&word) {
            return None;
        }
        self.violation(format!("`{word}` in core: no floats in decisions"))
    }
}

const KEYWORDS: [&str; 18] = [
    "as", "break", "const", "dyn", "else", "for", "if", "impl", "in", "let", "match", "move",
    "mut", "pub", "ref", "return", "static", "where",
];

#[cfg(test)]
mod tests {
    use super::super::source::testing::source;
    use super::*;

    /// The rules broken by the body of a function in a file at `path`.
    fn broken(path: &str, body: &str) -> Vec<String> {
        let content = format!("fn planted() {{\n{body}\n}}\n");
        check(&source(path, &content)).iter().map(ToString::to_string).collect()
    }

    /// Asserts that `body` breaks exactly one rule, at its first line.
    fn assert_broken(path: &str, body: &str, rule: &str) {
        let found = broken(path, body);
        assert_eq!(found.len(), 1, "{body}: {found:?}");
        assert!(
            found[0].starts_with(&format!("{path}:2: ")) && found[0].contains(rule),
            "{found:?}"
        );
    }

    const NODE: &str = "runtime/src/node.rs";

    #[test]
    fn panicking_calls() {
        assert_broken(NODE, "a.unwrap();", "`unwrap()`");
        assert_broken(NODE, "a.unwrap_err();", "`unwrap_err()`");
        assert_broken(NODE, "a.expect(\"b\");", "`expect(…)`");
        assert_broken(NODE, "log!(\"{}\", a.unwrap());", "`unwrap()`");
        assert_eq!(broken(NODE, "parser.expect(token); a.unwrap_or(0);"), [""; 0]);
        assert_eq!(broken("tests/src/server.rs", "a.unwrap();"), [""; 0]);
    }

    #[test]
    fn panicking_macros() {
        assert_broken(NODE, "panic!(\"a\");", "`panic!`");
        assert_broken(NODE, "todo!();", "`todo!`");
        assert_broken(NODE, "unimplemented!();", "`unimplemented!`");
        assert_eq!(broken(NODE, "let panic = 1;"), [""; 0]);
    }

    #[test]
    fn indexing_and_what_only_looks_like_it() {
        for body in ["a[b];", "&a[b..];", "f()[i];", "a?[i];", "a[i][j..];", "assert!(a[i] > 0);"] {
            assert!(broken(NODE, body)[0].contains("indexing"), "{body}");
        }
        let others = "let [a, b] = c; let d: &'a [u8] = &e[..]; vec![f]; #[g] [h]; \
                      for i in [j, k] {} l[0]; return [m]; n[1..=2]; struct O(pub [u8; 4]);";
        assert_eq!(broken(NODE, others), [""; 0]);
    }

    #[test]
    fn printing() {
        assert_broken(NODE, "println!(\"a\");", "`println!`");
        assert_broken(NODE, "eprintln!(\"a\");", "`eprintln!`");
        assert_eq!(broken("runtime/src/cli/status.rs", "println!(\"a\");"), [""; 0]);
        assert_eq!(broken("proto/build.rs", "println!(\"a\");"), [""; 0]);
    }

    #[test]
    fn select_needs_a_bias_in_tests_too() {
        for path in [NODE, "tests/src/server.rs"] {
            assert_broken(path, "tokio::select! { a = b => {} }", "without `biased;`");
            assert_eq!(broken(path, "tokio::select! { biased; a = b => {} }"), [""; 0]);
        }
    }

    #[test]
    fn the_pure_crates_know_no_outside_world() {
        for path in ["core/src/time.rs", "proto/src/frame.rs", "sim/src/net.rs"] {
            assert_broken(path, "let a: HashMap<u8, u8>;", "use `BTreeMap`");
            assert_broken(path, "let a: HashSet<u8>;", "use `BTreeSet`");
            assert_broken(path, "Instant::now();", "comes in as an input");
            assert_broken(path, "SystemTime::now();", "comes in as an input");
            assert_broken(path, "std::thread::spawn(f);", "`std::thread`");
            assert_broken(path, "use std::{fmt, fs};", "`std::fs`");
            assert_broken(path, "std::net::lookup();", "`std::net`");
            assert_broken(path, "std::env::var(a);", "`std::env`");
            assert_broken(path, "rand::random();", "`rand`");
            assert_broken(path, "tokio::spawn(f);", "`tokio`");
            assert_broken(path, "static A: AtomicU64 = AtomicU64::new(0);", "`AtomicU64`");
            assert_broken(path, "thread_local!(a);", "`thread_local!`");
            assert_eq!(
                broken(path, "static A: u8 = 1; use std::fmt; let rand = 1; a.tokio();"),
                [""; 0]
            );
        }
        assert_eq!(broken(NODE, "std::fs::read(a); Instant::now();"), [""; 0]);
        assert_eq!(broken("sim/src/cli/run.rs", "std::fs::read(a); println!(\"a\");"), [""; 0]);
        let shell = "sim/src/shell/run.rs";
        assert_eq!(broken(shell, "use std::net::A; tokio::spawn(f); Instant::now();"), [""; 0]);
        assert_broken(shell, "let a: HashMap<u8, u8>;", "use `BTreeMap`");
        assert_broken("core/src/time.rs", "let a: f64;", "no floats");
        assert_eq!(broken("proto/src/convert.rs", "let a: f64;"), [""; 0]);
    }

    #[test]
    fn a_waiver_needs_a_reason() {
        let waived =
            "#[expect(clippy::expect_used, reason = \"proof\")]\nfn a() { b.expect(\"c\"); }";
        assert_eq!(check(&source(NODE, waived)), []);
        let unexplained = "#[allow(clippy::expect_used)]\nfn a() { b.expect(\"c\"); }";
        assert_eq!(check(&source(NODE, unexplained)).len(), 2);
    }

    #[test]
    fn test_code_is_left_alone() {
        let content =
            "#[cfg(test)]\nmod tests {\n fn a() { b.unwrap(); c[d]; HashMap::new(); }\n}\n";
        assert_eq!(check(&source("core/src/time.rs", content)), []);
    }
}
