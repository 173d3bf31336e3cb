//! JSON as launchers and APIs write it: members in the order written, numbers as their text, members
//! named twice kept, so that what is odd about a document can be told.

mod reading;
mod writing;

use alloc::string::String;
use alloc::vec::Vec;

pub use reading::JsonFault;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it was written, such as `1`, `-0.5` or `1e3`.
    Number(String),
    /// A text.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object: its members in the order written, names that come twice included.
    Map(Vec<(String, Self)>),
}

impl Json {
    /// Reads one document.
    ///
    /// # Errors
    /// What is no JSON, is longer than [`crate::limits::CLUSTER_DOCUMENT_BYTES_MAX`] or deeper than
    /// [`crate::limits::CLUSTER_DOCUMENT_DEPTH_MAX`].
    pub fn parse(text: &str) -> Result<Self, JsonFault> {
        reading::parse(text)
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A whole number.
    pub fn number(number: impl Into<i128>) -> Self {
        Self::Number(alloc::format!("{}", number.into()))
    }

    /// The member of an object: the last of that name, as readers of JSON have it. `None` where there is
    /// none, and for what is no object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let members = self.as_map()?;
        members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The member of a member and so on.
    pub fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |value, name| value.get(name))
    }

    /// The text at a path; `None` for anything else there.
    pub fn text_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_text()
    }

    /// Its text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its values, if it is an array.
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(values) => Some(values),
            _ => None,
        }
    }

    /// Its members, if it is an object.
    pub fn as_map(&self) -> Option<&[(String, Self)]> {
        match self {
            Self::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The whole number that it is, in the range of `u32`. `1.0` is none, nor are `true` and `"1"`.
    pub fn as_u32(&self) -> Option<u32> {
        match self {
            Self::Number(text) => text.parse().ok(),
            _ => None,
        }
    }

    /// Whether it is `true`; `None` for what is neither `true` nor `false`.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(yes) => Some(*yes),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// What kind of value it is, in a word with its article.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }

    /// Names that stand more than once in one object, anywhere in the document, as `a.b.name`.
    pub fn repeated(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.find_repeated("", &mut found);
        found
    }

    fn find_repeated(&self, path: &str, found: &mut Vec<String>) {
        let Self::Map(members) = self else {
            for value in self.as_list().unwrap_or_default() {
                value.find_repeated(path, found);
            }
            return;
        };
        let mut seen = alloc::collections::BTreeSet::new();
        for (name, value) in members {
            let here = if path.is_empty() { name.clone() } else { alloc::format!("{path}.{name}") };
            value.find_repeated(&here, found);
            if !seen.insert(name) && !found.contains(&here) {
                found.push(here);
            }
        }
    }
}
