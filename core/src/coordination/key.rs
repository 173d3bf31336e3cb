//! Keys are paths: runs of slashes count as one, and none stands at either end.

use alloc::borrow::Cow;
use alloc::string::String;

/// The one way to write a key.
pub(super) fn normal(key: &str) -> Cow<'_, str> {
    if is_normal(key) {
        return Cow::Borrowed(key);
    }
    let mut normal = String::with_capacity(key.len());
    for part in key.split('/').filter(|part| !part.is_empty()) {
        if !normal.is_empty() {
            normal.push('/');
        }
        normal.push_str(part);
    }
    Cow::Owned(normal)
}

pub(super) fn is_normal(key: &str) -> bool {
    !key.starts_with('/') && !key.ends_with('/') && !key.contains("//")
}

/// Whether a key is in a directory, at any depth; both are normal. Everything is in "".
pub(super) fn is_under(key: &str, directory: &str) -> bool {
    let rest = key.strip_prefix(directory);
    directory.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
}

/// A normal key and the directories above it, the nearest first, "" last.
pub(super) fn with_directories(key: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(key);
    core::iter::from_fn(move || {
        let this = next?;
        next = match this.rsplit_once('/') {
            Some((above, _)) => Some(above),
            None => (!this.is_empty()).then_some(""),
        };
        Some(this)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn slashes_are_stripped_and_collapsed() {
        let cases = [
            ("///a//b/", "a/b"),
            ("a", "a"),
            ("", ""),
            ("//", ""),
            ("/a", "a"),
            ("a/b/c/", "a/b/c"),
        ];
        for (asked, expected) in cases {
            assert_eq!(normal(asked), expected);
        }
    }

    #[test]
    fn directories_of_a_key() {
        let above: Vec<_> = with_directories("a/b/c").collect();
        assert_eq!(above, ["a/b/c", "a/b", "a", ""]);
        assert_eq!(with_directories("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_sibling_with_a_longer_name_is_not_under() {
        assert!(is_under("a/b", "a"));
        assert!(!is_under("ab", "a"));
        assert!(!is_under("a", "a"));
        assert!(is_under("a", ""));
    }

    proptest! {
        #[test]
        fn normal_keys_stay_as_they_are(key in "[/ab\\x00]{0,12}") {
            let once = normal(&key).into_owned();
            prop_assert!(is_normal(&once));
            prop_assert_eq!(normal(&once), once.as_str());
            let parts = |text: &str| {
                let parts = text.split('/').filter(|part| !part.is_empty());
                parts.map(String::from).collect::<Vec<_>>()
            };
            prop_assert_eq!(parts(&key), parts(&once));
        }
    }
}
