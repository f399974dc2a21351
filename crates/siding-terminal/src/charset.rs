//! The character sets that a terminal can select (ISO 2022).

use serde::{Deserialize, Serialize};

/// The characters of the DEC special graphics set for the bytes from 0x60 to 0x7e.
const DRAWING_CHARACTERS: [char; 31] = [
    '◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼',
    '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
];

/// A character set. Sets other than the drawing characters are treated as ASCII, because output is
/// UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Charset {
    #[default]
    Ascii,
    /// DEC special graphics: boxes are drawn with the letters `lqkx`.
    Drawing,
}

impl Charset {
    /// Returns the set that the last byte of `ESC ( …` designates.
    pub(crate) const fn from_designator(byte: u8) -> Self {
        if byte == b'0' { Self::Drawing } else { Self::Ascii }
    }

    /// Returns the last byte of `ESC ( …` that designates the set.
    pub(crate) const fn designator(self) -> char {
        match self {
            Self::Ascii => 'B',
            Self::Drawing => '0',
        }
    }

    /// Returns the character that this set shows for `c`.
    pub(crate) fn translate(self, c: char) -> char {
        match self {
            Self::Ascii => c,
            Self::Drawing => {
                let index = u32::from(c).checked_sub(0x60).and_then(|i| usize::try_from(i).ok());
                index.and_then(|index| DRAWING_CHARACTERS.get(index)).copied().unwrap_or(c)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_set_replaces_only_the_graphic_letters() {
        let draw =
            |text: &str| text.chars().map(|c| Charset::Drawing.translate(c)).collect::<String>();
        assert_eq!(draw("lqkx"), "┌─┐│");
        assert_eq!(draw("A1_~é"), "A1_·é");
        assert_eq!(Charset::Ascii.translate('q'), 'q');
        assert_eq!(Charset::from_designator(Charset::Drawing.designator() as u8), Charset::Drawing);
    }
}
