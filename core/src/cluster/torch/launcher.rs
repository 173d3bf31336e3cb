//! Texts of torchrun's command line and its `PET_` variables.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};

use super::super::error::{Error, quoted};
use super::super::options::{split_address, whole};

/// The port of a rendezvous whose endpoint has none.
pub const RENDEZVOUS_PORT: u16 = 29400;
/// Settings that one text may have.
const SETTINGS_MAX: usize = 4096;

/// The fewest and the most nodes: `N` or `MIN:MAX`.
///
/// # Errors
/// MALFORMED for anything else, for no node at all, and for a least number above the most. Blanks around a
/// number do not count, as in the launcher.
pub fn node_range(about: &str, text: &str) -> Result<(u32, u32), Error> {
    let wrong = || Error::malformed(about, text, "is neither N nor MIN:MAX");
    let (least, most) = text.split_once(':').unwrap_or((text, text));
    let number = |digits: &str| whole(about, digits.trim()).map_err(|_| wrong());
    let (least, most) = (number(least)?, number(most)?);
    if least == 0 {
        return Err(Error::malformed(about, text, "has no node: at least one is wanted"));
    }
    if least > most {
        return Err(Error::malformed(about, text, "has fewer nodes at most than at least"));
    }
    Ok((least, most))
}

/// Settings of a rendezvous: `NAME=VALUE` with commas between.
///
/// # Errors
/// MALFORMED for a pair without a name or a value.
pub fn rendezvous_settings(about: &str, text: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut settings = BTreeMap::new();
    let text = text.trim();
    if text.is_empty() {
        return Ok(settings);
    }
    for pair in text.split(',') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || value.is_empty() {
            let wanted = format!("has {} where NAME=VALUE should be", quoted(pair));
            return Err(Error::malformed(about, text, &wanted));
        }
        if settings.len() >= SETTINGS_MAX {
            let wanted = format!("has more than {SETTINGS_MAX} settings");
            return Err(Error::malformed(about, text, &wanted));
        }
        settings.insert(name.to_string(), value.to_string());
    }
    Ok(settings)
}

/// Host and port of a rendezvous: no text is this host, no port is `default`.
///
/// # Errors
/// MALFORMED for a port that is none, and for an IPv6 address and a port without brackets.
pub fn endpoint(about: &str, text: &str, default: u16) -> Result<(String, u16), Error> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(("localhost".into(), default));
    }
    split_address(about, text, default)
}
