//! The colors of task output: the only escape sequences that are safe to pass on to a terminal.
//!
//! Inside the text pipeline a color sequence is encoded as characters of a private range, so that
//! the stages that cut, fold and escape text treat it as text. [`decode_colors`] turns it into an
//! escape sequence again. A task can print the private characters itself, which has the same effect
//! as printing color sequences.

/// The first of the private characters; the character for an ASCII byte is this value plus the
/// byte.
const ENCODED_BASE: u32 = 0x10_ff00;
/// Maximum number of characters of the parameters. A longer sequence is removed.
const MAX_PARAMETER_CHARS: usize = 48;
/// The parameter that conceals text.
const CONCEAL: &str = "8";

/// Collects the parameters of color sequences (SGR, `CSI … m`) while an escape parser reads them.
#[derive(Debug, Default)]
pub(super) struct ColorCollector {
    parameters: String,
    is_invalid: bool,
}

impl ColorCollector {
    /// Records a character. `was_csi` and `is_csi` tell whether the parser was inside a control
    /// sequence before and is inside one after the character. Returns the encoded sequence if the
    /// character completes a color sequence that is safe.
    pub(super) fn push(&mut self, c: char, was_csi: bool, is_csi: bool) -> Option<String> {
        match (was_csi, is_csi) {
            (false, true) => {
                self.parameters.clear();
                self.is_invalid = false;
            }
            (true, true) => {
                self.is_invalid |= !matches!(c, '0'..='9' | ';' | ':')
                    || self.parameters.len() >= MAX_PARAMETER_CHARS;
                if !self.is_invalid {
                    self.parameters.push(c);
                }
            }
            (true, false) if c == 'm' && !self.is_invalid && !conceals(&self.parameters) => {
                return Some(encode(&self.parameters));
            }
            (true | false, false) => {}
        }
        None
    }
}

/// Returns whether parameters conceal text. The number of a color, as in `38;5;8`, does not.
fn conceals(parameters: &str) -> bool {
    let mut parts = parameters.split(';');
    while let Some(part) = parts.next() {
        match part {
            "38" | "48" | "58" => {
                let skipped = match parts.next() {
                    Some("5") => 1,
                    Some("2") => 3,
                    Some(_) | None => 0,
                };
                for _ in 0..skipped {
                    parts.next();
                }
            }
            _ if part.trim_start_matches('0') == CONCEAL => return true,
            _ => {}
        }
    }
    false
}

fn encode(parameters: &str) -> String {
    let encoded = |byte: u8| char::from_u32(ENCODED_BASE + u32::from(byte));
    parameters.bytes().chain([b'm']).filter_map(encoded).collect()
}

/// Returns the ASCII character that a private character encodes.
fn decode_char(c: char) -> Option<char> {
    let byte = u32::from(c).checked_sub(ENCODED_BASE).and_then(|byte| u8::try_from(byte).ok())?;
    matches!(byte, b'0'..=b'9' | b';' | b':' | b'm').then(|| char::from(byte))
}

/// Returns the encoded colors of a rendered text without its other characters. Placed before
/// another text, they color it as if it followed the rendered text.
#[must_use]
pub fn encoded_colors(text: &str) -> String {
    text.chars().filter(|c| decode_char(*c).is_some()).collect()
}

/// The sequence that restores the default colors.
const RESET: &str = "\x1b[m";

