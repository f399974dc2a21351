//! The JSON form of a screen.

use siding_model::id::TaskId;
use siding_model::task_view::{
    ScreenColors, ScreenCursorView, ScreenModesView, ScreenRun, ScreenView,
};
use siding_model::terminal::MouseMode;
use siding_model::text::{CharStyle, TextColor};

use crate::screen::{Screen, StyledRun};

/// Whether the JSON form of a screen contains colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorDetail {
    /// Only the text.
    Text,
    /// Also the runs of characters with their colors and attributes.
    Runs,
}

impl Screen {
    /// Returns the JSON form of the screen of a task after the output before `offset`. `has_ended`:
    /// whether the task has ended. `is_incomplete`: whether a part of the output was missing.
    #[must_use]
    pub fn to_view(
        &self,
        task_id: TaskId,
        offset: u64,
        has_ended: bool,
        is_incomplete: bool,
        colors: ColorDetail,
    ) -> ScreenView {
        let (cursor, modes) = (self.cursor(), self.modes());
        ScreenView {
            task_id,
            offset,
            size: self.size(),
            rows: self.rows().map(str::to_owned).collect(),
            cursor: ScreenCursorView {
                row: cursor.row,
                column: cursor.column,
                visible: cursor.visible,
            },
            title: self.title().map(str::to_owned),
            alternate: self.is_alternate(),
            modes: ScreenModesView {
                application_cursor: modes.application_cursor,
                application_keypad: modes.application_keypad,
                bracketed_paste: modes.bracketed_paste,
                mouse: modes.mouse != MouseMode::Off,
            },
            hash: self.content_hash(),
            ended: has_ended,
            incomplete: is_incomplete,
            colors: match colors {
                ColorDetail::Text => None,
                ColorDetail::Runs => Some(self.run_views()),
            },
        }
    }

    fn run_views(&self) -> Vec<Vec<ScreenRun>> {
        (0..self.rows().len()).map(|row| self.runs(row).iter().map(run_view).collect()).collect()
    }
}

fn run_view(run: &StyledRun) -> ScreenRun {
    let CharStyle { foreground, background, bold, dim, italic, underlined, inverse, struck: _ } =
        run.style;
    ScreenRun {
        column: run.column,
        text: run.text.clone(),
        style: ScreenColors {
            foreground: foreground.map(format_color),
            background: background.map(format_color),
            bold,
            dim,
            italic,
            underlined,
            inverse,
        },
    }
}

fn format_color(color: TextColor) -> String {
    match color {
        TextColor::Palette(index) => index.to_string(),
        TextColor::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
    }
}
