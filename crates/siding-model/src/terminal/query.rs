//! The queries that programs send to their terminal, and siding's answers to them.
//!
//! A program writes a query, such as `ESC [ 6 n`, and waits until the answer arrives as input.
//! Without a person's terminal, siding gives the answers of a plain terminal: a VT220 with ANSI
//! colors, without graphics. The queries and answers are those of xterm's "XTerm Control
//! Sequences" (ctlseqs); the comment at each answer names the section.

mod colors;
mod filter;

use colors::{background_color, foreground_color, palette_color};
pub use filter::QueryFilter;

use super::TerminalSize;
use super::alternate_screen::find_screen_switch;
use super::sequence::{ESC, Sequence, SequenceParser, StringKind, StringTerminator};

/// A query that a program has sent to its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalQuery {
    /// Primary device attributes (DA1): `CSI c`.
    PrimaryAttributes,
    /// Secondary device attributes (DA2): `CSI > c`.
    SecondaryAttributes,
    /// Tertiary device attributes (DA3): `CSI = c`.
    TertiaryAttributes,
    /// Whether the terminal works (DSR): `CSI 5 n`.
    OperatingStatus,
    /// The position of the cursor (CPR): `CSI 6 n`.
    CursorPosition {
        /// Whether the program has sent the private form `CSI ? 6 n` (DECXCPR).
        private: bool,
    },
    /// Name and version of the terminal (XTVERSION): `CSI > q`.
    Version,
    /// Whether a mode is set (DECRQM): `CSI ? Ps $ p`.
    Mode {
        /// Number of the mode.
        mode: u16,
        /// Whether the mode is a private one; otherwise the program has sent `CSI Ps $ p`.
        private: bool,
    },
    /// The state of the kitty keyboard protocol: `CSI ? u`.
    KittyKeyboard,
    /// The size of the text area in pixels: `CSI 14 t`.
    TextAreaPixels,
    /// The size of a character cell in pixels: `CSI 16 t`.
    CellPixels,
    /// The size of the text area in character cells: `CSI 18 t`.
    TextAreaCells,
    /// A color that the terminal uses by default: `OSC 10 ; ?`, `OSC 11 ; ?`, `OSC 12 ; ?`.
    DefaultColor {
        /// The color that the program asks for.
        role: ColorRole,
        /// How the query ended; the answer ends in the same way.
        terminator: StringTerminator,
    },
    /// A color of the palette: `OSC 4 ; INDEX ; ?`.
    PaletteColor {
        /// Index of the color.
        index: u8,
        /// How the query ended; the answer ends in the same way.
        terminator: StringTerminator,
    },
    /// Capabilities from the terminal's database entry (XTGETTCAP): `DCS + q … ST`.
    Capabilities,
    /// A setting, such as the style of the cursor (DECRQSS): `DCS $ q … ST`.
    Setting,
}

/// A color that the terminal uses by default. The discriminants are the numbers of the OSC
/// commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorRole {
    /// The color of text.
    Foreground = 10,
    /// The color behind text.
    Background = 11,
    /// The color of the text cursor.
    Cursor = 12,
}

/// siding's answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryReply {
    /// These bytes are the input that answers the query.
    Bytes(Vec<u8>),
    /// The answer is the position of the cursor, which the caller computes from the output up to
    /// the end of the query and formats with [`format_cursor_position`].
    CursorPosition {
        /// Whether the answer has the private form.
        private: bool,
    },
    /// The terminal does not answer, like a terminal without the feature in question.
    None,
}

/// Returns the answer to [`TerminalQuery::CursorPosition`]. `column` and `row` count from 0.
///
/// ctlseqs, "Device Status Report (DSR)": `CSI r ; c R` and `CSI ? r ; c R`, which count from 1.
#[must_use]
pub fn format_cursor_position(column: u16, row: u16, private: bool) -> Vec<u8> {
    let prefix = if private { "?" } else { "" };
    format!("\x1b[{prefix}{};{}R", u32::from(row) + 1, u32::from(column) + 1).into_bytes()
}

