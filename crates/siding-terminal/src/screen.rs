//! The screen of a terminal at one moment.

use std::fmt::Write as _;

use siding_model::fnv::Fnv1a;
use siding_model::terminal::{InputModes, MouseMode, ScreenHash, TerminalSize};
use siding_model::text::CharStyle;

use crate::interpreter::{ControlState, Interpreter, REPLACEMENT_STAND_IN};
use crate::restore;
use crate::style::{cell_style, pen_style, push_style};

/// The shape of the cursor that the task has chosen (DECSCUSR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CursorShape {
    /// The terminal's own shape, as the task has not chosen one.
    #[default]
    Default,
    /// A block that covers the cell.
    Block,
    /// A line below the cell.
    Underline,
    /// A line to the left of the cell.
    Bar,
}

/// The cursor of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScreenCursor {
    /// The row, from 0.
    pub row: u16,
    /// The column, from 0. The cursor is in the last column even if the next character wraps.
    pub column: u16,
    /// Whether the task shows the cursor.
    pub visible: bool,
    /// The shape.
    pub shape: CursorShape,
}

/// Neighboring characters of a row with the same style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledRun {
    /// The column of the first character, from 0.
    pub column: u16,
    /// The characters; spaces for blank cells.
    pub text: String,
    /// The colors and attributes.
    pub style: CharStyle,
}

/// One row of cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScreenRow {
    /// The text without blanks at the end.
    text: String,
    /// The number of columns of `text`.
    text_columns: u16,
    /// For each column of the row, the offset in the text, even for columns beyond the end of the
    /// text.
    offsets: Vec<usize>,
    runs: Vec<StyledRun>,
}

impl ScreenRow {
    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

/// The screen of a terminal: what a person would see, and the modes that determine how keys are
/// encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    size: TerminalSize,
    rows: Vec<ScreenRow>,
    cursor: ScreenCursor,
    title: String,
    is_alternate: bool,
    modes: InputModes,
    state: String,
}

impl Screen {
    pub(crate) fn read(interpreter: &Interpreter) -> Self {
        let grid = interpreter.grid();
        let size = interpreter.size();
        let (row, column) = grid.cursor_position();
        Self {
            size,
            rows: (0..size.rows).map(|row| read_row(grid, row, size.columns)).collect(),
            cursor: ScreenCursor {
                row,
                column: column.min(size.columns - 1),
                visible: !grid.hide_cursor(),
                shape: cursor_shape(grid.cursor_style()),
            },
            title: interpreter.control().title.clone(),
            is_alternate: grid.alternate_screen(),
            modes: input_modes(grid),
            state: format_state(grid, interpreter.control()),
        }
    }

    /// Returns the size.
    #[must_use]
    pub const fn size(&self) -> TerminalSize {
        self.size
    }

    /// Returns the text of each row, without blanks at the end.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        self.rows.iter().map(|row| row.text.as_str())
    }

    /// Returns the text of a row, from 0; empty below the screen.
    #[must_use]
    pub fn row(&self, row: usize) -> &str {
        self.rows.get(row).map_or("", |row| row.text.as_str())
    }

    /// Returns a row, from 0, as runs of the same style, without blanks at the end; none below the
    /// screen.
    #[must_use]
    pub fn runs(&self, row: usize) -> &[StyledRun] {
        self.rows.get(row).map_or(&[][..], |row| row.runs.as_slice())
    }

    /// Returns the text of a row with `mark` in front of the character in a column, from 0. Blanks
    /// are added if the text is shorter.
    #[must_use]
    pub fn marked_row(&self, row: usize, column: u16, mark: char) -> String {
        let Some(row) = self.rows.get(row) else { return String::new() };
        let mut text = row.text.clone();
        match row.offsets.get(usize::from(column)) {
            Some(offset) if column < row.text_columns => text.insert(*offset, mark),
            _ => {
                let blanks = usize::from(column.saturating_sub(row.text_columns));
                text.extend(std::iter::repeat_n(' ', blanks));
                text.push(mark);
            }
        }
        text
    }

    /// Returns the cursor.
    #[must_use]
    pub const fn cursor(&self) -> ScreenCursor {
        self.cursor
    }

    /// Returns the title that the task has set, without control characters.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        (!self.title.is_empty()).then_some(self.title.as_str())
    }

    /// Returns whether the task shows the alternate screen, as full-screen programs do.
    #[must_use]
    pub const fn is_alternate(&self) -> bool {
        self.is_alternate
    }

    /// Returns the modes that determine how keys are encoded.
    #[must_use]
    pub const fn modes(&self) -> InputModes {
        self.modes
    }

    /// Returns the hash of the visible state as 16 hexadecimal digits: of the size, the rows, the
    /// cursor, and the choice of the alternate screen. Colors and the title are not included.
    /// All builds of siding compute the same hash.
    #[must_use]
    pub fn content_hash(&self) -> String {
        let ScreenCursor { row, column, visible, shape: _ } = self.cursor;
        let facts = format!("{} {row} {column} {visible} {}\n", self.size, self.is_alternate);
        let hash = Fnv1a::default().with_bytes(facts.as_bytes());
        let with_row = |hash: Fnv1a, row: &str| hash.with_bytes(row.as_bytes()).with_bytes(b"\n");
        self.rows().fold(hash, with_row).to_hex()
    }

    /// Returns the first digits of the hash, by which a caller may name the screen.
    #[must_use]
    pub fn short_hash(&self) -> String {
        let mut hash = self.content_hash();
        hash.truncate(ScreenHash::MIN_DIGITS);
        hash
    }

    /// Returns bytes that show this screen on a terminal of the same size, and set its modes so
    /// that the later output of the task has the same effect there. The scroll-back is not
    /// included; [`Emulator::scrollback_bytes`](crate::Emulator::scrollback_bytes) draws it.
    #[must_use]
    pub const fn state_bytes(&self) -> &[u8] {
        self.state.as_bytes()
    }
}

