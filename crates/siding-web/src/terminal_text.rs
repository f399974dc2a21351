//! Renders a line of output as a terminal shows it: styled text, without any control sequence.
//!
//! Carriage returns, backspaces and erasures change the line as on a terminal. Colors become
//! styles. Every other sequence disappears: titles, links (OSC 8), the clipboard (OSC 52), cursor
//! movement. Control characters and invisible characters are escaped.

use siding_model::text::make_visible;

/// How a part of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TextStyle {
    /// Index of the foreground in the palette of 256 colors; `None` for the default.
    pub(crate) foreground: Option<u8>,
    /// Index of the background in the palette; `None` for the default.
    pub(crate) background: Option<u8>,
    /// Bold text.
    pub(crate) bold: bool,
    /// Text with less contrast.
    pub(crate) dim: bool,
    /// Italic text.
    pub(crate) italic: bool,
    /// Underlined text.
    pub(crate) underlined: bool,
    /// Foreground and background are exchanged.
    pub(crate) inverse: bool,
    /// Text that is crossed out.
    pub(crate) struck: bool,
}

/// A part of a line with one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StyledText {
    /// The text, which is visible and has no control character except tabs.
    pub(crate) text: String,
    /// The style of the whole text.
    pub(crate) style: TextStyle,
}

/// Renders the lines of an output in order; a style continues on the next line.
#[derive(Debug, Default)]
pub(crate) struct LineRenderer {
    style: TextStyle,
}

/// Maximum number of characters of the parameters of a control sequence. Longer ones have no
/// effect.
const MAX_PARAMETER_CHARS: usize = 64;

/// The position in a control sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SequenceState {
    Ground,
    Escape,
    Charset,
    Csi,
    ControlString,
}

/// The line and the cursor in it.
#[derive(Debug, Default)]
struct LineCells {
    cells: Vec<(char, TextStyle)>,
    column: usize,
}

impl LineRenderer {
    /// Renders a line without its newline. Invalid UTF-8 becomes U+FFFD.
    pub(crate) fn render(&mut self, line: &[u8]) -> Vec<StyledText> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = String::from_utf8_lossy(line);
        let mut cells = LineCells::default();
        let mut state = SequenceState::Ground;
        let mut parameters = String::new();
        for c in text.chars() {
            state = self.step(state, c, &mut parameters, &mut cells);
        }
        cells.into_spans()
    }

    fn step(
        &mut self,
        state: SequenceState,
        c: char,
        parameters: &mut String,
        line: &mut LineCells,
    ) -> SequenceState {
        match (state, c) {
            (_, '\x18' | '\x1a') => SequenceState::Ground,
            (_, '\x1b') => SequenceState::Escape,
            (SequenceState::Ground, _) => self.step_ground(c, parameters, line),
            (SequenceState::ControlString, '\x07' | '\u{9c}') => SequenceState::Ground,
            (SequenceState::ControlString, _) => SequenceState::ControlString,
            (SequenceState::Escape, '[') => {
                parameters.clear();
                SequenceState::Csi
            }
            (SequenceState::Escape, ']' | 'P' | 'X' | '^' | '_' | 'k') => {
                SequenceState::ControlString
            }
            (SequenceState::Escape | SequenceState::Charset, ' '..='/') => SequenceState::Charset,
            (SequenceState::Escape | SequenceState::Charset, '0'..='~') => SequenceState::Ground,
            (SequenceState::Csi, ' '..='?') => {
                if parameters.len() < MAX_PARAMETER_CHARS {
                    parameters.push(c);
                }
                SequenceState::Csi
            }
            (SequenceState::Csi, '@'..='~') => {
                self.apply(c, parameters, line);
                SequenceState::Ground
            }
            // A character that no sequence may contain ends the sequence.
            (SequenceState::Escape | SequenceState::Charset | SequenceState::Csi, _) => {
                self.step_ground(c, parameters, line)
            }
        }
    }

    fn step_ground(&self, c: char, parameters: &mut String, line: &mut LineCells) -> SequenceState {
        match c {
            '\r' => line.column = 0,
            '\x08' => line.column = line.column.saturating_sub(1),
            '\x0e' | '\x0f' | '\x07' | '\0' => {}
            '\u{9b}' => {
                parameters.clear();
                return SequenceState::Csi;
            }
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => return SequenceState::ControlString,
            '\u{80}'..='\u{9f}' => {}
            c => line.write(c, self.style),
        }
        SequenceState::Ground
    }

    /// Applies a complete control sequence. Those that do not concern the line have no effect.
    fn apply(&mut self, last: char, parameters: &str, line: &mut LineCells) {
        let first = || parameters.split(';').next().unwrap_or_default().parse::<usize>();
        match last {
            'm' => self.style.apply_parameters(parameters),
            'K' => match first() {
                Ok(1) => line.erase_left(),
                Ok(2) => line.cells.clear(),
                Ok(_) | Err(_) => line.cells.truncate(line.column),
            },
            'J' => line.cells.truncate(line.column),
            'G' => line.move_to(first().unwrap_or(1).saturating_sub(1)),
            'D' => line.move_to(line.column.saturating_sub(first().unwrap_or(1))),
            'C' => line.move_to(line.column.saturating_add(first().unwrap_or(1))),
            _ => {}
        }
    }
}

