//! The colors and attributes of text (SGR, ECMA-48 8.3.117).

/// A color that a task has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextColor {
    /// An index in the palette of 256 colors. The first 16 are the colors of the terminal's theme.
    Palette(u8),
    /// Amounts of red, green and blue.
    Rgb(u8, u8, u8),
}

/// The colors and attributes of a character. Blinking and concealed text are deliberately not
/// supported: concealed text could deceive a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CharStyle {
    /// The foreground; `None` for the default.
    pub foreground: Option<TextColor>,
    /// The background; `None` for the default.
    pub background: Option<TextColor>,
    /// Bold text.
    pub bold: bool,
    /// Text with less contrast.
    pub dim: bool,
    /// Italic text.
    pub italic: bool,
    /// Underlined text.
    pub underlined: bool,
    /// Foreground and background are exchanged.
    pub inverse: bool,
    /// Text that is crossed out.
    pub struck: bool,
}

impl CharStyle {
    /// Applies the parameters of a sequence `CSI … m`. An unknown parameter has no effect; after an
    /// incomplete color, the rest of the sequence has none.
    pub(super) fn apply_parameters(&mut self, parameters: &str) {
        // Private sequences, such as `CSI > 4 m`, are not styles.
        if !parameters.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b';' | b':')) {
            return;
        }
        let numbers: Vec<u16> = parameters
            .split([';', ':'])
            .map(|number| if number.is_empty() { 0 } else { number.parse().unwrap_or(u16::MAX) })
            .collect();
        let mut rest = numbers.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            match first {
                38 => rest = read_color(after, &mut self.foreground),
                48 => rest = read_color(after, &mut self.background),
                _ => self.apply_number(*first),
            }
        }
    }

    fn apply_number(&mut self, number: u16) {
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
            30..=37 => self.foreground = palette_color(number - 30),
            39 => self.foreground = None,
            40..=47 => self.background = palette_color(number - 40),
            49 => self.background = None,
            90..=97 => self.foreground = palette_color(number - 82),
            100..=107 => self.background = palette_color(number - 92),
            _ => {}
        }
    }
}

fn palette_color(index: u16) -> Option<TextColor> {
    u8::try_from(index).ok().map(TextColor::Palette)
}

/// Reads a color from the palette (`5;N`) or of red, green and blue (`2;R;G;B`), and returns the
/// remaining numbers; none if the color is incomplete or has another form.
fn read_color<'n>(numbers: &'n [u16], color: &mut Option<TextColor>) -> &'n [u16] {
    let byte = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    match numbers {
        [5, index, rest @ ..] => {
            *color = Some(TextColor::Palette(byte(*index)));
            rest
        }
        [2, red, green, blue, rest @ ..] => {
            *color = Some(TextColor::Rgb(byte(*red), byte(*green), byte(*blue)));
            rest
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(parameters: &str) -> CharStyle {
        let mut style = CharStyle::default();
        style.apply_parameters(parameters);
        style
    }

    #[test]
    fn colors_and_attributes_are_applied_in_order() {
        let plain = CharStyle::default();
        let palette = |index| Some(TextColor::Palette(index));
        assert_eq!(styled("31"), CharStyle { foreground: palette(1), ..plain });
        let white_on_black = CharStyle { foreground: palette(15), background: palette(0), ..plain };
        assert_eq!(styled("97;40"), white_on_black);
        assert_eq!(styled("38;5;208").foreground, palette(208));
        assert_eq!(styled("48;2;1;2;3;1").background, Some(TextColor::Rgb(1, 2, 3)));
        assert!(styled("48;2;1;2;3;1").bold);
        for parameters in ["1;31;0", "1;22", "", "?25", ">4;1", "38;9;1", "8"] {
            assert_eq!(styled(parameters), plain, "{parameters:?}");
        }
    }
}
