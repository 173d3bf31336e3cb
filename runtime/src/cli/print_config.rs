//! `rondo serve --print-config`: every setting with where it comes from, as a file that `--config`
//! reads.

use super::layers::{Setting, Settings};

/// The settings as YAML, one a line. Those that have no value are comments.
pub(super) fn render(settings: &Settings) -> String {
    settings.iter().map(|(key, setting)| line(key, setting)).collect()
}

fn line(key: &str, setting: &Setting) -> String {
    match &setting.value {
        Some(value) => format!("{key}: {}  # {}\n", scalar(value), setting.source),
        None => format!("# {key}: not set\n"),
    }
}

/// A value as YAML: numbers and truth values bare, all else quoted as JSON does, which YAML reads.
fn scalar(value: &str) -> String {
    let bare = value.parse::<i64>().is_ok() || matches!(value, "true" | "false");
    if bare { value.to_owned() } else { serde_json::Value::from(value).to_string() }
}
