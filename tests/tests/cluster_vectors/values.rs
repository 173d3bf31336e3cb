//! Values of vectors, and how they are compared.

use rondo_core::cluster::{Environment, Error, Json};
use serde_json::Value;

/// A value without the order of its members.
pub(crate) fn canon(value: &Json) -> Value {
    serde_json::from_str(&value.to_string()).expect("written JSON is JSON")
}

/// Whether a vector wants an error.
pub(crate) fn is_error(want: &Json) -> bool {
    want.as_map().is_some_and(|members| members.len() == 1) && want.get("error").is_some()
}

/// Compares an outcome with what is wanted.
pub(crate) fn compare(what: &str, got: &Result<Json, Error>, want: &Json) -> Result<(), String> {
    match got {
        Ok(got) if !is_error(want) && canon(got) == canon(want) => Ok(()),
        Err(_) if is_error(want) => Ok(()),
        Ok(got) => Err(format!("{what} gives {got}, wanted {want}")),
        Err(error) => Err(format!("{what} fails with {error}, wanted {want}")),
    }
}

/// The environment of a vector.
pub(crate) fn environment(vector: &Json, replace: &[(&str, &str)]) -> Environment {
    let members = vector.get("env").and_then(Json::as_map).unwrap_or_default();
    let variable = |(name, value): &(String, Json)| {
        let mut value = value.as_text().expect("a variable is a text").to_owned();
        for (from, to) in replace {
            value = value.replace(from, to);
        }
        (name.clone(), value)
    };
    members.iter().map(variable).collect()
}

pub(crate) fn id_of(vector: &Json) -> String {
    vector.text_at(&["id"]).expect("a vector has an id").into()
}

/// What we want of a vector.
pub(crate) enum Verdict {
    Same,
    /// What is wanted instead, if it is told.
    Fixed(Option<Json>),
    Reject,
    NotApplicable,
}

pub(crate) fn verdict(vector: &Json) -> Verdict {
    match vector.text_at(&["rondo", "verdict"]) {
        Some("same") => Verdict::Same,
        Some("fixed") => Verdict::Fixed(vector.at(&["rondo", "want"]).cloned()),
        Some("reject") => Verdict::Reject,
        Some("not_applicable") => Verdict::NotApplicable,
        other => panic!("unknown verdict {other:?}"),
    }
}

pub(crate) fn number(number: Option<u32>) -> Json {
    number.map_or(Json::Null, Json::number)
}

pub(crate) fn text(text: Option<String>) -> Json {
    text.map_or(Json::Null, Json::Text)
}
