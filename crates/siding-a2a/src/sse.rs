//! Events of a stream (`text/event-stream`, HTML Living Standard 9.2.6).

/// Bytes of an event that are taken: an artifact may be a file.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

/// An event was longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventTooLong;

/// Puts events together from pieces. Only `data` counts: A2A uses nothing else.
#[derive(Debug, Default)]
pub(crate) struct EventParser {
    /// The line that has no end yet.
    line: Vec<u8>,
    /// The event so far, `None` before its first line.
    data: Option<String>,
    /// Whether a line feed that follows belongs to the line before.
    after_return: bool,
}

impl EventParser {
    /// Takes a piece, and returns the events that it completes.
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

    /// Ends a line, and returns the event that it ends.
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

/// Returns an event with this text, which has no line feed.
pub(crate) fn format_event(data: &str) -> String {
    format!("data: {data}\n\n")
}

/// A comment, which keeps a connection alive and shows whether somebody listens.
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
        /// Wherever it is cut, it is the same.
        #[test]
        fn chunk_boundaries_do_not_matter(
            texts in proptest::collection::vec("[ -~äß]{0,20}", 0..5),
            cut in 1_usize..7,
        ) {
            let stream: String = texts.iter().map(|text| format_event(text)).collect();
            let mut events = EventParser::default();
            let mut heard = Vec::new();
            for piece in stream.as_bytes().chunks(cut) {
                heard.extend(events.push(piece).expect("short"));
            }
            prop_assert_eq!(heard, texts);
        }
    }
}
