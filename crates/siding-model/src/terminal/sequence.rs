//! A parser of the control sequences in the output of a program.
//!
//! ```text
//!            ESC               [                final @…~
//! Ground ──────────► Escape ────────► Csi ────────────────────► Ground
//!                      │  ] P X ^ _
//!                      ├────────► ControlString ── ESC \, BEL ► Ground
//!                      └─ any other byte ─────────────────────► Ground
//! ```
//! CAN and SUB cancel a sequence, and ESC cancels it and starts another one. BEL ends only an
//! operating system command (OSC). The 8-bit introducers (C1) are not recognized, because their
//! bytes are parts of characters in UTF-8.

/// The byte that starts every sequence.
pub(crate) const ESC: u8 = 0x1b;
/// The byte that cancels a sequence without any other effect.
pub(crate) const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const BEL: u8 = 0x07;
/// Maximum number of bytes of a sequence that are stored. The remaining bytes of a longer sequence
/// are parsed and discarded.
const MAX_CONTENT_BYTES: usize = 48;

/// An incremental parser of control sequences, without allocations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SequenceParser {
    state: ParserState,
    /// The first bytes of the sequence, without its introducer.
    content: [u8; MAX_CONTENT_BYTES],
    /// Number of used bytes of `content`. One byte, so that a shim with a terminal stays small.
    content_len: u8,
    /// Whether the sequence is longer than `content`.
    is_cut: bool,
}

/// The position in a control sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    /// Outside of any sequence.
    Ground,
    /// After ESC.
    Escape,
    /// Inside a control sequence, after `ESC [`.
    Csi,
    /// Inside a control string.
    ControlString(StringKind),
    /// After ESC inside a control string: a backslash ends the string, any other byte cancels it.
    StringEscape(StringKind),
}

/// The kind of a control string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StringKind {
    /// An operating system command, such as a title or a color (`ESC ]`).
    Osc,
    /// A device control string (`ESC P`).
    Dcs,
    /// A string of another kind, which terminals ignore.
    Other,
}

/// The sequence of bytes that ends an operating system command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringTerminator {
    /// The control character BEL.
    Bel,
    /// The string terminator `ESC \`.
    St,
}

impl StringTerminator {
    /// Returns the bytes of the terminator.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Bel => "\x07",
            Self::St => "\x1b\\",
        }
    }
}

/// A complete sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence<'p> {
    /// ESC and one byte.
    Escape(u8),
    /// A control sequence of at most 48 bytes.
    Csi {
        /// The parameters and intermediate bytes.
        parameters: &'p [u8],
        /// The final byte.
        last: u8,
    },
    /// A control string.
    ControlString {
        /// The kind of the string.
        kind: StringKind,
        /// The first 48 bytes of the string.
        content: &'p [u8],
        /// Whether the string is longer than `content`.
        is_cut: bool,
        /// How the string ended.
        terminator: StringTerminator,
    },
}

impl Default for SequenceParser {
    fn default() -> Self {
        Self {
            state: ParserState::Ground,
            content: [0; MAX_CONTENT_BYTES],
            content_len: 0,
            is_cut: false,
        }
    }
}

impl SequenceParser {
    /// Returns whether the parser is outside of any sequence.
    pub(crate) const fn is_ground(&self) -> bool {
        matches!(self.state, ParserState::Ground)
    }

    /// Returns the start of a control string of this kind; `None` outside of such a string.
    pub(super) fn string_prefix(&self, kind: StringKind) -> Option<&[u8]> {
        let is_inside = self.state == ParserState::ControlString(kind)
            || self.state == ParserState::StringEscape(kind);
        is_inside.then(|| self.stored())
    }

    /// Returns `None` if `byte` continues the current sequence or completes it. If `byte` cancels
    /// the current sequence because another one has started, returns the number of bytes before
    /// `byte` that belong to the new sequence: 0, or 1 for the ESC inside a control string.
    pub(super) const fn restart_len(&self, byte: u8) -> Option<usize> {
        match self.state {
            ParserState::Escape | ParserState::Csi if byte == ESC => Some(0),
            ParserState::StringEscape(_) if byte != b'\\' => Some(1),
            ParserState::Ground
            | ParserState::Escape
            | ParserState::Csi
            | ParserState::ControlString(_)
            | ParserState::StringEscape(_) => None,
        }
    }

