//! Words of others, made harmless for a terminal.

/// The text with nothing in it that could steer the terminal or add a line: names come from the
/// network, and from files.
pub(super) fn plain(text: &str) -> String {
    let shown = |char: char| if char.is_control() { char::REPLACEMENT_CHARACTER } else { char };
    text.chars().map(shown).collect()
}