impl TerminalQuery {
    /// Returns the answer of a terminal with this size.
    #[must_use]
    pub fn reply(self, size: TerminalSize) -> QueryReply {
        let text = match self {
            // "Send Device Attributes (Primary DA)": 62 is a VT220, 22 is ANSI color.
            Self::PrimaryAttributes => "\x1b[?62;22c".to_owned(),
            // "Send Device Attributes (Secondary DA)": 1 is a VT220, then the version, and 0. Vim
            // enables features of xterm only for higher versions.
            Self::SecondaryAttributes => "\x1b[>1;10;0c".to_owned(),
            // "Send Device Attributes (Tertiary DA)": the unit's id as eight hexadecimal digits.
            Self::TertiaryAttributes => "\x1bP!|00000000\x1b\\".to_owned(),
            // "Device Status Report (DSR)": 0 is "OK".
            Self::OperatingStatus => "\x1b[0n".to_owned(),
            Self::CursorPosition { private } => return QueryReply::CursorPosition { private },
            // "Report xterm name and version (XTVERSION)".
            Self::Version => {
                format!("\x1bP>|siding {}\x1b\\", env!("CARGO_PKG_VERSION"))
            }
            // "Request DEC private mode (DECRQM)", "Request ANSI mode": 0 is "not recognized".
            // The state of a mode depends on all previous output, which is not known here, and 1 or
            // 2 could be wrong. After a 0 a program behaves as with a terminal without DECRQM.
            Self::Mode { mode, private } => {
                let prefix = if private { "?" } else { "" };
                format!("\x1b[{prefix}{mode};0$y")
            }
            // A terminal without the kitty protocol is silent. A program detects this from the
            // answer to the query of the primary attributes that it sends afterwards. There are no
            // pixels, and a size of 0 would be an answer that programs divide by.
            Self::KittyKeyboard | Self::TextAreaPixels | Self::CellPixels => {
                return QueryReply::None;
            }
            // "Window manipulation (XTWINOPS)": 18 is answered with 8, rows and columns.
            Self::TextAreaCells => format!("\x1b[8;{};{}t", size.rows, size.columns),
            // "Operating System Commands": 10, 11 and 12 are answered with the color.
            Self::DefaultColor { role, terminator } => {
                let color = match role {
                    ColorRole::Foreground | ColorRole::Cursor => foreground_color(),
                    ColorRole::Background => background_color(),
                };
                format!("\x1b]{};{color}{}", role as u8, terminator.as_str())
            }
            // "Operating System Commands": 4 is answered with the index and the color.
            Self::PaletteColor { index, terminator } => {
                format!("\x1b]4;{index};{}{}", palette_color(index), terminator.as_str())
            }
            // "Request Termcap/Terminfo String (XTGETTCAP)": 0 is an invalid request.
            Self::Capabilities => "\x1bP0+r\x1b\\".to_owned(),
            // "Request Status String (DECRQSS)": 0 is an invalid request.
            Self::Setting => "\x1bP0$r\x1b\\".to_owned(),
        };
        QueryReply::Bytes(text.into_bytes())
    }
}

/// A scanner that finds queries in the output of a task, whose bytes may be split anywhere, and
/// tracks which screen the output has chosen. It stores at most 48 bytes of an incomplete sequence,
/// and nothing else of the output.
#[derive(Debug, Clone, Default)]
pub struct QueryScanner {
    parser: SequenceParser,
    is_alternate_screen: bool,
}

impl QueryScanner {
    /// Returns whether the terminal shows the alternate screen after the scanned output, as for an
    /// editor or a pager.
    #[must_use]
    pub const fn is_alternate_screen(&self) -> bool {
        self.is_alternate_screen
    }

    /// Scans the next bytes of the output. The first byte has the offset `base`. Calls
    /// `on_query` with each query that these bytes complete, and with the offset after its last
    /// byte.
    pub fn scan(&mut self, bytes: &[u8], base: u64, on_query: &mut dyn FnMut(TerminalQuery, u64)) {
        let mut index = 0;
        while index < bytes.len() {
            if self.parser.is_ground() {
                let escape = bytes[index..].iter().position(|byte| *byte == ESC);
                let Some(escape) = escape else { return };
                index += escape;
            }
            let byte = bytes[index];
            index += 1;
            if let Some(sequence) = self.parser.step(byte) {
                let end = base.saturating_add(index as u64);
                let switch = find_screen_switch(sequence);
                self.is_alternate_screen = switch.unwrap_or(self.is_alternate_screen);
                visit_queries(sequence, &mut |query| on_query(query, end));
            }
        }
    }
}

