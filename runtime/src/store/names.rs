//! Names of files and directories that begin at a journal position.

use rondo_core::ids::Lsn;

/// Digits of a position in a name: enough for every one, so that names sort as positions do.
const DIGITS: usize = 20;

/// The name for `lsn`, such as `00000000000000000042.seg`.
pub(super) fn of(lsn: Lsn, suffix: &str) -> String {
    format!("{lsn:020}{suffix}", lsn = lsn.get())
}

/// The position that a name of this suffix stands for; `None` for any other name.
pub(super) fn position(name: &str, suffix: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(suffix)?;
    let plain = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    if plain { digits.parse().ok().map(Lsn::new) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_positions_match() {
        for lsn in [Lsn::NONE, Lsn::new(42), Lsn::MAX] {
            assert_eq!(position(&of(lsn, ".seg"), ".seg"), Some(lsn));
        }
        assert_eq!(of(Lsn::new(42), ".seg"), "00000000000000000042.seg");
    }

    #[test]
    fn other_names_stand_for_nothing() {
        let names = ["42.seg", "00000000000000000042.sled", "+0000000000000000042.seg", ".seg"];
        for name in names.into_iter().chain(["99999999999999999999.seg", ""]) {
            assert_eq!(position(name, ".seg"), None, "{name}");
        }
    }
}
