//! The lines of a recording: the header and the events of an asciicast file, version 3.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use siding_model::terminal::{TERMINAL_TYPE, TerminalSize};
use siding_model::text::Utf8Decoder;

/// Version of the file format.
const CAST_VERSION: u8 = 3;
/// The sequence that gives a terminal its initial state (RIS).
const FULL_RESET: &str = "\x1bc";

/// The facts in the first line of a recording.
#[derive(Debug)]
pub(super) struct CastHeader<'a> {
    pub(super) size: TerminalSize,
    /// Time of the start in seconds since 1970.
    pub(super) timestamp: i64,
    pub(super) command: &'a str,
    pub(super) title: Option<&'a str>,
    /// Longest pause that a player shows.
    pub(super) idle_limit: Option<Duration>,
}

#[derive(Serialize)]
struct HeaderLine<'a> {
    version: u8,
    term: HeaderTerm,
    timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_time_limit: Option<f64>,
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
}

#[derive(Serialize)]
struct HeaderTerm {
    cols: u16,
    rows: u16,
    #[serde(rename = "type")]
    terminal_type: &'static str,
}

/// Writes the events of a recording. Times count from the start of the task. An event that would be
/// earlier than its predecessor gets the time of the predecessor.
#[derive(Debug)]
pub(super) struct CastWriter<W> {
    out: W,
    last_ms: u64,
    /// Joins a character that is split between two pieces of the output.
    decoder: Utf8Decoder,
}

impl<W: Write> CastWriter<W> {
    pub(super) fn new(mut out: W, header: &CastHeader<'_>) -> io::Result<Self> {
        let line = HeaderLine {
            version: CAST_VERSION,
            term: HeaderTerm {
                cols: header.size.columns,
                rows: header.size.rows,
                terminal_type: TERMINAL_TYPE,
            },
            timestamp: header.timestamp,
            idle_time_limit: header.idle_limit.map(|limit| limit.as_secs_f64()),
            command: header.command,
            title: header.title,
        };
        writeln!(out, "{}", serde_json::to_string(&line)?)?;
        Ok(Self { out, last_ms: 0, decoder: Utf8Decoder::default() })
    }

    /// Writes output. Invalid UTF-8 is replaced, because JSON cannot contain it.
    pub(super) fn output(&mut self, at_ms: u64, bytes: &[u8]) -> io::Result<()> {
        let mut text = String::new();
        self.decoder.push(bytes, |part| text.push_str(part));
        self.text(at_ms, &text)
    }

    pub(super) fn resize(&mut self, at_ms: u64, size: TerminalSize) -> io::Result<()> {
        self.event(at_ms, "r", &size.to_string())
    }

    /// Writes a marker, which a player shows on its time line.
    pub(super) fn marker(&mut self, at_ms: u64, text: &str) -> io::Result<()> {
        self.event(at_ms, "m", text)
    }

    /// Writes a marker about missing output, and resets the terminal: the missing output may have
    /// changed everything.
    pub(super) fn missing_output(&mut self, at_ms: u64, text: &str) -> io::Result<()> {
        self.end_text(at_ms)?;
        self.marker(at_ms, text)?;
        self.event(at_ms, "o", FULL_RESET)
    }

