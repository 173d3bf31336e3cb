//! A timeline in the trace event format, which Perfetto and its like read.

use std::fmt::Write;

use super::Line;

/// The whole timeline: each line an instant on its machine's track.
pub fn page(lines: &[Line], lanes: &[String]) -> String {
    let mut page = String::from("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (number, lane) in lanes.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":{number},\"args\":{{\"name\":\
             {}}}}},",
            quoted(&format!("{number} {lane}"))
        );
    }
    for (index, line) in lines.iter().enumerate() {
        let comma = if index + 1 < lines.len() { "," } else { "" };
        let (us, ns) = (line.at_ns / 1000, line.at_ns % 1000);
        let name = line.text.split([' ', '{', ':']).next().unwrap_or_default();
        let _ = writeln!(
            page,
            "{{\"name\":{},\"cat\":\"{}\",\"ph\":\"i\",\"s\":\"t\",\"ts\":{us}.{ns:03},\"pid\":1,\
             \"tid\":{},\"args\":{{\"text\":{}}}}}{comma}",
            quoted(&format!("{} {name}", line.kind.name())),
            line.kind.name(),
            line.lane,
            quoted(&line.text)
        );
    }
    page.push_str("]}\n");
    page
}

/// Text as a JSON string.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '<' => quoted.push_str("\\u003c"),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::LineKind;
    use super::*;

    #[test]
    fn what_is_written_is_json_text() {
        assert_eq!(quoted("a\"b\\c\n<"), "\"a\\\"b\\\\c\\u000a\\u003c\"");
        let line =
            Line { at_ns: 1_002_003, lane: 0, kind: LineKind::Fault, text: "kill it".into() };
        let page = page(&[line], &["node".into()]);
        assert!(page.contains("\"ts\":1002.003") && page.contains("fault kill"), "{page}");
        assert!(page.ends_with("}\n]}\n") && !page.contains("},\n]"), "{page}");
    }
}
