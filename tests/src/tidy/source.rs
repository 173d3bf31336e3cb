//! A Rust file, parsed once for all rules: its tokens in a row, its functions, its test code, and
//! the lints it waives with a reason.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, Item, ItemFn, Local, Meta, Signature, TraitItemFn};

use super::tree::Text;

/// Lines of a file, from 1.
pub(super) type Lines = RangeInclusive<usize>;

/// A parsed Rust file.
pub(super) struct Source {
    /// Its path relative to the root of the checkout.
    pub(super) path: String,
    /// The folder of its crate, such as `core`.
    pub(super) room: String,
    /// Number of lines.
    pub(super) lines: usize,
    /// Every token in order, groups opened up.
    pub(super) tokens: Vec<Token>,
    /// Name and lines of each function that has a body.
    pub(super) functions: Vec<(String, Lines)>,
    /// The file's own attributes, as text without spaces.
    pub(super) attributes: Vec<String>,
    /// Modules declared in the file with `mod name;`, with their lines.
    pub(super) modules: Vec<(String, usize)>,
    /// Lints switched off with a reason, and where.
    waivers: Vec<(String, Lines)>,
    /// Lints switched off without one.
    pub(super) waivers_unexplained: Vec<(String, usize)>,
    /// Modules declared for tests only, in files of their own.
    test_modules: Vec<String>,
    /// Lines of test code.
    tests: Vec<Lines>,
    /// True when all of it is test code.
    pub(super) is_test: bool,
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// What it is.
    pub(super) kind: Kind,
    /// Where it stands.
    pub(super) line: usize,
}

/// What a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or keyword.
    Word(String),
    /// A name after an apostrophe.
    Lifetime,
    /// A sign such as `.`.
    Sign(char),
    /// A number, character or string, as written.
    Literal(String),
    /// The start of a group: `(`, `[`, `{`.
    Open(char),
    /// The end of a group: `)`, `]`, `}`.
    Close(char),
}

impl Source {
    /// Parses a file.
    ///
    /// # Panics
    /// When it is no Rust.
    pub(super) fn parse(text: &Text) -> Self {
        let file = syn::parse_file(&text.content)
            .unwrap_or_else(|error| panic!("{} is no Rust: {error}", text.path));
        let stream: TokenStream = text.content.parse().expect("syn parsed it");
        let mut survey = Survey::default();
        survey.visit_file(&file);
        survey.waive(&file.attrs, 1..=usize::MAX);
        let room = text.path.split('/').next().unwrap_or_default();
        let mut tokens = Vec::new();
        flatten(stream, &mut tokens);
        Self {
            path: text.path.clone(),
            room: room.into(),
            lines: text.content.lines().count(),
            tokens,
            functions: survey.functions,
            attributes: file.attrs.iter().map(written).collect(),
            modules: survey.modules,
            waivers: survey.waivers,
            waivers_unexplained: survey.waivers_unexplained,
            test_modules: survey.test_modules,
            tests: survey.tests,
            is_test: is_test_path(&text.path),
        }
    }

    /// True when the line is test code.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Number of lines that are not test code.
    pub(super) fn lines_outside_tests(&self) -> usize {
        (1..=self.lines).filter(|line| !self.is_test_line(*line)).count()
    }

    /// True when a Clippy lint is switched off at the line, with a reason.
    pub(super) fn waives(&self, lint: &str, line: usize) -> bool {
        self.waivers.iter().any(|(waived, lines)| waived == lint && lines.contains(&line))
    }

    /// The file without its extension and `mod`, where submodules' files lie.
    fn folder(&self) -> String {
        let stem = self.path.trim_end_matches(".rs");
        ["/mod", "/lib", "/main"]
            .iter()
            .find_map(|end| stem.strip_suffix(end))
            .unwrap_or(stem)
            .into()
    }
}

/// Parses every Rust file, and finds which of them are test code by their parents' word.
pub(super) fn parse_all(texts: &[Text]) -> Vec<Source> {
    let mut sources: Vec<Source> =
        texts.iter().filter(|text| text.is("rs")).map(Source::parse).collect();
    let of_tests: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| {
            source.test_modules.iter().map(|name| format!("{}/{name}", source.folder()))
        })
        .collect();
    for source in &mut sources {
        let folder = source.folder();
        let inside = |test: &String| folder == *test || folder.starts_with(&format!("{test}/"));
        source.is_test |= of_tests.iter().any(inside);
    }
    sources
}

/// Test code by its place: integration tests and benches of any crate, and the whole test crate.
fn is_test_path(path: &str) -> bool {
    let inside = |path: &str| {
        let mut parts = path.split('/');
        parts.next() == Some("tests") || matches!(parts.next(), Some("tests" | "benches"))
    };
    inside(path) || path.strip_prefix("runtime/").is_some_and(inside)
}

fn written(attribute: &Attribute) -> String {
    let mut tokens = Vec::new();
    let meta = &attribute.meta;
    flatten(quote(meta), &mut tokens);
    tokens.iter().map(|token| token.kind.to_string()).collect()
}

