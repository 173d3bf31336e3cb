//! URLs of APIs.

use alloc::format;
use alloc::string::String;

/// A text as part of a path or a query: all but letters, digits and `-._~` percent-encoded.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// `PATH?NAME=VALUE&NAME=VALUE`.
pub(super) fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let mut url = String::from(path);
    for (index, (name, value)) in query.iter().enumerate() {
        url.push(if index == 0 { '?' } else { '&' });
        url.push_str(name);
        url.push('=');
        url.push_str(&encoded(value));
    }
    url
}