impl LineCells {
    fn write(&mut self, c: char, style: TextStyle) {
        // Erasing may have left the line shorter than the cursor's column.
        while self.cells.len() < self.column {
            self.cells.push((' ', TextStyle::default()));
        }
        match self.cells.get_mut(self.column) {
            Some(cell) => *cell = (c, style),
            None => self.cells.push((c, style)),
        }
        self.column += 1;
    }

    /// Moves the cursor, but not far beyond the text, so that a sequence cannot make a line long.
    fn move_to(&mut self, column: usize) {
        const MAX_BEYOND_TEXT: usize = 200;
        self.column = column.min(self.cells.len().saturating_add(MAX_BEYOND_TEXT));
    }

    fn erase_left(&mut self) {
        let end = self.column.saturating_add(1).min(self.cells.len());
        self.cells[..end].fill((' ', TextStyle::default()));
    }

    fn into_spans(self) -> Vec<StyledText> {
        self.cells
            .chunk_by(|one, other| one.1 == other.1)
            .map(|cells| {
                let text: String = cells.iter().map(|(c, _)| *c).collect();
                StyledText { text: make_visible(&text), style: cells[0].1 }
            })
            .collect()
    }
}

impl TextStyle {
    /// Returns whether text of this style needs no markup.
    pub(crate) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// Returns the classes of the style sheet, separated by spaces.
    pub(crate) fn classes(self) -> String {
        let mut names = Vec::new();
        // The style sheet has the default colors of an inverse part.
        let (foreground, background) = if self.inverse {
            names.push("inverse".to_owned());
            (self.background, self.foreground)
        } else {
            (self.foreground, self.background)
        };
        names.extend(foreground.map(|color| format!("f{color}")));
        names.extend(background.map(|color| format!("b{color}")));
        let flags = [
            (self.bold, "bold"),
            (self.dim, "dim"),
            (self.italic, "italic"),
            (self.underlined, "underlined"),
            (self.struck, "struck"),
        ];
        names
            .extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| (*name).to_owned()));
        names.join(" ")
    }

    fn apply_parameters(&mut self, parameters: &str) {
        // A private sequence, such as `CSI > 4 m`, is no style.
        if parameters.starts_with(['<', '=', '>', '?']) {
            return;
        }
        let mut numbers = parameters.split([';', ':']).map(|text| text.parse::<u16>().unwrap_or(0));
        while let Some(number) = numbers.next() {
            match number {
                0 => *self = Self::default(),
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 | 21 => self.underlined = true,
                7 => self.inverse = true,
                9 => self.struck = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.inverse = false,
                29 => self.struck = false,
                30..=37 => self.foreground = to_color(number - 30),
                38 => self.foreground = read_color(&mut numbers).or(self.foreground),
                39 => self.foreground = None,
                40..=47 => self.background = to_color(number - 40),
                48 => self.background = read_color(&mut numbers).or(self.background),
                49 => self.background = None,
                90..=97 => self.foreground = to_color(number - 82),
                100..=107 => self.background = to_color(number - 92),
                _ => {}
            }
        }
    }
}

