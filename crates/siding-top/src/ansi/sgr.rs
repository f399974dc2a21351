//! The control sequence that sets colors and text attributes (SGR, ECMA-48 8.3.117).

use ratatui_core::style::{Color, Modifier, Style};

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

/// Applies the parameters of a sequence to a style. Unknown parameters have no effect. Blinking and
/// hidden text are not supported on purpose: hidden text could deceive a reader.
pub(super) fn apply(style: &mut Style, parameters: &str) {
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
            38 => rest = extended_color(after, |color| style.fg = Some(color)),
            48 => rest = extended_color(after, |color| style.bg = Some(color)),
            _ => apply_number(style, *first),
        }
    }
}

fn apply_number(style: &mut Style, number: u16) {
    match number {
        0 => *style = Style::default(),
        1 => *style = style.add_modifier(Modifier::BOLD),
        2 => *style = style.add_modifier(Modifier::DIM),
        3 => *style = style.add_modifier(Modifier::ITALIC),
        4 => *style = style.add_modifier(Modifier::UNDERLINED),
        7 => *style = style.add_modifier(Modifier::REVERSED),
        9 => *style = style.add_modifier(Modifier::CROSSED_OUT),
        22 => *style = remove(*style, Modifier::BOLD | Modifier::DIM),
        23 => *style = remove(*style, Modifier::ITALIC),
        24 => *style = remove(*style, Modifier::UNDERLINED),
        27 => *style = remove(*style, Modifier::REVERSED),
        29 => *style = remove(*style, Modifier::CROSSED_OUT),
        30..=37 => style.fg = Some(BASE_COLORS[usize::from(number - 30)]),
        39 => style.fg = None,
        40..=47 => style.bg = Some(BASE_COLORS[usize::from(number - 40)]),
        49 => style.bg = None,
        90..=97 => style.fg = Some(BASE_COLORS[usize::from(number - 82)]),
        100..=107 => style.bg = Some(BASE_COLORS[usize::from(number - 92)]),
        _ => {}
    }
}

/// Removes attributes without recording their absence, so that equal styles compare as equal.
fn remove(mut style: Style, modifiers: Modifier) -> Style {
    style.add_modifier -= modifiers;
    style
}

/// Reads a color from a palette (`5;N`) or of red, green and blue (`2;R;G;B`), and returns the
/// remaining numbers.
fn extended_color(numbers: &[u16], set: impl FnOnce(Color)) -> &[u16] {
    let byte = |number: u16| u8::try_from(number).unwrap_or(u8::MAX);
    match numbers {
        [5, index, rest @ ..] => {
            set(Color::Indexed(byte(*index)));
            rest
        }
        [2, red, green, blue, rest @ ..] => {
            set(Color::Rgb(byte(*red), byte(*green), byte(*blue)));
            rest
        }
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styled(parameters: &str) -> Style {
        let mut style = Style::default();
        apply(&mut style, parameters);
        style
    }

    #[test]
    fn colors_and_attributes_are_applied_in_order() {
        assert_eq!(styled("31"), Style::default().fg(Color::Red));
        assert_eq!(styled("97;40"), Style::default().fg(Color::White).bg(Color::Black));
        assert_eq!(styled("38;5;208"), Style::default().fg(Color::Indexed(208)));
        assert_eq!(styled("48;2;1;2;3;1").bg, Some(Color::Rgb(1, 2, 3)));
        assert_eq!(styled("1;31;0"), Style::default());
        assert_eq!(styled("1;22"), Style::default());
        assert_eq!(styled(""), Style::default());
        assert_eq!(styled("?25"), Style::default());
        assert_eq!(styled("38;9;1"), Style::default());
    }
}
