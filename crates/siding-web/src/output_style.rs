//! The colors and attributes of a task's output as classes of the style sheet.

use siding_model::text::{CharStyle, TextColor};

use crate::palette::is_readable_on;

/// Returns the classes for a style, separated by spaces; empty if the text needs no markup.
pub(crate) fn style_classes(style: CharStyle) -> String {
    let mut names = Vec::new();
    // The style sheet has the default colors of an inverse part.
    let (foreground, background) = if style.inverse {
        names.push("inverse".to_owned());
        (style.background, style.foreground)
    } else {
        (style.foreground, style.background)
    };
    let foreground = foreground.map(palette_index);
    let background = background.map(palette_index);
    names.extend(foreground.and_then(|color| foreground_class(color, background, style.inverse)));
    names.extend(background.map(|color| format!("b{color}")));
    let flags = [
        (style.bold, "bold"),
        (style.dim, "dim"),
        (style.italic, "italic"),
        (style.underlined, "underlined"),
        (style.struck, "struck"),
    ];
    names.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| (*name).to_owned()));
    names.join(" ")
}

/// Returns the class for the color of a text; `None` if the text has a background on which the color
/// may be unreadable. The text then has the color that its background sets.
fn foreground_class(color: u8, background: Option<u8>, is_inverse: bool) -> Option<String> {
    match background {
        None => (!is_inverse).then(|| format!("f{color}")),
        Some(background) => is_readable_on(color, background).then(|| format!("t{color}")),
    }
}

/// Returns the index of a color, or of the nearest color, in the palette of 256 colors.
fn palette_index(color: TextColor) -> u8 {
    match color {
        TextColor::Palette(index) => index,
        TextColor::Rgb(red, green, blue) => {
            // Colors 16 to 231 are a cube with six levels of each component.
            let level = |value: u8| (u16::from(value) * 5 + 127) / 255;
            let index = 16 + 36 * level(red) + 6 * level(green) + level(blue);
            u8::try_from(index).unwrap_or(u8::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::text::StyledLineParser;

    use super::*;

    #[test]
    fn colors_become_classes() {
        let output = b"a\x1b[1;31mred\x1b[0m \x1b[38;5;208;48;2;255;255;255mx\x1b[39;49my";
        let line = StyledLineParser::default().parse_line(output);
        let shown: Vec<_> =
            line.spans().map(|(text, style)| (text, style_classes(style))).collect();
        let expected = [("a", ""), ("red", "f1 bold"), (" ", ""), ("x", "b231"), ("y", "")];
        assert_eq!(shown, expected.map(|(text, classes)| (text, classes.to_owned())));
        let cases: [(&[u8], &str); 5] = [
            (b"\x1b[38;2;255;0;0mi", "f196"),
            (b"\x1b[38;5;196;48;5;16mi", "t196 b16"),
            (b"\x1b[37;41mi", "b1"),
            (b"\x1b[7;32mi", "inverse b2"),
            (b"\x1b[7;44mi", "inverse"),
        ];
        for (output, expected) in cases {
            let line = StyledLineParser::default().parse_line(output);
            assert_eq!(style_classes(line.styles[0].1), expected);
        }
    }
}
