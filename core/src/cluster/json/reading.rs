//! Reading JSON, within bounds.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::Json;
use crate::limits::{
    CLUSTER_DOCUMENT_BYTES_MAX, CLUSTER_DOCUMENT_DEPTH_MAX, CLUSTER_DOCUMENT_VALUES_MAX,
};

/// Why a text is no JSON that we take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFault {
    /// Where reading stopped, in bytes from the beginning.
    pub at: usize,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at byte {}", self.why, self.at)
    }
}

pub(super) fn parse(text: &str) -> Result<Json, JsonFault> {
    let mut reader = Reader { text, at: 0, values: 0 };
    if text.len() > CLUSTER_DOCUMENT_BYTES_MAX {
        return Err(reader.fault(format!(
            "{} bytes, more than the {CLUSTER_DOCUMENT_BYTES_MAX} that a document may have",
            text.len()
        )));
    }
    let value = reader.value(0)?;
    reader.blanks();
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.fault("something follows the document")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Values that were begun.
    values: usize,
}

impl<'a> Reader<'a> {
    fn fault(&self, why: impl Into<String>) -> JsonFault {
        JsonFault { at: self.at, why: why.into() }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes this byte if it is next.
    fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonFault> {
        if depth > CLUSTER_DOCUMENT_DEPTH_MAX {
            let text = format!("nested deeper than {CLUSTER_DOCUMENT_DEPTH_MAX} levels");
            return Err(self.fault(text));
        }
        self.values += 1;
        if self.values > CLUSTER_DOCUMENT_VALUES_MAX {
            let text =
                format!("more than the {CLUSTER_DOCUMENT_VALUES_MAX} values a document may have");
            return Err(self.fault(text));
        }
        self.blanks();
        match self.peek() {
            None => Err(self.fault("the document ends where a value should be")),
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(Json::Text),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, JsonFault> {
        let words =
            [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        for (word, value) in words {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        let sign = self.rest().chars().next().unwrap_or_default();
        Err(self.fault(format!("{sign:?} begins no value")))
    }

    fn list(&mut self, depth: usize) -> Result<Json, JsonFault> {
        self.at += 1;
        let mut values = Vec::new();
        self.blanks();
        if self.take(b']') {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            self.blanks();
            if self.take(b']') {
                return Ok(Json::List(values));
            }
            if !self.take(b',') {
                return Err(self.fault("neither ',' nor ']' follows a value of a list"));
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, JsonFault> {
        self.at += 1;
        let mut members = Vec::new();
        self.blanks();
        if self.take(b'}') {
            return Ok(Json::Map(members));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.fault("a member's name in double quotes should be here"));
            }
            let name = self.string()?;
            self.blanks();
            if !self.take(b':') {
                return Err(self.fault(format!("no ':' follows the name {:?}", clip(&name))));
            }
            members.push((name, self.value(depth + 1)?));
            self.blanks();
            if self.take(b'}') {
                return Ok(Json::Map(members));
            }
            if !self.take(b',') {
                return Err(self.fault("neither ',' nor '}' follows a member of an object"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, JsonFault> {
        let begin = self.at;
        self.take(b'-');
        let is_zero = self.peek() == Some(b'0');
        if self.digits() == 0 || (is_zero && self.leading_zero(begin)) {
            self.at = begin;
            return Err(self.fault("no number of JSON"));
        }
        if self.take(b'.') && self.digits() == 0 {
            return Err(self.fault("no digit follows the point of a number"));
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            if self.digits() == 0 {
                return Err(self.fault("no digit follows the exponent's sign of a number"));
            }
        }
        Ok(Json::Number(self.text.get(begin..self.at).unwrap_or_default().into()))
    }

    /// Whether the whole part that was just read has a zero in front of other digits.
    fn leading_zero(&self, begin: usize) -> bool {
        let whole = self.text.get(begin..self.at).unwrap_or_default();
        whole.trim_start_matches('-').len() > 1
    }

    fn digits(&mut self) -> usize {
        let begin = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - begin
    }

    fn string(&mut self) -> Result<String, JsonFault> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let plain = rest.find(|sign: char| sign == '"' || sign == '\\' || sign < ' ');
            let Some(length) = plain else {
                return Err(self.fault("a text does not end"));
            };
            out.push_str(rest.get(..length).unwrap_or_default());
            self.at += length;
            if self.take(b'"') {
                return Ok(out);
            }
            if !self.take(b'\\') {
                return Err(self.fault("a control character stands in a text"));
            }
            out.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Result<char, JsonFault> {
        let kind = self.peek();
        let simple = match kind {
            Some(sign @ (b'"' | b'\\' | b'/')) => char::from(sign),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.fault("an unknown escape in a text")),
        };
        self.at += 1;
        Ok(simple)
    }

    fn unicode(&mut self) -> Result<char, JsonFault> {
        let first = self.four_hex()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if !self.take(b'\\') || self.peek() != Some(b'u') {
                return Err(self.fault("half a pair of surrogates in a text"));
            }
            let second = self.four_hex()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(self.fault("half a pair of surrogates in a text"));
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.fault("half a pair of surrogates in a text"))
    }

    /// The number behind `u`, which is next.
    fn four_hex(&mut self) -> Result<u32, JsonFault> {
        let digits = self.text.get(self.at + 1..self.at + 5).unwrap_or_default();
        let are_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, 16).ok().filter(|_| are_hex);
        let number = number.ok_or_else(|| self.fault("no four hexadecimal digits follow \\u"))?;
        self.at += 5;
        Ok(number)
    }
}

/// The beginning of a text for a message.
fn clip(text: &str) -> String {
    text.chars().take(64).collect()
}
