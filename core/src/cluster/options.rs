//! The settings of a resolver, as JSON.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::error::{Error, Fault, listed, quoted};
use super::json::Json;

/// What all settings may have beside their own.
const RESOLVER: &str = "resolver";

/// The settings of one resolver; each is read once, with its kind checked.
pub(super) struct Options<'a> {
    resolver: &'static str,
    members: &'a [(String, Json)],
}

impl<'a> Options<'a> {
    /// Settings of which none is unknown.
    pub(super) fn of(
        resolver: &'static str,
        settings: &'a Json,
        known: &[&str],
    ) -> Result<Self, Error> {
        let Some(members) = settings.as_map() else {
            let wanted = format!("is {}: an object of settings is wanted", settings.kind());
            return Err(Error::malformed(resolver, &settings.to_string(), &wanted));
        };
        let stray = members.iter().find(|(name, _)| name != RESOLVER && !known.contains(&&**name));
        if let Some((name, _)) = stray {
            let has = listed(known.iter().copied());
            let wanted = format!("is no setting of the {resolver} resolver: it has {has}");
            return Err(Error::malformed(resolver, name, &wanted));
        }
        Ok(Self { resolver, members })
    }

    /// A setting; `null` counts as none.
    pub(super) fn get(&self, name: &str) -> Option<&'a Json> {
        self.given(name).filter(|value| !value.is_null())
    }

    /// A setting, be it `null`.
    fn given(&self, name: &str) -> Option<&'a Json> {
        self.members.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn wrong(&self, name: &str, value: &Json, wanted: &str) -> Error {
        let about = format!("{}.{name}", self.resolver);
        let wanted = format!("is {}: {wanted} is wanted", value.kind());
        Error::malformed(about, &value.to_string(), &wanted)
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Error> {
        let text = |value: &Json| {
            value.as_text().map(str::to_owned).ok_or_else(|| self.wrong(name, value, "a text"))
        };
        self.get(name).map(text).transpose()
    }

    /// A text that has to be there.
    pub(super) fn needed_text(&self, name: &str) -> Result<String, Error> {
        self.text(name)?.ok_or_else(|| {
            let about = format!("{}.{name}", self.resolver);
            Error::new(Fault::NotPresent, about, "is not set, and there is nothing to take for it")
        })
    }

    /// A text of which `null` means none, and nothing means `default`.
    pub(super) fn text_or(&self, name: &str, default: &str) -> Result<Option<String>, Error> {
        match self.given(name) {
            None => Ok(Some(default.into())),
            Some(_) => self.text(name),
        }
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, Error> {
        let number = |value: &Json| {
            let wanted = "a whole number from 0 to 4294967295";
            value.as_u32().ok_or_else(|| self.wrong(name, value, wanted))
        };
        self.get(name).map(number).transpose()
    }

    pub(super) fn port_or(&self, name: &str, default: u16) -> Result<u16, Error> {
        let Some(number) = self.number(name)? else { return Ok(default) };
        u16::try_from(number).map_err(|_| {
            let about = format!("{}.{name}", self.resolver);
            Error::malformed(about, &number.to_string(), "is no port: the highest is 65535")
        })
    }

    pub(super) fn flag_or(&self, name: &str, default: bool) -> Result<bool, Error> {
        let flag =
            |value: &Json| value.as_bool().ok_or_else(|| self.wrong(name, value, "true or false"));
        self.get(name).map_or(Ok(default), flag)
    }

    /// A map from names to whole numbers.
    pub(super) fn counts(&self, name: &str) -> Result<Option<BTreeMap<String, u32>>, Error> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wrong = || self.wrong(name, value, "a map from names to whole numbers");
        let members = value.as_map().ok_or_else(wrong)?;
        let count = |(name, count): &(String, Json)| Some((name.clone(), count.as_u32()?));
        members.iter().map(count).collect::<Option<_>>().ok_or_else(wrong).map(Some)
    }

    /// A text that is one of several.
    pub(super) fn choice<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = choices.iter().find(|(known, _)| *known == text).map(|(_, choice)| *choice);
        found.map(Some).ok_or_else(|| {
            let known: Vec<&str> = choices.iter().map(|(known, _)| *known).collect();
            let about = format!("{}.{name}", self.resolver);
            let wanted = format!("is none of {}", known.join(", "));
            Error::malformed(about, &text, &wanted)
        })
    }
}

/// A whole number in a variable.
pub(super) fn whole(about: &str, text: &str) -> Result<u32, Error> {
    let is_plain = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| is_plain)
        .ok_or_else(|| Error::malformed(about, text, "is no whole number from 0 to 4294967295"))
}

/// A port in a variable.
pub(super) fn port(about: &str, text: &str) -> Result<u16, Error> {
    u16::try_from(whole(about, text)?)
        .map_err(|_| Error::malformed(about, text, "is no port: the highest is 65535"))
}

/// A host and a port as one address; an IPv6 address gets brackets.
pub(super) fn address(host: &str, port: u16) -> String {
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    if is_bare_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Checks a host that others are to reach: no blanks, and no zone, which means something on one machine only.
pub(super) fn check_host(about: &str, host: &str) -> Result<(), Error> {
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(Error::malformed(about, host, "is no host: a name or an address is wanted"));
    }
    if host.contains('%') {
        let wanted = "has a zone, which other machines do not know: give an address without one";
        return Err(Error::malformed(about, host, wanted));
    }
    Ok(())
}

/// Host and port of an address, the port `default` where there is none. IPv6 needs brackets before a port.
pub(super) fn split_address(about: &str, text: &str, default: u16) -> Result<(String, u16), Error> {
    if let Some(rest) = text.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else {
            return Err(Error::malformed(about, text, "has no ']' for its '['"));
        };
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((host.into(), port(about, digits)?)),
            None if rest.is_empty() => Ok((host.into(), default)),
            None => Err(Error::malformed(about, text, "has neither ':' nor its end after ']'")),
        };
    }
    match text.split_once(':') {
        None => Ok((text.into(), default)),
        Some((_, rest)) if rest.contains(':') => {
            let is_v6 = text.parse::<core::net::Ipv6Addr>().is_ok();
            let wanted = "has several ':': an IPv6 address with a port needs brackets";
            if is_v6 {
                Ok((text.into(), default))
            } else {
                Err(Error::malformed(about, text, wanted))
            }
        }
        Some((host, digits)) => {
            let number = port(about, digits).map_err(|_| {
                Error::malformed(about, text, &format!("has no port in {}", quoted(digits)))
            })?;
            Ok((host.into(), number))
        }
    }
}
