//! Server-sent events (`text/event-stream`, HTML Living Standard 9.2.6).

/// Maximum bytes of an event, whose artifact may be a file.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// The error for an event that is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLong;

/// Assembles events from chunks. Only `data` fields are used, since A2A uses no others.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// The data of the current event; `None` before the first `data` line.
    data: Option<String>,
    /// Whether the previous byte was CR, so that a following LF is part of the same line end.
    after_return: bool,
}

impl EventParser {
    /// Parses a chunk, and returns the events that it completes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<String>, EventTooLong> {
        let mut events = Vec::new();
        for byte in bytes {
            let is_rest_of_end = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if is_rest_of_end => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                other => self.line.push(*other),
            }
            if self.line.len() + self.data.as_ref().map_or(0, String::len) > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
        }
        Ok(events)
    }

    /// Ends a line, and returns the event if the line was empty.
    fn end_line(&mut self) -> Option<String> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(&line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }
}

/// Formats an event with this text, which must not contain a line feed.
pub(crate) fn format_event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A comment, which a client ignores. Sending comments keeps the connection alive, and detects that
/// a client has closed it.
pub(crate) const KEEP_ALIVE_COMMENT: &str = ":\n\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_all(bytes: &[u8]) -> Vec<String> {
        EventParser::default().push(bytes).expect("short")
    }

    #[test]
    fn fields_comments_and_line_ends_are_parsed() {
        let text =
            b":hello\nevent: x\ndata: one\ndata:two\nid: 7\n\n\ndata\n\rdata:  three\r\n\r\n";
        assert_eq!(parse_all(text), ["one\ntwo", "", " three"]);
        assert_eq!(parse_all(b"data: cut off"), [""; 0]);
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut events = EventParser::default();
        let piece = vec![b'x'; 1 << 20];
        let taken = (0..17).take_while(|_| events.push(&piece).is_ok()).count();
        assert_eq!(taken, 16, "bounded memory");
    }

    proptest! {
        /// The result does not depend on where the stream is cut.
        #[test]
        fn chunk_boundaries_do_not_matter(
            texts in proptest::collection::vec("[ -~äß]{0,20}", 0..5),
            cut in 1_usize..7,
        ) {
            let stream: String = texts.iter().map(|text| format_event(text)).collect();
            let mut events = EventParser::default();
            let mut received = Vec::new();
            for piece in stream.as_bytes().chunks(cut) {
                received.extend(events.push(piece).expect("short"));
            }
            prop_assert_eq!(received, texts);
        }
    }
}