/// Turns the encoded colors of a rendered text into escape sequences. An encoded sequence whose end
/// was cut off is removed. A line that would leave a color set ends with a reset.
///
/// The result contains no escape sequences other than colors.
#[must_use]
pub fn decode_colors(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parameters = String::new();
    let mut is_colored = false;
    for c in text.chars() {
        match decode_char(c) {
            Some('m') => {
                if !conceals(&parameters) {
                    out.push_str("\x1b[");
                    out.push_str(&parameters);
                    out.push('m');
                    is_colored = !matches!(parameters.as_str(), "" | "0" | "00");
                }
                parameters.clear();
            }
            Some(parameter) => parameters.push(parameter),
            None => {
                parameters.clear();
                if c == '\n' && std::mem::take(&mut is_colored) {
                    out.push_str(RESET);
                }
                out.push(c);
            }
        }
    }
    if is_colored {
        out.push_str(RESET);
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{RenderOptions, make_visible, render_output};
    use super::*;

    fn colored(text: &str) -> String {
        let options = RenderOptions { keeps_colors: true, ..RenderOptions::default() };
        decode_colors(&make_visible(&render_output(text.as_bytes(), options)))
    }

    #[test]
    fn colors_are_kept_and_everything_else_is_removed() {
        for (raw, expected) in [
            ("a\x1b[31mb\x1b[mc", "a\x1b[31mb\x1b[mc"),
            ("\x1b[38;2;1;8;3mx\x1b[48:5:8my", "\x1b[38;2;1;8;3mx\x1b[48:5:8my\x1b[m"),
            ("\u{9b}1mx", "\x1b[1mx\x1b[m"),
            ("\x1b[2J\x1b]0;title\x07\x1b[?25lx\x1b[1;1H\x1b[>4;2m", "x"),
            ("\x1b]8;;https://example.org\x1b\\link", "link"),
            ("\x1b[8mhidden\x1b[1;08mx", "hiddenx"),
            ("\x1b[38;5;8mgray", "\x1b[38;5;8mgray\x1b[m"),
            ("\x1b[31\x1b[1mx", "\x1b[1mx\x1b[m"),
            ("\x1b[31ma\nb", "\x1b[31ma\x1b[m\nb"),
            ("\u{202e}\x1b[1mx", "\\u{202e}\x1b[1mx\x1b[m"),
        ] {
            assert_eq!(colored(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn the_colors_of_a_text_continue_in_the_next_one() {
        let options = RenderOptions { keeps_colors: true, ..RenderOptions::default() };
        let text = render_output(b"\x1b[32mgreen \x1b[1mbo", options);
        assert_eq!(decode_colors(&text), "\x1b[32mgreen \x1b[1mbo\x1b[m");
        let next = format!("{}ld", encoded_colors(&text));
        assert_eq!(decode_colors(&next), "\x1b[32m\x1b[1mld\x1b[m");
    }

    #[test]
    fn a_color_does_not_restart_a_line() {
        assert_eq!(colored("done\r\x1b[m\n"), "done\x1b[m\n");
        assert_eq!(colored("\x1b[32m10%\r\x1b[33m20%\x1b[m\n"), "\x1b[33m20%\x1b[m\n");
        assert_eq!(colored("ab\x1b[31m\x08c"), "abc", "a part of a sequence is removed");
    }

    proptest! {
        #[test]
        fn without_its_colors_the_text_is_the_same(
            parts in prop::collection::vec(
                prop_oneof![
                    "[a-z\r\n]{0,4}",
                    Just("\x1b[31m".to_owned()),
                    Just("\x1b[2K\x1b[1G".to_owned()),
                    any::<String>(),
                ],
                0..20,
            ),
        ) {
            let is_encoded = |c| decode_char(c).is_some();
            let raw: String = parts.concat().replace(['\x08', '\u{7f}'], "");
            let raw: String = raw.chars().filter(|c| !is_encoded(*c)).collect();
            let text = colored(&raw);
            let plain = make_visible(&render_output(raw.as_bytes(), RenderOptions::default()));
            let stripped = render_output(text.as_bytes(), RenderOptions::default());
            prop_assert_eq!(stripped, plain);
            let escapes = text.match_indices('\x1b').count();
            prop_assert_eq!(escapes, text.matches("\x1b[").count());
        }

        #[test]
        fn decoded_text_has_no_control_characters_but_those_of_colors(text in any::<String>()) {
            let text = decode_colors(&make_visible(&text));
            for part in text.split('\x1b').skip(1) {
                let end = part.find('m');
                prop_assert!(part.starts_with('[') && end.is_some(), "{part:?}");
            }
        }
    }
}
