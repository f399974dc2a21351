//! Streaming UTF-8 decoder.

/// The character U+FFFD, which replaces invalid UTF-8.
pub(super) const REPLACEMENT: &str = "\u{fffd}";

/// A decoder for UTF-8 that arrives in pieces.
///
/// Each maximal invalid sequence becomes one U+FFFD, as in [`String::from_utf8_lossy`]. The decoder
/// holds at most three bytes: the start of an incomplete character.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    held: [u8; 4],
    len: usize,
}

impl Utf8Decoder {
    /// Passes the text of `bytes` to `sink`, in pieces and in order.
    pub fn push(&mut self, mut bytes: &[u8], mut sink: impl FnMut(&str)) {
        while self.len > 0 {
            let Some((first, rest)) = bytes.split_first() else {
                return;
            };
            self.held[self.len] = *first;
            match str::from_utf8(&self.held[..=self.len]) {
                Ok(text) => {
                    sink(text);
                    self.len = 0;
                    bytes = rest;
                }
                Err(error) if error.error_len().is_none() => {
                    self.len += 1;
                    bytes = rest;
                }
                // The byte does not continue the held bytes, but it may start a character.
                Err(_) => {
                    sink(REPLACEMENT);
                    self.len = 0;
                }
            }
        }
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            sink(chunk.valid());
            let invalid = chunk.invalid();
            if invalid.is_empty() {
                continue;
            }
            let unfinished = chunks.peek().is_none()
                && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if unfinished {
                self.held[..invalid.len()].copy_from_slice(invalid);
                self.len = invalid.len();
            } else {
                sink(REPLACEMENT);
            }
        }
    }

    /// Passes the replacement of an incomplete character at the end of the input to `sink`.
    pub fn finish(&mut self, mut sink: impl FnMut(&str)) {
        if self.len > 0 {
            self.len = 0;
            sink(REPLACEMENT);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(pieces: &[&[u8]]) -> String {
        let mut text = String::new();
        let mut decoder = Utf8Decoder::default();
        for piece in pieces {
            decoder.push(piece, |part| text.push_str(part));
        }
        decoder.finish(|part| text.push_str(part));
        text
    }

    #[test]
    fn split_characters_are_decoded() {
        assert_eq!(decode(&[b"\xc3", b"\xa4\xe2\x82", b"", b"\xac!"]), "ä€!");
        assert_eq!(decode(&[b"\xf0", b"\x9f", b"\x9a", b"\x82"]), "\u{1f682}");
    }

    #[test]
    fn an_unfinished_character_is_one_replacement() {
        assert_eq!(decode(&[b"a\xe2\x82"]), "a\u{fffd}");
        assert_eq!(decode(&[b"a\xe2", b"b"]), "a\u{fffd}b");
        assert_eq!(decode(&[b"\xf0\x9f", b"\xf0\x9f\x9a\x82"]), "\u{fffd}\u{1f682}");
    }

    proptest! {
        #[test]
        fn pieces_decode_like_the_whole(
            pieces in prop::collection::vec(prop::collection::vec(
                prop_oneof![
                    any::<u8>(),
                    prop::sample::select(&b"\xc3\xa4\xe2\x82\xac\xf0\x9f\x9a\x82\xed\xa0\xf4\x90a"[..]),
                ],
                0..6,
            ), 0..12),
        ) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let whole = pieces.concat();
            prop_assert_eq!(decode(&pieces), String::from_utf8_lossy(&whole));
        }
    }
}
