//! Replaces the symbols in siding's lines about omitted or repeated output, for a terminal without
//! UTF-8.

use std::borrow::Cow;
use std::io;

use siding_model::text::CharacterSet;

use crate::terminal;

/// The start of such a line. If a task prints such a line, its symbols are replaced too.
const MARKER_START: &str = "… ";

/// Replaces symbols in the parts of a text. All other characters of the task remain unchanged.
#[derive(Debug)]
pub(super) struct MarkerSymbols {
    characters: CharacterSet,
    /// Whether the next part begins at the start of a line.
    is_line_start: bool,
}

impl MarkerSymbols {
    /// Returns a converter for a text on standard output.
    pub(super) fn for_stdout() -> Self {
        Self::new(terminal::stream_character_set(&io::stdout()))
    }

    const fn new(characters: CharacterSet) -> Self {
        Self { characters, is_line_start: true }
    }

    /// Converts the next part of the text.
    pub(super) fn convert<'t>(&mut self, part: &'t str) -> Cow<'t, str> {
        let mut is_line_start = self.is_line_start;
        if !part.is_empty() {
            self.is_line_start = part.ends_with('\n');
        }
        if self.characters == CharacterSet::Unicode || part.is_ascii() {
            return Cow::Borrowed(part);
        }
        let mut text = String::with_capacity(part.len());
        for line in part.split_inclusive('\n') {
            if is_line_start && line.starts_with(MARKER_START) {
                text.push_str(&self.characters.replace_symbols(line));
            } else {
                text.push_str(line);
            }
            is_line_start = true;
        }
        Cow::Owned(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_symbols_of_marker_lines_are_replaced() {
        let convert = |characters, parts: [&str; 3]| {
            let mut symbols = MarkerSymbols::new(characters);
            parts.map(|part| symbols.convert(part).into_owned()).concat()
        };
        let parts = ["… 3 lines left out …\nwait…\n… re", "ady\nend", "… of it\n"];
        assert_eq!(convert(CharacterSet::Unicode, parts), parts.concat());
        let expected = "~ 3 lines left out ~\nwait…\n~ ready\nend… of it\n";
        assert_eq!(convert(CharacterSet::Ascii, parts), expected);
    }
}
