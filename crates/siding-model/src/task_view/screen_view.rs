//! The JSON form of the screen of a task's terminal.

use serde::Serialize;

use crate::id::TaskId;
use crate::terminal::TerminalSize;

/// The screen of a task with a terminal, as printed by `siding screen --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "screen"))]
pub struct ScreenView {
    /// Id of the task.
    pub task_id: TaskId,
    /// The screen shows the output before this offset, in bytes.
    pub offset: u64,
    /// Size of the terminal at this offset.
    pub size: TerminalSize,
    /// Text of each row, from the top, without blanks at the end.
    pub rows: Vec<String>,
    /// The cursor.
    pub cursor: ScreenCursorView,
    /// The title that the task has set; null if it has set none.
    pub title: Option<String>,
    /// Whether the task shows the alternate screen, as full-screen programs do.
    pub alternate: bool,
    /// The modes that determine how keys are encoded.
    pub modes: ScreenModesView,
    /// Hash of the size, the rows, the cursor and `alternate`: 16 hexadecimal digits. `siding keys
    /// --if-screen` accepts it.
    pub hash: String,
    /// Whether the task has ended, so that the screen no longer changes.
    pub ended: bool,
    /// Whether a part of the output before the offset is no longer stored. The screen was then
    /// computed from the output after this part, and may lack text.
    pub incomplete: bool,
    /// For each row, its runs of characters with the same colors and attributes, without blanks at
    /// the end. Absent unless colors were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub colors: Option<Vec<Vec<ScreenRun>>>,
}

/// The cursor of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenCursorView {
    /// Row, from 0: the index in `rows`.
    pub row: u16,
    /// Column, from 0. A wide character takes two columns.
    pub column: u16,
    /// Whether the task shows the cursor.
    pub visible: bool,
}

/// The modes of a terminal that determine how keys are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenModesView {
    /// Whether the cursor keys send application sequences.
    pub application_cursor: bool,
    /// Whether the keypad sends application sequences.
    pub application_keypad: bool,
    /// Whether pasted text is marked as such.
    pub bracketed_paste: bool,
    /// Whether the task receives events of the mouse.
    pub mouse: bool,
}

/// Neighboring characters of a row with the same colors and attributes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenRun {
    /// Column of the first character, from 0.
    pub column: u16,
    /// The characters; spaces for blank cells.
    pub text: String,
    /// The colors and attributes.
    #[serde(flatten)]
    pub style: ScreenColors,
}

/// The colors and attributes of characters. Attributes that are not set are absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScreenColors {
    /// Index in the palette of 256 colors, as in `1`, or amounts of red, green and blue, as in
    /// `#ff8000`; absent for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreground: Option<String>,
    /// The background, in the same form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Bold text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bold: bool,
    /// Text with less contrast.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dim: bool,
    /// Italic text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub italic: bool,
    /// Underlined text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub underlined: bool,
    /// Foreground and background are exchanged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inverse: bool,
}
