//! Streaming conversion of raw output to readable text.

use super::colors::ColorCollector;
use super::escape_sequences::{CharAction, EscapeParser};
use super::line_buffer::LineBuffer;
use super::repeated_lines::{LineSink, RepeatCounter};
use super::utf8::Utf8Decoder;

/// The treatment of consecutive equal lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepeatMode {
    /// Keep all lines.
    #[default]
    Keep,
    /// Keep the first line, followed by `… repeated 42 times` for 42 repetitions. A single
    /// repetition and a few blank lines are kept.
    Count,
}

/// Options of an [`OutputRenderer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// The treatment of consecutive equal lines.
    pub repeats: RepeatMode,
    /// Whether colors are kept, in the encoding that [`decode_colors`](super::decode_colors)
    /// reverses, instead of being removed.
    pub keeps_colors: bool,
}

/// Converts raw output to text, in pieces of any size and in constant memory.
///
/// | input | output |
/// |---|---|
/// | `\r\n` | a newline |
/// | `\r`, then more | the line restarts: `10%\r20%\r100%\n` becomes `100%\n` |
/// | `\b` | removes the last character of the line |
/// | tab, newline | unchanged |
/// | escape sequences, C1 controls, shift in and out | removed |
/// | any other control character | its picture, `␀` (U+2400) to `␟` and `␡` (U+2421) |
/// | invalid UTF-8 | one U+FFFD for each maximal invalid sequence |
///
/// Escape sequences are recognized in decoded text, as in a UTF-8 terminal: a lone byte 0x9B is
/// invalid UTF-8, while the character U+009B introduces a control sequence. Of all sequences, only
/// those that redraw a line change the text, such as `\x1b[2K\x1b[1G`.
///
/// The renderer holds at most [`MAX_HELD_LINE_BYTES`](super::MAX_HELD_LINE_BYTES) bytes of the
/// current line, and with [`RepeatMode::Count`] also of the previous line. The result does not
/// depend on the pieces into which the input is divided.
#[derive(Debug, Default)]
pub struct OutputRenderer {
    decoder: Utf8Decoder,
    state: RenderState,
}

#[derive(Debug, Default)]
struct RenderState {
    escapes: EscapeParser,
    line: LineBuffer,
    counter: Option<RepeatCounter>,
    /// `None` if colors are removed.
    colors: Option<ColorCollector>,
}

impl OutputRenderer {
    /// Returns a renderer that has received no output yet.
    #[must_use]
    pub fn new(options: RenderOptions) -> Self {
        let counter = match options.repeats {
            RepeatMode::Keep => None,
            RepeatMode::Count => Some(RepeatCounter::default()),
        };
        Self {
            decoder: Utf8Decoder::default(),
            state: RenderState {
                counter,
                colors: options.keeps_colors.then(ColorCollector::default),
                ..RenderState::default()
            },
        }
    }

    /// Processes more output, and appends to `out` the text that can no longer change.
    ///
    /// The last line is held back while it has no newline, because it may still be rewritten.
    pub fn push(&mut self, bytes: &[u8], out: &mut String) {
        self.decoder.push(bytes, |text| self.state.push(text, out));
    }

    /// Appends to `out` the text that was held back: the last line if it has no newline, and with
    /// [`RepeatMode::Count`] the repetitions before it.
    pub fn finish(mut self, out: &mut String) {
        self.decoder.finish(|text| self.state.push(text, out));
        let RenderState { line, counter, .. } = &mut self.state;
        let mut out = LineSink { out, counter: counter.as_mut() };
        line.finish(&mut out);
        out.finish();
    }

    /// Returns the part of the current line that was not emitted yet and may still be rewritten.
    #[must_use]
    pub fn pending_line(&self) -> &str {
        self.state.line.text()
    }

    /// Returns the memory in use for the current line, and for the previous one with
    /// [`RepeatMode::Count`], in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.state.line.held_bytes()
            + self.state.counter.as_ref().map_or(0, RepeatCounter::held_bytes)
    }
}

impl RenderState {
    fn push(&mut self, mut text: &str, out: &mut String) {
        let Self { escapes, line, counter, colors } = self;
        let mut out = LineSink { out, counter: counter.as_mut() };
        while !text.is_empty() {
            // The fast path: nearly all output is plain text, which is added in whole runs.
            if escapes.is_ground() {
                let plain = text.bytes().position(is_special).unwrap_or(text.len());
                let (run, rest) = text.split_at(plain);
                line.write(run, &mut out);
                text = rest;
            }
            let mut rest = text.chars();
            if let Some(c) = rest.next() {
                let was_csi = escapes.is_csi();
                apply_action(escapes.step(c), c, line, &mut out);
                if let Some(color) =
                    colors.as_mut().and_then(|colors| colors.push(c, was_csi, escapes.is_csi()))
                {
                    line.write_color(&color, &mut out);
                }
            }
            text = rest.as_str();
        }
    }
}

/// Returns whether a byte starts a character that may need special treatment: a control character,
/// or a character from U+0080 to U+00BF, which starts with the byte 0xC2.
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

/// Returns the Unicode picture of a control character. Other characters and tabs are unchanged.
fn control_picture(c: char) -> char {
    match c {
        '\t' => c,
        '\x00'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or(c),
        '\x7f' => '\u{2421}',
        c => c,
    }
}

/// Converts output that is completely in memory.
#[must_use]
pub fn render_output(bytes: &[u8], options: RenderOptions) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut folder = OutputRenderer::new(options);
    folder.push(bytes, &mut text);
    folder.finish(&mut text);
    text
}
