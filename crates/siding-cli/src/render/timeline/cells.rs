//! A line of characters with styles.

use siding_model::text::display_width;

use crate::render::color::{ColorMode, TextStyle};

/// The character in a cell that the wide character before it covers.
const COVERED: char = '\0';
/// A space of a text, which is not free.
const TEXT_SPACE: char = '\u{a0}';

/// A line of a fixed number of cells, each with a character and a style.
#[derive(Debug)]
pub(super) struct Cells(Vec<(char, Option<TextStyle>)>);

impl Cells {
    pub(super) fn new(columns: usize) -> Self {
        Self(vec![(' ', None); columns])
    }

    pub(super) fn set(&mut self, column: usize, character: char, style: Option<TextStyle>) {
        if let Some(cell) = self.0.get_mut(column) {
            *cell = (character, style);
        }
    }

    pub(super) fn write_if_free(
        &mut self,
        column: usize,
        character: char,
        style: Option<TextStyle>,
    ) {
        if self.is_free(column, column + 1) {
            self.set(column, character, style);
        }
    }

    /// Writes a text from a column on, as far as it fits. Combining marks are left out.
    pub(super) fn write(&mut self, column: usize, text: &str, style: Option<TextStyle>) {
        let mut at = column;
        for character in text.chars() {
            let width = display_width(character.encode_utf8(&mut [0; 4]));
            if width == 0 || at + width > self.0.len() {
                continue;
            }
            self.set(at, if character == ' ' { TEXT_SPACE } else { character }, style);
            (at + 1..at + width).for_each(|covered| self.set(covered, COVERED, style));
            at += width;
        }
    }

    /// Returns whether these cells exist and are empty. Cells beyond the end of the line do not
    /// exist.
    pub(super) fn is_free(&self, from: usize, to: usize) -> bool {
        self.0
            .get(from..to)
            .is_some_and(|cells| cells.iter().all(|(character, _)| *character == ' '))
    }

    /// Returns the line, with the escape sequences of the styles.
    pub(super) fn paint(&self, colors: ColorMode) -> String {
        let mut out = String::new();
        for run in self.0.chunk_by(|(_, one), (_, other)| one == other) {
            let shown = run.iter().map(|(character, _)| *character).filter(|c| *c != COVERED);
            let text: String = shown.map(|c| if c == TEXT_SPACE { ' ' } else { c }).collect();
            match run[0].1 {
                Some(style) => out.push_str(&colors.apply(style, &text)),
                None => out.push_str(&text),
            }
        }
        out
    }
}