/// Reads a row of `grid`, which may be scrolled back.
pub(crate) fn read_row(grid: &vt100::Screen, row: u16, columns: u16) -> ScreenRow {
    let mut text = String::new();
    let mut text_end = (0, 0);
    let mut offsets = Vec::with_capacity(usize::from(columns));
    let mut runs: Vec<StyledRun> = Vec::new();
    let mut column = 0;
    while column < columns {
        let start = text.len();
        let cell = grid.cell(row, column);
        let is_wide = cell.is_some_and(vt100::Cell::is_wide);
        let style = cell.map(cell_style).unwrap_or_default();
        match cell.map(vt100::Cell::contents) {
            None | Some("") => text.push(' '),
            Some(contents) => text.extend(contents.chars().map(shown_character)),
        }
        let width = if is_wide { 2 } else { 1 };
        offsets.extend(std::iter::repeat_n(start, usize::from(width)));
        let shown = &text[start..];
        if shown != " " {
            text_end = (text.len(), (column + width).min(columns));
        }
        match runs.last_mut() {
            Some(run) if run.style == style => run.text.push_str(shown),
            _ => runs.push(StyledRun { column, text: shown.to_owned(), style }),
        }
        column += width;
    }
    text.truncate(text_end.0);
    trim_runs(&mut runs);
    ScreenRow { text, text_columns: text_end.1, offsets, runs }
}

/// Returns the character that a stored character represents.
const fn shown_character(c: char) -> char {
    if c == REPLACEMENT_STAND_IN { '\u{fffd}' } else { c }
}

/// Removes blanks without style from the end.
fn trim_runs(runs: &mut Vec<StyledRun>) {
    if let Some(last) = runs.last_mut()
        && last.style == CharStyle::default()
    {
        let length = last.text.trim_end_matches(' ').len();
        last.text.truncate(length);
        if length == 0 {
            runs.pop();
        }
    }
}

const fn cursor_shape(style: vt100::CursorStyle) -> CursorShape {
    match style {
        vt100::CursorStyle::Default => CursorShape::Default,
        vt100::CursorStyle::BlinkBlock | vt100::CursorStyle::SteadyBlock => CursorShape::Block,
        vt100::CursorStyle::BlinkUnderline | vt100::CursorStyle::SteadyUnderline => {
            CursorShape::Underline
        }
        vt100::CursorStyle::BlinkVerticalBar | vt100::CursorStyle::SteadyVerticalBar => {
            CursorShape::Bar
        }
    }
}

/// Formats the sequences of [`Screen::state_bytes`].
fn format_state(grid: &vt100::Screen, control: &ControlState) -> String {
    let mut out = String::new();
    out.push_str(if grid.alternate_screen() { "\x1b[?1049h" } else { "\x1b[?1049l" });
    // The earlier state of a real terminal is unknown.
    out.push_str("\x1b[r\x1b[?6l\x1b[4l\x1b[?7h\x1b(B\x1b)B\x0f\x1b[0m\x1b[H\x1b[2J");
    let mut pen = CharStyle::default();
    restore::push_rows(grid, &mut pen, &mut out);
    restore::push_margins(control.margins, &mut out);
    let saved = &control.saved_cursors[usize::from(grid.alternate_screen())];
    restore::push_position(saved.row, saved.column, &mut out);
    let _writing_to_string = write!(out, "\x1b[0m{}\x1b7\x1b[0m", saved.pen);
    pen = CharStyle::default();
    let origin = if control.origin_mode {
        out.push_str("\x1b[?6h");
        control.margins.map_or(0, |(top, _)| top)
    } else {
        0
    };
    restore::push_cursor(grid, origin, &mut pen, &mut out);
    push_style(&pen_style(grid), &mut out);
    for (intermediate, charset) in ['(', ')'].into_iter().zip(control.charsets) {
        let _writing_to_string = write!(out, "\x1b{intermediate}{}", charset.designator());
    }
    for (is_on, sequence) in [
        (control.is_shifted, "\x0e"),
        (control.insert_mode, "\x1b[4h"),
        (control.stays_at_margin, "\x1b[?7l"),
        (grid.hide_cursor(), "\x1b[?25l"),
        (!grid.hide_cursor(), "\x1b[?25h"),
    ] {
        if is_on {
            out.push_str(sequence);
        }
    }
    out.push_str(&grid.input_mode_formatted());
    // Only cells contain the stand-in; a title may contain the character itself.
    let mut out = out.replace(REPLACEMENT_STAND_IN, "\u{fffd}");
    if !control.title.is_empty() {
        let _writing_to_string = write!(out, "\x1b]2;{}\x07", control.title);
    }
    out
}

fn input_modes(grid: &vt100::Screen) -> InputModes {
    InputModes {
        application_cursor: grid.application_cursor(),
        application_keypad: grid.application_keypad(),
        bracketed_paste: grid.bracketed_paste(),
        mouse: mouse_mode(grid),
        sgr_mouse: grid.mouse_protocol_encoding() == vt100::MouseProtocolEncoding::Sgr,
    }
}

fn mouse_mode(grid: &vt100::Screen) -> MouseMode {
    match grid.mouse_protocol_mode() {
        vt100::MouseProtocolMode::None => MouseMode::Off,
        vt100::MouseProtocolMode::Press | vt100::MouseProtocolMode::PressRelease => {
            MouseMode::Click
        }
        vt100::MouseProtocolMode::ButtonMotion => MouseMode::Drag,
        vt100::MouseProtocolMode::AnyMotion => MouseMode::Motion,
    }
}
