//! What strace wrote, read into system calls.

use std::collections::BTreeMap;

/// One system call of a recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name, such as `pwrite64`.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// What it returned; `None` when the process was killed in it.
    pub result: Option<i64>,
    /// The path of the descriptor that it returned.
    pub opened: Option<String>,
    /// The line at which it began. All calls that ended on an earlier line had ended before it began.
    pub began: usize,
    /// The line at which it had ended.
    pub ended: usize,
}

/// One argument of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    /// What stands outside of quotes.
    pub word: String,
    /// What stands in quotes, one behind the other.
    pub bytes: Vec<u8>,
    /// Whether there was more in the quotes than strace was to write.
    pub is_cut: bool,
}

impl Argument {
    /// The number that it begins with.
    pub fn number(&self) -> Option<u64> {
        let digits = self.word.bytes().take_while(u8::is_ascii_digit).count();
        self.word[..digits].parse().ok()
    }

    /// The path of a descriptor, unless it is removed.
    pub fn descriptor(&self) -> Option<&str> {
        let (_, path) = self.word.split_once('<')?;
        path.strip_suffix('>')
    }

    /// The text in quotes.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Begins or ends of calls, in order.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// The call begins: from here on it may have had some of its effect.
    Begins(&'a Call),
    /// The call has ended.
    Ends(&'a Call),
}

/// The begins and ends of calls, in order.
pub fn moments(calls: &[Call]) -> Vec<Moment<'_>> {
    let begins = calls.iter().map(|call| ((call.began, 0), Moment::Begins(call)));
    let ends = calls.iter().map(|call| ((call.ended, 1), Moment::Ends(call)));
    let mut moments: Vec<_> = begins.chain(ends).collect();
    moments.sort_by_key(|(at, _)| *at);
    moments.into_iter().map(|(_, moment)| moment).collect()
}

/// Reads what strace wrote.
///
/// # Panics
/// When it is not understood: no operation may be passed over.
pub fn parse(trace: &[u8]) -> Vec<Call> {
    let (mut calls, mut unfinished) = (Vec::new(), BTreeMap::new());
    let lines: Vec<&[u8]> = trace.split(|byte| *byte == b'\n').collect();
    for (number, line) in lines.iter().enumerate() {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (process, rest) = (&line[..digits], line[digits..].trim_ascii_start());
        if rest.is_empty() || rest.starts_with(b"+++") || rest.starts_with(b"---") {
            continue;
        }
        if let Some(begin) = rest.strip_suffix(b" <unfinished ...>") {
            unfinished.insert(process, (number, begin));
        } else if rest.starts_with(b"<... ") {
            let (began, begin) = unfinished.remove(process).expect("what resumes has begun");
            let resumed = b" resumed>";
            let at = rest.windows(resumed.len()).position(|window| window == resumed);
            let end = &rest[at.expect("it says that it resumes") + resumed.len()..];
            calls.push(call(&[begin, end].concat(), began, number));
        } else {
            calls.push(call(rest, number, number));
        }
    }
    // Killed in the middle of these.
    for (began, begin) in unfinished.into_values() {
        calls.push(call(begin, began, lines.len()));
    }
    calls.sort_by_key(|call| call.began);
    calls
}

fn call(text: &[u8], began: usize, ended: usize) -> Call {
    let open = text.iter().position(|byte| *byte == b'(');
    let open = open.unwrap_or_else(|| panic!("no call: {}", String::from_utf8_lossy(text)));
    let name = String::from_utf8_lossy(&text[..open]).into_owned();
    let (arguments, end) = arguments(&text[open + 1..]);
    let rest = String::from_utf8_lossy(&text[open + 1 + end..]).into_owned();
    let result = rest.split_once("= ").map_or("", |(_, result)| result);
    let number = result.split(['<', ' ']).next().unwrap_or_default();
    let opened = result.split_once('<').and_then(|(_, path)| path.split_once('>'));
    Call {
        name,
        arguments,
        result: number.parse().ok(),
        opened: opened.map(|(path, _)| path.to_owned()),
        began,
        ended,
    }
}

/// The arguments up to the bracket that closes them, and how many bytes they take with it.
fn arguments(text: &[u8]) -> (Vec<Argument>, usize) {
    let (mut found, mut current) = (Vec::new(), Argument::default());
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'"' => {
                at += quoted(&text[at..], &mut current.bytes);
                if text[at..].starts_with(b"...") {
                    current.is_cut = true;
                    at += 3;
                }
            }
            b')' if depth == 0 => break,
            b',' if depth == 0 => found.push(std::mem::take(&mut current)),
            b' ' if current.word.is_empty() => {}
            byte => {
                match byte {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                current.word.push(char::from(*byte));
            }
        }
    }
    found.push(current);
    (found, at)
}

