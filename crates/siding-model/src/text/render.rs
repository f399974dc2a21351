//! Raw output to readable text, as a stream.

use super::escape_sequences::{CharAction, EscapeParser};
use super::line_buffer::LineBuffer;
use super::repeated_lines::{LineSink, RepeatCounter};
use super::utf8::Decoder;

/// What to do with equal lines that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatMode {
    /// Show every one.
    #[default]
    Keep,
    /// Show the first, then `… repeated 42 times` for 42 further ones. A single repetition, and a
    /// few blank lines, are shown as they are.
    Count,
}

/// How to fold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// What to do with equal lines.
    pub repeats: RepeatMode,
}

/// Turns raw output into text, in pieces of any size and in flat memory.
///
/// | in | out |
/// |---|---|
/// | `\r\n` | a newline |
/// | `\r`, then more | the line starts anew: `10%\r20%\r100%\n` is `100%\n` |
/// | `\b` | takes the last character of the line back |
/// | tab, newline | themselves |
/// | escape sequences, C1 controls, shift in and out | nothing |
/// | any other control character | its picture, `␀` (U+2400) to `␟` and `␡` (U+2421) |
/// | invalid UTF-8 | one U+FFFD for each maximal invalid sequence |
///
/// Escape sequences are recognised in decoded text, as a UTF-8 terminal does it: a lone byte 0x9B
/// is invalid UTF-8, the character U+009B introduces a control sequence. Of what they do only the
/// redrawing of a line is applied (`\x1b[2K\x1b[1G` and its like).
///
/// Holds at most [`LINE_HELD_MAX`](super::MAX_HELD_LINE_BYTES) bytes of the current line, and with
/// [`RepeatMode::Count`] as much again for the one before. The text is the same however the input is
/// cut into pieces.
#[derive(Debug, Default)]
pub struct OutputRenderer {
    decoder: Decoder,
    state: RenderState,
}

#[derive(Debug, Default)]
struct RenderState {
    escapes: EscapeParser,
    line: LineBuffer,
    counter: Option<RepeatCounter>,
}

impl OutputRenderer {
    /// Returns a folder that has seen nothing.
    #[must_use]
    pub fn new(options: RenderOptions) -> Self {
        let counter = match options.repeats {
            RepeatMode::Keep => None,
            RepeatMode::Count => Some(RepeatCounter::default()),
        };
        Self {
            decoder: Decoder::default(),
            state: RenderState { counter, ..RenderState::default() },
        }
    }

    /// Takes more output and appends to `out` the text that is settled by now.
    ///
    /// The line that is not ended yet stays here, since it may still be rewritten.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.decoder.push(bytes, |text| self.state.push(text, out));
    }

    /// Appends to `out` what was held back: the last state of an unended line, without a newline.
    pub fn finish(mut self, out: &mut String) {
        self.decoder.finish(|text| self.state.push(text, out));
        let RenderState { line, counter, .. } = &mut self.state;
        let mut out = LineSink { out, counter: counter.as_mut() };
        line.finish(&mut out);
        out.finish();
    }

    /// Returns the line that is not ended yet, as far as it is known: it may still be rewritten.
    #[must_use]
    pub fn pending_line(&self) -> &str {
        self.state.line.text()
    }

    /// Returns the bytes of memory held for text that is not given out yet.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.state.line.held_bytes()
            + self.state.counter.as_ref().map_or(0, RepeatCounter::held_bytes)
    }
}

impl RenderState {
    fn push(&mut self, mut text: &str, out: &mut String) {
        let Self { escapes, line, counter } = self;
        let mut out = LineSink { out, counter: counter.as_mut() };
        while !text.is_empty() {
            // Nearly all output is plain; it goes through in runs.
            if escapes.is_ground() {
                let plain = text.bytes().position(is_special).unwrap_or(text.len());
                let (run, rest) = text.split_at(plain);
                line.write(run, &mut out);
                text = rest;
            }
            let mut rest = text.chars();
            if let Some(c) = rest.next() {
                apply_action(escapes.step(c), c, line, &mut out);
            }
            text = rest.as_str();
        }
    }
}

/// Tells the bytes that need a look: control characters, and 0xC2, which begins U+0080 to U+00BF.
/// Such a byte always begins a character.
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f || byte == 0xc2
}

fn apply_action(meaning: CharAction, c: char, line: &mut LineBuffer, out: &mut LineSink<'_>) {
    match (meaning, c) {
        (CharAction::Ignore, _) => {}
        (CharAction::CursorHome, _) => line.cursor_home(),
        (CharAction::EraseRight, _) => line.erase_right(out),
        (CharAction::EraseLine, _) => line.erase_line(out),
        (CharAction::Print, '\n') => line.newline(out),
        (CharAction::Print, '\r') => line.carriage_return(),
        (CharAction::Print, '\x08') => line.backspace(),
        (CharAction::Print, c) => line.write(control_picture(c).encode_utf8(&mut [0; 4]), out),
    }
}

/// Returns the character that shows a control character; others show themselves.
fn control_picture(c: char) -> char {
    match c {
        '\t' => c,
        '\x00'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
        '\x7f' => '\u{2421}',
        c => c,
    }
}

/// Returns the text of output that is there as a whole.
#[must_use]
pub fn render_output(bytes: &[u8], options: RenderOptions) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut folder = OutputRenderer::new(options);
    folder.push(bytes, &mut text);
    folder.finish(&mut text);
    text
}