    /// Processes a byte, and returns the sequence that it completes.
    pub(crate) fn step(&mut self, byte: u8) -> Option<Sequence<'_>> {
        match (self.state, byte) {
            (_, CAN | SUB) => self.state = ParserState::Ground,
            (ParserState::StringEscape(kind), b'\\') => {
                return Some(self.end_string(kind, StringTerminator::St));
            }
            (ParserState::ControlString(kind), ESC) => {
                self.state = ParserState::StringEscape(kind);
            }
            (_, ESC) => self.state = ParserState::Escape,
            (ParserState::Ground, _) => {}
            (ParserState::Escape | ParserState::StringEscape(_), _) => {
                return self.step_escape(byte);
            }
            (ParserState::Csi, 0x20..=0x3f) => self.push(byte),
            (ParserState::Csi, _) => return self.end_csi(byte),
            (ParserState::ControlString(StringKind::Osc), BEL) => {
                return Some(self.end_string(StringKind::Osc, StringTerminator::Bel));
            }
            (ParserState::ControlString(_), _) => self.push(byte),
        }
        None
    }

    /// Processes the byte after ESC.
    fn step_escape(&mut self, byte: u8) -> Option<Sequence<'_>> {
        let next = match byte {
            b'[' => ParserState::Csi,
            b']' => ParserState::ControlString(StringKind::Osc),
            b'P' => ParserState::ControlString(StringKind::Dcs),
            b'X' | b'^' | b'_' => ParserState::ControlString(StringKind::Other),
            _ => ParserState::Ground,
        };
        self.state = next;
        self.content_len = 0;
        self.is_cut = false;
        (next == ParserState::Ground).then_some(Sequence::Escape(byte))
    }

    /// Ends a control sequence: `byte` is its final byte, or a byte that is not allowed inside of
    /// it and cancels it. A control sequence that is too long is ignored.
    fn end_csi(&mut self, byte: u8) -> Option<Sequence<'_>> {
        self.state = ParserState::Ground;
        if matches!(byte, 0x40..=0x7e) && !self.is_cut {
            Some(Sequence::Csi { parameters: self.stored(), last: byte })
        } else {
            None
        }
    }

    fn end_string(&mut self, kind: StringKind, terminator: StringTerminator) -> Sequence<'_> {
        self.state = ParserState::Ground;
        let is_cut = self.is_cut;
        Sequence::ControlString { kind, content: self.stored(), is_cut, terminator }
    }

    fn push(&mut self, byte: u8) {
        match self.content.get_mut(usize::from(self.content_len)) {
            Some(free) => {
                *free = byte;
                self.content_len += 1;
            }
            None => self.is_cut = true,
        }
    }

    fn stored(&self) -> &[u8] {
        &self.content[..usize::from(self.content_len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sequences in `output`, formatted for comparison.
    fn sequences_in(output: &[u8]) -> Vec<String> {
        let mut parser = SequenceParser::default();
        output
            .iter()
            .filter_map(|byte| {
                let text = match parser.step(*byte)? {
                    Sequence::Escape(last) => format!("ESC {}", char::from(last)),
                    Sequence::Csi { parameters, last } => {
                        format!("CSI {}{}", String::from_utf8_lossy(parameters), char::from(last))
                    }
                    Sequence::ControlString { kind, content, is_cut, terminator } => {
                        let content = String::from_utf8_lossy(content).into_owned();
                        format!("{kind:?} {content} {is_cut} {terminator:?}")
                    }
                };
                Some(text)
            })
            .collect()
    }

    #[test]
    fn each_kind_of_sequence_is_found() {
        for (output, expected) in [
            (&b"a\x1b=b"[..], "ESC ="),
            (b"\x1b[?1;2$p", "CSI ?1;2$p"),
            (b"\x1b]0;a\x07", "Osc 0;a false Bel"),
            (b"\x1b]0;a\x1b\\", "Osc 0;a false St"),
            // BEL does not end a device control string.
            (b"\x1bP+q\x07\x1b\\", "Dcs +q\x07 false St"),
            (b"\x1b_a\x1b\\", "Other a false St"),
            // A canceled sequence has no effect on the next one.
            (b"\x1b[12\x1b[3m", "CSI 3m"),
            (b"\x1b]0;a\x1b[3m", "CSI 3m"),
            (b"\x1b[12\x18\x1b[3m", "CSI 3m"),
            (b"\x1b[12\n\x1b[3m", "CSI 3m"),
            (b"\x1b\x1b[3m", "CSI 3m"),
        ] {
            assert_eq!(sequences_in(output), [expected], "{output:?}");
        }
        assert!(sequences_in(b"[6n \x9b6n \xc2\x9b6n \x1b]0;").is_empty());
    }

    #[test]
    fn a_long_sequence_is_cut() {
        let digits = [b'1'; 100];
        assert!(sequences_in(&[&b"\x1b["[..], &digits, b"m"].concat()).is_empty());
        let title = sequences_in(&[&b"\x1b]"[..], &digits, b"\x07"].concat());
        assert_eq!(title, [format!("Osc {} true Bel", "1".repeat(MAX_CONTENT_BYTES))]);
    }
}
