//! The colors and attributes of a task's output, in terms of the screen.

use ratatui_core::style::{Color, Modifier, Style};
use siding_model::text::{CharStyle, TextColor};

/// The first colors of the palette.
const BASE_COLORS: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// Converts the style of a character of the output.
pub(crate) fn to_screen_style(style: CharStyle) -> Style {
    let modifiers = [
        (style.bold, Modifier::BOLD),
        (style.dim, Modifier::DIM),
        (style.italic, Modifier::ITALIC),
        (style.underlined, Modifier::UNDERLINED),
        (style.inverse, Modifier::REVERSED),
        (style.struck, Modifier::CROSSED_OUT),
    ];
    let mut converted = Style::default();
    for (_, modifier) in modifiers.into_iter().filter(|(is_set, _)| *is_set) {
        converted = converted.add_modifier(modifier);
    }
    converted.fg = style.foreground.map(to_screen_color);
    converted.bg = style.background.map(to_screen_color);
    converted
}

fn to_screen_color(color: TextColor) -> Color {
    match color {
        TextColor::Palette(index) => {
            BASE_COLORS.get(usize::from(index)).copied().unwrap_or(Color::Indexed(index))
        }
        TextColor::Rgb(red, green, blue) => Color::Rgb(red, green, blue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_color_and_attribute_is_converted() {
        let plain = CharStyle::default();
        assert_eq!(to_screen_style(plain), Style::default());
        let red = CharStyle { foreground: Some(TextColor::Palette(1)), bold: true, ..plain };
        let expected = Style::default().fg(Color::Red).add_modifier(Modifier::BOLD);
        assert_eq!(to_screen_style(red), expected);
        let orange = CharStyle { background: Some(TextColor::Palette(208)), ..plain };
        assert_eq!(to_screen_style(orange), Style::default().bg(Color::Indexed(208)));
        let rgb = CharStyle { foreground: Some(TextColor::Rgb(1, 2, 3)), inverse: true, ..plain };
        let expected = Style::default().fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::REVERSED);
        assert_eq!(to_screen_style(rgb), expected);
    }
}
