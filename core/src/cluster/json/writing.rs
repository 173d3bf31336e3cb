//! Writing JSON: one line, or one member a line.

use alloc::string::String;
use core::fmt::{self, Write};

use super::Json;

impl fmt::Display for Json {
    /// One line; `{:#}` writes one value a line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = out.alternate().then_some(0);
        write_value(self, out, indent)
    }
}

fn write_value(value: &Json, out: &mut fmt::Formatter<'_>, indent: Option<usize>) -> fmt::Result {
    match value {
        Json::Null => out.write_str("null"),
        Json::Bool(yes) => write!(out, "{yes}"),
        Json::Number(text) => out.write_str(text),
        Json::Text(text) => write_text(text, out),
        Json::List(values) => {
            let inner = indent.map(|by| by + 2);
            out.write_char('[')?;
            for (index, value) in values.iter().enumerate() {
                between(out, inner, index)?;
                write_value(value, out, inner)?;
            }
            end(out, indent, values.is_empty(), ']')
        }
        Json::Map(members) => {
            let inner = indent.map(|by| by + 2);
            out.write_char('{')?;
            for (index, (name, value)) in members.iter().enumerate() {
                between(out, inner, index)?;
                write_text(name, out)?;
                out.write_str(": ")?;
                write_value(value, out, inner)?;
            }
            end(out, indent, members.is_empty(), '}')
        }
    }
}

fn between(out: &mut fmt::Formatter<'_>, indent: Option<usize>, index: usize) -> fmt::Result {
    if index > 0 {
        out.write_str(if indent.is_some() { "," } else { ", " })?;
    }
    match indent {
        Some(by) => write!(out, "\n{:by$}", ""),
        None => Ok(()),
    }
}

fn end(
    out: &mut fmt::Formatter<'_>,
    indent: Option<usize>,
    is_empty: bool,
    close: char,
) -> fmt::Result {
    if let Some(by) = indent.filter(|_| !is_empty) {
        write!(out, "\n{:by$}", "")?;
    }
    out.write_char(close)
}

fn write_text(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for sign in text.chars() {
        match sign {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            sign if sign < ' ' => write!(quoted, "\\u{:04x}", u32::from(sign))?,
            sign => quoted.push(sign),
        }
    }
    quoted.push('"');
    out.write_str(&quoted)
}