/// Calls `visit` with each query that a sequence contains. Only a sequence for colors can contain
/// several.
fn visit_queries(sequence: Sequence<'_>, visit: &mut dyn FnMut(TerminalQuery)) {
    let found = match sequence {
        Sequence::Csi { parameters, last } => find_csi_query(parameters, last),
        Sequence::ControlString { kind: StringKind::Dcs, content, .. } => {
            find_device_query(content)
        }
        Sequence::ControlString { kind: StringKind::Osc, content, is_cut: false, terminator } => {
            visit_color_queries(content, terminator, visit);
            None
        }
        Sequence::Escape(_) | Sequence::ControlString { .. } => None,
    };
    if let Some(query) = found {
        visit(query);
    }
}

/// Returns the query that a control sequence with these parameters and this final byte represents.
fn find_csi_query(parameters: &[u8], last: u8) -> Option<TerminalQuery> {
    let (prefix, parameters) = match parameters {
        [prefix @ b'<'..=b'?', rest @ ..] => (Some(*prefix), rest),
        _ => (None, parameters),
    };
    let number = parse_number(parameters);
    let is_zero = parameters.is_empty() || number == Some(0);
    let private = prefix == Some(b'?');
    match (prefix, last) {
        (None, b'c') if is_zero => Some(TerminalQuery::PrimaryAttributes),
        (Some(b'>'), b'c') if is_zero => Some(TerminalQuery::SecondaryAttributes),
        (Some(b'='), b'c') if is_zero => Some(TerminalQuery::TertiaryAttributes),
        (None, b'n') if number == Some(5) => Some(TerminalQuery::OperatingStatus),
        (None | Some(b'?'), b'n') if number == Some(6) => {
            Some(TerminalQuery::CursorPosition { private })
        }
        (Some(b'>'), b'q') if is_zero => Some(TerminalQuery::Version),
        (None | Some(b'?'), b'p') => {
            let mode = parse_number(parameters.strip_suffix(b"$")?)?;
            Some(TerminalQuery::Mode { mode, private })
        }
        (Some(b'?'), b'u') if parameters.is_empty() => Some(TerminalQuery::KittyKeyboard),
        (None, b't') if number == Some(14) => Some(TerminalQuery::TextAreaPixels),
        (None, b't') if number == Some(16) => Some(TerminalQuery::CellPixels),
        (None, b't') if number == Some(18) => Some(TerminalQuery::TextAreaCells),
        _ => None,
    }
}

/// Returns the query that a device control string with this content represents. Only the start
/// matters, because no capability and no setting is known.
fn find_device_query(content: &[u8]) -> Option<TerminalQuery> {
    if content.starts_with(b"+q") {
        Some(TerminalQuery::Capabilities)
    } else {
        content.starts_with(b"$q").then_some(TerminalQuery::Setting)
    }
}

/// Calls `visit` with each color that an operating system command asks for. A command that also
/// sets a color is not a query, because the person's terminal must receive it.
fn visit_color_queries(
    content: &[u8],
    terminator: StringTerminator,
    visit: &mut dyn FnMut(TerminalQuery),
) {
    let mut parts = content.split(|byte| *byte == b';');
    match parts.next().and_then(parse_number) {
        Some(4) => visit_palette_queries(parts, terminator, visit),
        Some(number @ 10..=12) if parts.clone().all(|value| value == b"?") => {
            // Each further value asks for the color with the next number.
            let roles = [ColorRole::Foreground, ColorRole::Background, ColorRole::Cursor];
            let asked = roles.into_iter().skip(usize::from(number - 10));
            for (role, _) in asked.zip(parts) {
                visit(TerminalQuery::DefaultColor { role, terminator });
            }
        }
        Some(_) | None => {}
    }
}

/// Calls `visit` with each color of the palette in `INDEX ; ? ; INDEX ; ? …`.
fn visit_palette_queries<'c>(
    mut parts: impl Iterator<Item = &'c [u8]> + Clone,
    terminator: StringTerminator,
    visit: &mut dyn FnMut(TerminalQuery),
) {
    if !parts.clone().skip(1).step_by(2).all(|value| value == b"?") {
        return;
    }
    while let (Some(index), Some(_)) = (parts.next(), parts.next()) {
        let index = parse_number(index).and_then(|index| u8::try_from(index).ok());
        if let Some(index) = index {
            visit(TerminalQuery::PaletteColor { index, terminator });
        }
    }
}

/// Parses a decimal number that consists of digits only.
pub(super) fn parse_number(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u16, |number, digit| match digit {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u16::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