fn to_color(number: u16) -> Option<u8> {
    u8::try_from(number).ok()
}

/// Reads the color after 38 or 48: `5;INDEX`, or `2;RED;GREEN;BLUE`, of which the nearest color of
/// the palette is returned.
fn read_color(numbers: &mut impl Iterator<Item = u16>) -> Option<u8> {
    match numbers.next()? {
        5 => to_color(numbers.next()?),
        2 => {
            let level = |value: u16| (value.min(255) * 5 + 127) / 255;
            let (red, green, blue) = (numbers.next()?, numbers.next()?, numbers.next()?);
            to_color(16 + 36 * level(red) + 6 * level(green) + level(blue))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(line: &str) -> Vec<StyledText> {
        LineRenderer::default().render(line.as_bytes())
    }

    fn plain_text(line: &str) -> String {
        render(line).into_iter().map(|span| span.text).collect()
    }

    #[test]
    fn colors_become_classes() {
        let spans = render("a\x1b[1;31mred\x1b[0m \x1b[38;5;208;48;2;255;255;255mx\x1b[39;49my");
        let shown: Vec<_> =
            spans.iter().map(|span| (span.text.as_str(), span.style.classes())).collect();
        let expected = [("a", ""), ("red", "f1 bold"), (" ", ""), ("x", "f208 b231"), ("y", "")];
        assert_eq!(shown, expected.map(|(text, classes)| (text, classes.to_owned())));
        assert_eq!(render("\x1b[7;32mi")[0].style.classes(), "inverse b2");
    }

    #[test]
    fn a_style_continues_on_the_next_line() {
        let mut renderer = LineRenderer::default();
        let _first = renderer.render(b"\x1b[32mgreen");
        assert_eq!(renderer.render(b"still")[0].style.foreground, Some(2));
    }

    #[test]
    fn a_progress_bar_shows_its_last_state() {
        for (line, shown) in [
            ("10%\r20%\r100%\r", "100%"),
            ("long text\r\x1b[Kshort", "short"),
            ("abc\x08\x08X", "aXc"),
            ("abc\x1b[2K\x1b[1Gnew", "new"),
            ("ab\x1b[3Cx", "ab   x"),
            ("abc\x1b[1K", "   "),
        ] {
            assert_eq!(plain_text(line), shown, "{line:?}");
        }
    }

    #[test]
    fn sequences_that_are_no_color_disappear() {
        for (line, shown) in [
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b]52;c;cGFzdGU=\x07x", "x"),
            ("\u{9d}0;title\u{9c}x\u{9b}31mred", "xred"),
            ("\x1bPq#0\x1b\\x", "x"),
            ("\x1b[?1049hx\x1b[6nx\x1b(0q", "xxq"),
            ("\x1b[12345678901234567890Cx\x1b[999999999999Gy", ""),
        ] {
            let text = plain_text(line);
            if !shown.is_empty() {
                assert_eq!(text, shown, "{line:?}");
            }
            assert!(text.len() < 500, "{}", text.len());
        }
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(plain_text("a\u{202e}b\tc"), "a\\u{202e}b\tc");
        let invalid = LineRenderer::default().render(b"a\xff\xfeb");
        assert_eq!(invalid[0].text, "a\u{fffd}\u{fffd}b");
    }

    proptest! {
        #[test]
        fn no_control_character_remains(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            // A line contains no newline.
            bytes.retain(|byte| *byte != b'\n');
            for span in LineRenderer::default().render(&bytes) {
                prop_assert!(!span.text.chars().any(|c| c.is_control() && c != '\t'), "{span:?}");
            }
        }
    }
}
