//! YAML that people write: what is wrong in it is said in their words, with the place.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MessageFormatter, RenderOptions, UserMessageFormatter};

/// Reads a document.
///
/// # Errors
/// When it is no YAML, or holds something else: the text says what, and shows the line. `source` names the
/// document, such as its file. Truth values are `true` and `false`; `yes` and `on` are texts.
pub fn from_yaml<T: DeserializeOwned>(text: &str, source: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let read = serde_saphyr::from_str_with_options(text, options);
    read.map_err(|error| told(&error, source))
}

fn told(error: &Error, source: &str) -> String {
    let mut options = RenderOptions::new(&Words);
    options.source_name = Some(source);
    let text = error.render_with_options(options);
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let message = text.lines().next().unwrap_or_default();
    let lines = text.lines().map(|line| unrepeated(line, message));
    lines.collect::<Vec<_>>().join("\n")
}

/// A line without what stands behind the marks (`^^^`) that point at the place, if the message ends with it.
fn unrepeated<'a>(line: &'a str, message: &str) -> &'a str {
    match line.split_once("^ ") {
        Some((marks, repeated)) if message.ends_with(repeated) => {
            line.get(..marks.len().saturating_add(1)).unwrap_or(line)
        }
        _ => line,
    }
}

/// Words for people who write documents, where the parser's are for those who write programs.
struct Words;

impl MessageFormatter for Words {
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                format!("the key {key:?} is given twice: give it once").into()
            }
            Error::DuplicateMappingKey { key: None, .. } => "a key is given twice".into(),
            Error::Unexpected { expected: "sequence start", .. } => {
                "a list is wanted here, such as [a, b]".into()
            }
            Error::Unexpected { expected: "mapping start", .. } => {
                "a mapping is wanted here, such as {key: value}".into()
            }
            error => UserMessageFormatter.format_message(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn error<T: DeserializeOwned>(text: &str) -> String {
        from_yaml::<T>(text, "job.yaml").err().unwrap_or_default()
    }

    #[test]
    fn truth_values_are_true_and_false() {
        type Map = BTreeMap<String, bool>;
        assert_eq!(from_yaml::<Map>("a: true\nb: false\n", "job.yaml").unwrap().len(), 2);
        for text in ["a: yes\n", "a: on\n", "a: n\n"] {
            assert!(error::<Map>(text).contains("a: "), "{text}");
        }
        let read =
            from_yaml::<BTreeMap<String, serde_json::Value>>("a: yes\n", "job.yaml").unwrap();
        assert_eq!(read["a"], "yes");
    }

    #[test]
    fn what_is_wrong_is_said_without_words_of_the_parser() {
        type Map = BTreeMap<String, String>;
        let twice = error::<Map>("listen: a\nlisten: b\n");
        assert!(twice.starts_with("line 2 column 1: the key \"listen\" is given twice"), "{twice}");
        assert!(twice.contains("job.yaml:2:1") && !twice.contains("DuplicateKeyPolicy"), "{twice}");
        assert_eq!(twice.matches("is given twice").count(), 1, "{twice}");
        assert!(twice.contains("2 | listen: b") && twice.ends_with('^'), "{twice}");
        let no_list = error::<BTreeMap<String, Vec<String>>>("files: x\n");
        assert_eq!(no_list.matches("a list is wanted here").count(), 1, "{no_list}");
        let no_map = error::<Map>("- x\n");
        assert!(no_map.contains("a mapping is wanted here"), "{no_map}");
    }
}