/// The tokens of an attribute's content.
fn quote(meta: &Meta) -> TokenStream {
    let path = |path: &syn::Path| -> String {
        path.segments.iter().map(|part| part.ident.to_string()).collect::<Vec<_>>().join("::")
    };
    let text = match meta {
        Meta::Path(name) => path(name),
        Meta::List(list) => format!("{}({})", path(&list.path), list.tokens),
        Meta::NameValue(pair) => path(&pair.path),
    };
    text.parse().expect("an attribute is made of tokens")
}

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    let mut after_apostrophe = false;
    for tree in stream {
        let line = tree.span().start().line;
        let kind = match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                push(out, open.map(Kind::Open), line);
                flatten(group.stream(), out);
                push(out, close.map(Kind::Close), group.span_close().start().line);
                continue;
            }
            TokenTree::Ident(_) if after_apostrophe => Some(Kind::Lifetime),
            TokenTree::Ident(word) => Some(Kind::Word(word.to_string())),
            TokenTree::Punct(sign) if sign.as_char() == '\'' => None,
            TokenTree::Punct(sign) => Some(Kind::Sign(sign.as_char())),
            TokenTree::Literal(literal) => Some(Kind::Literal(literal.to_string())),
        };
        after_apostrophe = kind.is_none();
        push(out, kind, line);
    }
}

fn push(out: &mut Vec<Token>, kind: Option<Kind>, line: usize) {
    out.extend(kind.map(|kind| Token { kind, line }));
}

const fn brackets(delimiter: Delimiter) -> (Option<char>, Option<char>) {
    match delimiter {
        Delimiter::Parenthesis => (Some('('), Some(')')),
        Delimiter::Bracket => (Some('['), Some(']')),
        Delimiter::Brace => (Some('{'), Some('}')),
        Delimiter::None => (None, None),
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Word(text) | Self::Literal(text) => out.write_str(text),
            Self::Lifetime => out.write_str("'_"),
            Self::Sign(sign) | Self::Open(sign) | Self::Close(sign) => write!(out, "{sign}"),
        }
    }
}

/// What the syntax tree says beyond the tokens.
#[derive(Default)]
struct Survey {
    functions: Vec<(String, Lines)>,
    modules: Vec<(String, usize)>,
    waivers: Vec<(String, Lines)>,
    waivers_unexplained: Vec<(String, usize)>,
    test_modules: Vec<String>,
    tests: Vec<Lines>,
}

impl Survey {
    fn function(&mut self, signature: &Signature, body: &Block) {
        let lines = signature.span().start().line..=body.span().end().line;
        self.functions.push((signature.ident.to_string(), lines));
    }

    /// Notes the lints that attributes over `lines` switch off.
    fn waive(&mut self, attributes: &[Attribute], lines: Lines) {
        for attribute in attributes {
            let text = written(attribute);
            let Some(list) = text.strip_prefix("expect(").or_else(|| text.strip_prefix("allow("))
            else {
                continue;
            };
            let explained = list.contains("reason=");
            for lint in list.split([',', ')']).filter_map(|part| part.strip_prefix("clippy::")) {
                if explained {
                    self.waivers.push((lint.into(), lines.clone()));
                } else {
                    self.waivers_unexplained.push((lint.into(), attribute.span().start().line));
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Survey {
    fn visit_item(&mut self, item: &'ast Item) {
        let lines = item.span().start().line..=item.span().end().line;
        let attributes = attributes_of(item);
        if attributes.iter().any(is_for_tests) {
            self.tests.push(lines.clone());
        }
        self.waive(attributes, lines);
        if let Item::Mod(module) = item
            && module.content.is_none()
        {
            let name = module.ident.to_string();
            if attributes.iter().any(is_for_tests) {
                self.test_modules.push(name.clone());
            }
            self.modules.push((name, module.ident.span().start().line));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, &item.block);
        self.waive(&item.attrs, item.span().start().line..=item.span().end().line);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.sig, body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_local(&mut self, local: &'ast Local) {
        self.waive(&local.attrs, local.span().start().line..=local.span().end().line);
        visit::visit_local(self, local);
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let text = written(attribute);
    let is_cfg = text.starts_with("cfg(") && !text.contains("not(test");
    let names_test = text.split(|sign: char| !sign.is_alphanumeric()).any(|word| word == "test");
    names_test && (is_cfg || text.ends_with("test"))
}

#[cfg(test)]
pub(super) mod testing {
    use super::{Source, Text};

    /// A file with this content, as if it stood at `path`.
    pub(in super::super) fn source(path: &str, content: &str) -> Source {
        Source::parse(&Text { path: path.into(), content: content.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::testing::source;
    use super::*;

    #[test]
    fn test_code_is_known_by_attribute_place_and_parent() {
        let file = source("core/src/a.rs", "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\n");
        assert!(!file.is_test_line(1) && file.is_test_line(4));
        assert_eq!(file.lines_outside_tests(), 1);
        assert!(source("core/tests/a.rs", "").is_test && source("tests/src/a.rs", "").is_test);
        assert!(source("runtime/data/tests/a/b.rs", "").is_test);
        let text = |path: &str, content: &str| Text { path: path.into(), content: content.into() };
        let files = parse_all(&[
            text("core/src/a/mod.rs", "#[cfg(test)]\nmod model;\nmod other;"),
            text("core/src/a/model/part.rs", ""),
            text("core/src/a/other.rs", ""),
        ]);
        assert_eq!(files.iter().map(|file| file.is_test).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_waiver_holds_where_it_stands_and_needs_a_reason() {
        let file = source(
            "core/src/a.rs",
            "#[expect(clippy::panic, clippy::expect_used, reason = \"proof\")]\nfn a() {\n}\n\
             fn b() {}\n#[allow(clippy::panic)]\nfn c() {}\n",
        );
        assert!(file.waives("panic", 2) && file.waives("expect_used", 3));
        assert!(!file.waives("panic", 4) && !file.waives("panic", 6));
        assert_eq!(file.waivers_unexplained, [("panic".into(), 5)]);
    }
}
