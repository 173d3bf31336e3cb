//! Regression files: the decisions of a run that broke a promise, readable, and independent of the
//! generator and of how a configuration is drawn. One line says the configuration; the others are a
//! stream's name and the decisions that are not calm, each with its place.

use std::fmt::Write;

use crate::rng::Tape;
use crate::swarm::Swarm;

/// What the line with the configuration begins with.
const CONFIGURATION: &str = "configuration ";

/// Writes a tape, with what it breaks as comments.
///
/// # Errors
/// When its configuration cannot be written.
pub fn write(tape: &Tape, comments: &[String]) -> Result<String, String> {
    let mut text = String::new();
    for comment in comments {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# {comment}");
    }
    if let Some(swarm) = &tape.swarm {
        let _ = writeln!(text, "{CONFIGURATION}{}", swarm.to_json()?);
    }
    for ((of, number), decisions) in &tape.streams {
        let _ = write!(text, "{of}.{number}");
        for (at, decision) in decisions.iter().enumerate().filter(|(_, decision)| **decision != 0) {
            let _ = write!(text, " {at}:{decision}");
        }
        text.push('\n');
    }
    Ok(text)
}

/// Reads a tape.
///
/// # Errors
/// When a line is none, with its number.
pub fn read(text: &str) -> Result<Tape, String> {
    let mut tape = Tape::default();
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(said) = line.strip_prefix(CONFIGURATION) {
            let swarm = Swarm::from_json(said);
            let swarm = swarm.map_err(|error| format!("line {number}: {error}"))?;
            tape.swarm = Some(Box::new(swarm));
        } else if !line.starts_with('#') && !line.trim().is_empty() {
            let (name, decisions) = stream(line)
                .ok_or_else(|| format!("line {number} is no stream of decisions: {line:?}"))?;
            tape.streams.insert(name, decisions);
        }
    }
    Ok(tape)
}

fn stream(line: &str) -> Option<((String, u32), Vec<u64>)> {
    let mut words = line.split_whitespace();
    let (of, number) = words.next()?.rsplit_once('.')?;
    let mut decisions = Vec::new();
    for word in words {
        let (at, decision) = word.split_once(':')?;
        let at: usize = at.parse().ok()?;
        if at > 10_000_000 {
            return None;
        }
        if decisions.len() <= at {
            decisions.resize(at + 1, 0);
        }
        *decisions.get_mut(at)? = decision.parse().ok()?;
    }
    Some(((of.to_owned(), number.parse().ok()?), decisions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut tape = Tape::default();
        tape.streams.insert(("net".into(), 0), vec![0, 7, 0, 1]);
        tape.streams.insert(("power-cut".into(), 0), vec![3]);
        let text = write(&tape, &["what it breaks".into()]).unwrap();
        assert_eq!(text, "# what it breaks\nnet.0 1:7 3:1\npower-cut.0 0:3\n");
        assert_eq!(read(&text), Ok(tape.clone()));
        let said = tape.with_swarm();
        assert_eq!(read(&write(&said, &[]).unwrap()), Ok(said));
    }

    #[test]
    fn what_is_none_is_named() {
        assert!(read("net.0 1:2\nnet x").unwrap_err().starts_with("line 2"));
        assert!(read("net.0 99999999999:1").is_err());
        assert!(read("\nconfiguration {\"workers\":-1}").unwrap_err().starts_with("line 2"));
    }
}
