//! YAML that people write: what is wrong in it is said in their words, with the place.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MessageFormatter, RenderOptions, UserMessageFormatter};

/// Reads a document.
///
/// # Errors
/// When it is no YAML, or holds something else: the text says what, and shows the line. `source` names the
/// document, such as its file.
pub fn from_yaml<T: DeserializeOwned>(text: &str, source: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| told(&error, source))
}

fn told(error: &Error, source: &str) -> String {
    let mut options = RenderOptions::new(&Words);
    options.source_name = Some(source);
    let text = error.render_with_options(options);
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
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
    fn what_is_wrong_is_said_without_words_of_the_parser() {
        type Map = BTreeMap<String, String>;
        let twice = error::<Map>("listen: a\nlisten: b\n");
        assert!(twice.starts_with("line 2 column 1: the key \"listen\" is given twice"), "{twice}");
        assert!(twice.contains("job.yaml:2:1") && !twice.contains("DuplicateKeyPolicy"), "{twice}");
        let no_list = error::<BTreeMap<String, Vec<String>>>("files: x\n");
        assert!(no_list.contains("a list is wanted here"), "{no_list}");
        let no_map = error::<Map>("- x\n");
        assert!(no_map.contains("a mapping is wanted here"), "{no_map}");
    }
}
