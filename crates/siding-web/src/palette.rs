//! The colors 16 to 255 of a task's output, made readable on the pages.

/// The red, green and blue of a color.
type Rgb = (u8, u8, u8);

/// Contrast of text with its background that WCAG 2 requires at level AA.
const MIN_CONTRAST: f64 = 4.5;
/// Number of steps from a color to the text color of the page.
const MIX_STEPS: u32 = 16;

/// The colors of the output's lines in one color scheme, as in style.css.
struct Scheme {
    /// `--raised`, the background of a marked line. A color that is readable on it is also readable
    /// on the other lines.
    background: Rgb,
    /// `--text`.
    text: Rgb,
}

const LIGHT: Scheme = Scheme { background: (0xf3, 0xf5, 0xf7), text: (0x1c, 0x21, 0x28) };
const DARK: Scheme = Scheme { background: (0x16, 0x1b, 0x22), text: (0xe6, 0xed, 0xf3) };

/// Returns the style sheet of the colors 16 to 255. The first 16 colors are in style.css, because
/// they differ between light and dark pages.
///
/// An `f` class is for text on the page: the color is mixed with the text color of the page until it
/// is readable. A `b` class is a background with a readable text color, and a `t` class is the
/// unchanged color for text on such a background.
pub(crate) fn style_sheet() -> String {
    let mut sheet = String::new();
    for number in 16..=255 {
        let color = palette_color(number);
        let background = format_rgb(color);
        let text = format_rgb(text_color(color));
        sheet += &format!(".b{number}{{background-color:{background};color:{text}}}\n");
    }
    for number in 16..=255 {
        let color = palette_color(number);
        sheet += &format!(".t{number}{{color:{}}}\n", format_rgb(color));
        sheet += &format!(".f{number}{{color:{}}}\n", format_rgb(readable_color(color, &LIGHT)));
    }
    sheet += "@media (prefers-color-scheme: dark) {\n";
    for number in 16..=255 {
        let color = readable_color(palette_color(number), &DARK);
        sheet += &format!(".f{number}{{color:{}}}\n", format_rgb(color));
    }
    sheet + "}\n"
}

fn format_rgb((red, green, blue): Rgb) -> String {
    format!("rgb({red} {green} {blue})")
}

/// Returns whether text with a color is readable on a background. Both are colors from 16 to 255;
/// the first 16 depend on the color scheme of the page.
pub(crate) fn is_readable_on(text: u8, background: u8) -> bool {
    text >= 16
        && background >= 16
        && contrast(palette_color(text), palette_color(background)) >= MIN_CONTRAST
}

/// Returns black or white, whichever has more contrast with a background.
fn text_color(background: Rgb) -> Rgb {
    const BLACK: Rgb = (0, 0, 0);
    const WHITE: Rgb = (255, 255, 255);
    if contrast(BLACK, background) >= contrast(WHITE, background) { BLACK } else { WHITE }
}

/// Returns the first readable color on the way from `color` to the text color of the page.
fn readable_color(color: Rgb, scheme: &Scheme) -> Rgb {
    let channel = |own: u8, text: u8, step: u32| {
        let mixed = u32::from(own) * (MIX_STEPS - step) + u32::from(text) * step;
        u8::try_from(mixed / MIX_STEPS).unwrap_or(text)
    };
    let text = scheme.text;
    (0..MIX_STEPS)
        .map(|step| {
            (
                channel(color.0, text.0, step),
                channel(color.1, text.1, step),
                channel(color.2, text.2, step),
            )
        })
        .find(|mixed| contrast(*mixed, scheme.background) >= MIN_CONTRAST)
        .unwrap_or(text)
}

/// Returns the contrast ratio of WCAG 2, from 1 to 21.
fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Returns the relative luminance of WCAG 2.
fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |channel: u8| {
        let channel = f64::from(channel) / 255.0;
        if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// Returns a color from 16 to 255: a cube of 6 levels, then 24 grays.
const fn palette_color(color: u8) -> Rgb {
    if color >= 232 {
        let gray = 8 + (color - 232) * 10;
        return (gray, gray, gray);
    }
    let index = color.saturating_sub(16);
    (cube_level(index / 36), cube_level(index / 6 % 6), cube_level(index % 6))
}

const fn cube_level(step: u8) -> u8 {
    if step == 0 { 0 } else { 55 + 40 * step }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const STYLE: &str = include_str!("../assets/style.css");

    #[test]
    fn the_palette_is_that_of_xterm() {
        assert_eq!(palette_color(16), (0, 0, 0));
        assert_eq!(palette_color(208), (255, 135, 0));
        assert_eq!(palette_color(231), (255, 255, 255));
        assert_eq!(palette_color(255), (238, 238, 238));
    }

    /// Returns the colors of each `:root` rule by name, first those of the light scheme.
    fn root_colors() -> Vec<BTreeMap<&'static str, Rgb>> {
        let channel =
            |hex: &str, at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        let color = |hex: &str| (channel(hex, 0), channel(hex, 2), channel(hex, 4));
        let parse = |rule: &'static str| {
            let rule = rule.split('}').next().unwrap_or_default();
            let declarations = rule.split(';').filter_map(|line| line.trim().split_once(": #"));
            declarations.map(|(name, hex)| (name, color(hex))).collect()
        };
        STYLE.split(":root {").skip(1).map(parse).collect()
    }

    /// Text has the contrast of level AA on each background on which it appears.
    #[test]
    fn colors_have_the_contrast_of_aa_in_both_schemes() {
        let rules = root_colors();
        assert_eq!(rules.len(), 2, "a light and a dark scheme");
        let mut pairs: Vec<(String, &str)> = Vec::new();
        for background in ["--page", "--raised", "--code"] {
            for text in ["--text", "--faint", "--link", "--good", "--bad", "--busy", "--warn"] {
                pairs.push((text.to_owned(), background));
            }
        }
        // A marked line of the output has the background `--raised`.
        for background in ["--code", "--raised"] {
            pairs.extend((0..16).map(|number| (format!("--c{number}"), background)));
        }
        for (colors, scheme) in rules.iter().zip(["light", "dark"]) {
            for (text, background) in &pairs {
                let found = contrast(colors[text.as_str()], colors[background]);
                assert!(found >= MIN_CONTRAST, "{scheme}: {text} on {background} has {found:.2}");
            }
        }
    }

    #[test]
    fn every_palette_color_is_readable_on_the_lines_of_the_output() {
        for (colors, scheme) in root_colors().iter().zip([LIGHT, DARK]) {
            assert_eq!((colors["--raised"], colors["--text"]), (scheme.background, scheme.text));
            for number in 16..=255 {
                let shown = readable_color(palette_color(number), &scheme);
                for background in [colors["--code"], colors["--raised"]] {
                    assert!(contrast(shown, background) >= MIN_CONTRAST, "{number}: {shown:?}");
                }
            }
        }
        assert_eq!(readable_color((0, 0, 0), &LIGHT), (0, 0, 0), "readable colors are unchanged");
        let orange = readable_color(palette_color(208), &LIGHT);
        assert!(orange.0 > orange.1 && orange.1 > orange.2, "the hue remains: {orange:?}");
    }

    #[test]
    fn every_background_has_readable_text() {
        for number in 16..=255 {
            let background = palette_color(number);
            assert!(contrast(text_color(background), background) >= MIN_CONTRAST, "{number}");
        }
        assert!(is_readable_on(196, 16) && !is_readable_on(208, 231) && !is_readable_on(1, 231));
    }
}