/// Takes what stands in quotes; says how many bytes of text it took, with the closing quote.
fn quoted(text: &[u8], into: &mut Vec<u8>) -> usize {
    let mut at = 0;
    loop {
        // Long stretches of plain text and of zeros are the rule.
        let plain = text[at..].iter().position(|byte| matches!(byte, b'"' | b'\\'));
        let plain = at + plain.expect("quotes are closed");
        into.extend_from_slice(&text[at..plain]);
        at = plain + 1;
        if text[plain] == b'"' {
            return at;
        }
        at += escaped(&text[at..], into);
    }
}

/// Takes what stands behind a backslash.
fn escaped(text: &[u8], into: &mut Vec<u8>) -> usize {
    let simple = match text[0] {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'v' => 11,
        b'f' => 12,
        other => other,
    };
    if !(b'0'..=b'7').contains(&simple) {
        into.push(simple);
        return 1;
    }
    let digits = text.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
    into.push(text[..digits].iter().fold(0, |value: u8, digit| value * 8 + (digit - b'0')));
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = r#"7 openat(AT_FDCWD</x>, "/x/d/a", O_RDWR|O_CREAT, 0777) = 3</x/d/a>
7 pwrite64(3</x/d/a>, "he\0001\"l,)o\\\n\377"..., 11, 16) = 11
7 fdatasync(3</x/d/a> <unfinished ...>
8 writev(5<socket:[2]>, [{iov_base="ab", iov_len=2}, {iov_base="cd", iov_len=2}], 2) = 4
7 <... fdatasync resumed>)          = 0
8 mkdir("/x/d/s", 0777)           = -1 EEXIST (File exists)
8 write(3</x/d/a>(deleted), "zz", 2 <unfinished ...>
8 +++ killed by SIGKILL +++
"#;

    #[test]
    fn calls_are_read_with_all_their_bytes_and_in_order() {
        let calls = parse(TRACE.as_bytes());
        let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["openat", "pwrite64", "fdatasync", "writev", "mkdir", "write"]);
        assert_eq!(calls[0].opened.as_deref(), Some("/x/d/a"));
        assert_eq!(calls[1].arguments[1].bytes, b"he\x001\"l,)o\\\n\xff");
        assert!(calls[1].arguments[1].is_cut);
        assert_eq!(calls[1].arguments[0].descriptor(), Some("/x/d/a"));
        assert_eq!(calls[1].arguments[3].number(), Some(16));
        assert_eq!((calls[2].began, calls[2].ended, calls[2].result), (2, 4, Some(0)));
        assert_eq!(calls[3].arguments[1].bytes, b"abcd");
        assert_eq!(calls[4].result, Some(-1));
        assert_eq!((calls[5].result, calls[5].arguments[0].descriptor()), (None, None));
    }

    #[test]
    fn a_call_that_another_one_overlaps_ends_after_it_began() {
        let calls = parse(TRACE.as_bytes());
        let moments: Vec<String> = moments(&calls)
            .into_iter()
            .map(|moment| match moment {
                Moment::Begins(call) => format!("begin {}", call.name),
                Moment::Ends(call) => format!("end {}", call.name),
            })
            .collect();
        let sync = ["begin fdatasync", "begin writev", "end writev", "end fdatasync"];
        assert_eq!(moments[4..8], sync);
    }
}
