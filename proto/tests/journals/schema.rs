//! The .proto files, read by a parser of our own: all messages, enums and calls that they name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    /// `optional`, `repeated`, `oneof NAME`, or nothing.
    pub(super) label: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// All that the .proto files say, by full names.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) messages: BTreeMap<String, Vec<Field>>,
    pub(super) enums: BTreeMap<String, Vec<(u64, String)>>,
    calls: Vec<String>,
}

impl Schema {
    pub(super) fn read() -> Self {
        let mut files = Vec::new();
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("protos"), &mut files);
        let mut schema = Self::default();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let mut tokens = Tokens::of(&text);
            schema.file(&mut tokens);
        }
        schema
    }

    /// One line a field, number of an enum, and call.
    pub(super) fn lines(&self) -> Vec<String> {
        let fields = self.messages.iter().flat_map(|(message, fields)| {
            let line = move |field: &Field| {
                let Field { number, label, kind, name } = field;
                format!("message {message} {number} {label}{kind} {name}")
            };
            fields.iter().map(line)
        });
        let numbers = self.enums.iter().flat_map(|(name, numbers)| {
            numbers.iter().map(move |(number, value)| format!("enum {name} {number} {value}"))
        });
        fields.chain(numbers).chain(self.calls.iter().cloned()).collect()
    }

    /// The full name of the message or enum that `message` calls `kind`.
    pub(super) fn resolve(&self, message: &str, kind: &str) -> Option<String> {
        let scopes = message.match_indices('.').map(|(at, _)| &message[..at]).rev();
        let within = [message].into_iter().chain(scopes).map(|scope| format!("{scope}.{kind}"));
        let mut names = within.chain([kind.to_owned()]);
        names.find(|name| self.messages.contains_key(name) || self.enums.contains_key(name))
    }

    fn file(&mut self, tokens: &mut Tokens) {
        let mut package = String::new();
        while let Some(token) = tokens.next() {
            match token.as_str() {
                "package" => package = tokens.statement().concat(),
                "syntax" | "import" | "option" => drop(tokens.statement()),
                "message" => self.message(&package, tokens),
                "enum" => self.enumeration(&package, tokens),
                "service" => self.service(&package, tokens),
                ";" => {}
                other => panic!("{other} begins no definition"),
            }
        }
    }

    fn message(&mut self, scope: &str, tokens: &mut Tokens) {
        let name = format!("{scope}.{}", tokens.expect_next());
        tokens.skip("{");
        // A message without fields is one too.
        self.messages.insert(name.clone(), Vec::new());
        self.fields(&name, "", tokens);
    }

    fn fields(&mut self, message: &str, within: &str, tokens: &mut Tokens) {
        loop {
            let token = tokens.expect_next();
            match token.as_str() {
                "}" => return,
                "message" => self.message(message, tokens),
                "enum" => self.enumeration(message, tokens),
                "reserved" | "option" => drop(tokens.statement()),
                "oneof" => {
                    let within = format!("oneof {} ", tokens.expect_next());
                    tokens.skip("{");
                    self.fields(message, &within, tokens);
                }
                ";" => {}
                _ => {
                    let mut words = vec![token];
                    words.extend(tokens.statement());
                    let field = field(within, &words);
                    self.messages.get_mut(message).unwrap().push(field);
                }
            }
        }
    }

    fn enumeration(&mut self, scope: &str, tokens: &mut Tokens) {
        let name = format!("{scope}.{}", tokens.expect_next());
        tokens.skip("{");
        let mut numbers = Vec::new();
        loop {
            let token = tokens.expect_next();
            match token.as_str() {
                "}" => break,
                "reserved" | "option" => drop(tokens.statement()),
                ";" => {}
                _ => {
                    let words = tokens.statement();
                    numbers.push((words[1].parse().unwrap(), token));
                }
            }
        }
        self.enums.insert(name, numbers);
    }

    fn service(&mut self, package: &str, tokens: &mut Tokens) {
        let name = format!("{package}.{}", tokens.expect_next());
        tokens.skip("{");
        loop {
            match tokens.expect_next().as_str() {
                "}" => return,
                "rpc" => self.calls.push(format!("call {name} {}", tokens.statement().join(" "))),
                other => panic!("{other} in service {name}"),
            }
        }
    }
}

/// The field that stands as these words before a semicolon.
fn field(within: &str, words: &[String]) -> Field {
    let assigned = words.iter().position(|word| word == "=").expect("a field has a number");
    let number = words[assigned + 1].parse().unwrap();
    let (name, typed) = words[..assigned].split_last().unwrap();
    let (label, kind) = match typed.split_first().unwrap() {
        (label, kind) if label == "optional" || label == "repeated" => (format!("{label} "), kind),
        _ => (within.to_owned(), typed),
    };
    Field { number, label, kind: kind.concat(), name: name.clone() }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}

/// The words and signs of a .proto file.
struct Tokens(std::vec::IntoIter<String>);

impl Tokens {
    fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        for line in text.lines() {
            let code = line.split("//").next().unwrap_or_default();
            let mut word = String::new();
            for sign in code.chars() {
                let is_sign = "{}=;<>,()[]".contains(sign);
                if is_sign || sign.is_whitespace() {
                    tokens.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                } else {
                    word.push(sign);
                }
                tokens.extend(is_sign.then(|| sign.to_string()));
            }
            tokens.extend(Some(word).filter(|word| !word.is_empty()));
        }
        Self(tokens.into_iter())
    }

    fn next(&mut self) -> Option<String> {
        self.0.next()
    }

    fn expect_next(&mut self) -> String {
        self.next().expect("the file goes on")
    }

    fn skip(&mut self, expected: &str) {
        assert_eq!(self.expect_next(), expected);
    }

    /// The tokens up to a semicolon, which is dropped.
    fn statement(&mut self) -> Vec<String> {
        self.0.by_ref().take_while(|token| token != ";").collect()
    }
}