    /// Ends the recording, with the exit status if there is one.
    pub(super) fn finish(mut self, at_ms: u64, exit_status: Option<i32>) -> io::Result<W> {
        self.end_text(at_ms)?;
        if let Some(status) = exit_status {
            self.event(at_ms, "x", &status.to_string())?;
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the replacement for an incomplete character at the end of the output.
    fn end_text(&mut self, at_ms: u64) -> io::Result<()> {
        let mut text = String::new();
        self.decoder.finish(|part| text.push_str(part));
        self.text(at_ms, &text)
    }

    fn text(&mut self, at_ms: u64, text: &str) -> io::Result<()> {
        if text.is_empty() { Ok(()) } else { self.event(at_ms, "o", text) }
    }

    fn event(&mut self, at_ms: u64, code: &str, data: &str) -> io::Result<()> {
        let interval_ms = at_ms.saturating_sub(self.last_ms);
        self.last_ms += interval_ms;
        let (seconds, milliseconds) = (interval_ms / 1000, interval_ms % 1000);
        let data = serde_json::to_string(data)?;
        writeln!(self.out, "[{seconds}.{milliseconds:03}, \"{code}\", {data}]")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

    fn header() -> CastHeader<'static> {
        let (title, idle_limit) = (Some("demo"), Some(Duration::from_millis(1_500)));
        CastHeader { size: SIZE, timestamp: 1_504_467_315, command: "make", title, idle_limit }
    }

    fn lines(cast: Vec<u8>) -> Vec<String> {
        String::from_utf8(cast).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_recording_has_the_lines_of_the_format() {
        let mut writer = CastWriter::new(Vec::new(), &header()).unwrap();
        writer.output(248, "\x1b[1mé\r\n\"".as_bytes()).unwrap();
        writer.resize(1_249, TerminalSize { columns: 90, rows: 30 }).unwrap();
        writer.output(1_249, b"a\xe2\x82").unwrap();
        writer.output(1_000, b"\xac\xffb\xc3").unwrap();
        writer.missing_output(60_000, "gone").unwrap();
        let cast = writer.finish(60_010, Some(143)).unwrap();
        assert_eq!(
            lines(cast),
            [
                r#"{"version":3,"term":{"cols":80,"rows":24,"type":"xterm-256color"},"timestamp":1504467315,"idle_time_limit":1.5,"command":"make","title":"demo"}"#,
                r#"[0.248, "o", "\u001b[1mé\r\n\""]"#,
                r#"[1.001, "r", "90x30"]"#,
                r#"[0.000, "o", "a"]"#,
                "[0.000, \"o\", \"\u{20ac}\u{fffd}b\"]",
                "[58.751, \"o\", \"\u{fffd}\"]",
                r#"[0.000, "m", "gone"]"#,
                r#"[0.000, "o", "\u001bc"]"#,
                r#"[0.010, "x", "143"]"#,
            ]
        );
    }

    #[test]
    fn facts_that_are_missing_are_left_out() {
        let header = CastHeader { title: None, idle_limit: None, ..header() };
        let writer = CastWriter::new(Vec::new(), &header).unwrap();
        let cast = lines(writer.finish(5, None).unwrap());
        assert_eq!(cast.len(), 1, "{cast:?}");
        assert!(!cast[0].contains("title") && !cast[0].contains("idle"), "{cast:?}");
    }

    proptest! {
        #[test]
        fn the_events_together_are_the_output(
            pieces in proptest::collection::vec(
                (any::<u32>(), proptest::collection::vec(any::<u8>(), 0..12)),
                0..20,
            ),
            character in any::<char>(),
            cut in 0_usize..4,
        ) {
            // A character that is split between two pieces.
            let mut encoded = [0; 4];
            let encoded = character.encode_utf8(&mut encoded).as_bytes();
            let (first, second) = encoded.split_at(cut.min(encoded.len()));
            let mut writer = CastWriter::new(Vec::new(), &header()).unwrap();
            let mut output = Vec::new();
            let pieces = pieces.iter().map(|(at, bytes)| (u64::from(*at), bytes.as_slice()));
            for (at_ms, bytes) in pieces.chain([(7, first), (3, second)]) {
                writer.output(at_ms, bytes).unwrap();
                output.extend_from_slice(bytes);
            }
            let cast = lines(writer.finish(0, None).unwrap());
            let mut text = String::new();
            for line in &cast[1..] {
                let (interval, code, data): (f64, String, String) =
                    serde_json::from_str(line).unwrap();
                prop_assert!(interval >= 0.0 && code == "o" && !data.is_empty(), "{}", line);
                text.push_str(&data);
            }
            prop_assert_eq!(text, String::from_utf8_lossy(&output));
        }
    }
}
