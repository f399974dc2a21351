//! The files of the page, which are part of the program.

use std::fmt::Write as _;

use http::{Response, StatusCode};
use siding_http::ResponseBody;

use crate::{page, response};

/// Name of the generated style sheet with the palette of 256 colors.
const PALETTE_NAME: &str = "palette.css";
/// Name of the style sheet for the timeline, whose picture siding-model draws.
const TIMELINE_NAME: &str = "timeline.css";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The files by name, each with its type.
const FILES: [(&str, &str, &str); 6] = [
    ("style.css", CSS, include_str!("../assets/style.css")),
    ("page.js", JAVASCRIPT, include_str!("../assets/page.js")),
    ("output.js", JAVASCRIPT, include_str!("../assets/output.js")),
    ("usage.js", JAVASCRIPT, include_str!("../assets/usage.js")),
    ("act.js", JAVASCRIPT, include_str!("../assets/act.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Returns a file of the page.
pub(crate) fn respond(name: &str) -> Response<ResponseBody> {
    if name == PALETTE_NAME {
        return response::with_type(StatusCode::OK, CSS, palette());
    }
    if name == TIMELINE_NAME {
        return response::with_type(StatusCode::OK, CSS, page::timeline_style_sheet());
    }
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => response::with_type(StatusCode::OK, kind, *text),
        None => page::failure(StatusCode::NOT_FOUND, false),
    }
}

/// Returns a style sheet with the classes `f16` to `f255` and `b16` to `b255`. The first 16 colors
/// are in style.css, because they differ between light and dark pages. A background also sets a
/// readable foreground, unless the text has one of its own.
fn palette() -> String {
    let mut sheet = String::new();
    for color in 16..=255 {
        let (red, green, blue) = palette_color(color);
        let text = if is_bright((red, green, blue)) { "black" } else { "white" };
        let _writing_to_string =
            writeln!(sheet, ".b{color}{{background-color:rgb({red} {green} {blue});color:{text}}}");
    }
    for color in 16..=255 {
        let (red, green, blue) = palette_color(color);
        let _writing_to_string = writeln!(sheet, ".f{color}{{color:rgb({red} {green} {blue})}}");
    }
    sheet
}

/// Returns whether black text is more readable on a color than white text.
const fn is_bright((red, green, blue): (u8, u8, u8)) -> bool {
    // The weights of the perceived brightness, in thousandths.
    red as u32 * 299 + green as u32 * 587 + blue as u32 * 114 > 128_000
}

/// Returns the red, green and blue of a color from 16 to 255: a cube of 6 levels, then 24 grays.
const fn palette_color(color: u8) -> (u8, u8, u8) {
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

    #[test]
    fn the_palette_is_that_of_xterm() {
        assert_eq!(palette_color(16), (0, 0, 0));
        assert_eq!(palette_color(208), (255, 135, 0));
        assert_eq!(palette_color(231), (255, 255, 255));
        assert_eq!(palette_color(255), (238, 238, 238));
        assert!(is_bright(palette_color(231)) && !is_bright(palette_color(24)));
    }

    /// Returns the colors of a `:root` rule by name.
    fn parse_colors(rule: &str) -> BTreeMap<&str, [f64; 3]> {
        let rule = rule.split('}').next().unwrap_or_default();
        let declarations = rule.split(';').filter_map(|line| line.trim().split_once(": #"));
        let channel = |hex: &str, at: usize| {
            f64::from(u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits")) / 255.0
        };
        declarations
            .map(|(name, hex)| (name, [channel(hex, 0), channel(hex, 2), channel(hex, 4)]))
            .collect()
    }

    /// Returns the relative luminance of WCAG 2.
    fn luminance(color: [f64; 3]) -> f64 {
        let linear = |channel: f64| {
            if channel <= 0.04045 { channel / 12.92 } else { ((channel + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2])
    }

    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// Text has the contrast of level AA on each background on which it appears.
    #[test]
    fn colors_have_the_contrast_of_aa_in_both_schemes() {
        let style = FILES[0].2;
        let rules: Vec<&str> = style.split(":root {").skip(1).collect();
        assert_eq!(rules.len(), 2, "a light and a dark scheme");
        let mut pairs: Vec<(String, &str)> = Vec::new();
        for background in ["--page", "--raised", "--code"] {
            for text in ["--text", "--faint", "--link", "--good", "--bad", "--busy", "--warn"] {
                pairs.push((text.to_owned(), background));
            }
        }
        pairs.extend((0..16).map(|number| (format!("--c{number}"), "--code")));
        for (rule, scheme) in rules.iter().zip(["light", "dark"]) {
            let colors = parse_colors(rule);
            for (text, background) in &pairs {
                let found = contrast(colors[text.as_str()], colors[background]);
                assert!(found >= 4.5, "{scheme}: {text} on {background} has only {found:.2}");
            }
        }
    }

    #[test]
    fn scripts_insert_no_text_as_markup() {
        for (name, kind, text) in FILES {
            if kind == JAVASCRIPT {
                for sink in
                    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
                {
                    assert!(!text.contains(sink), "{name}: {sink}");
                }
            }
        }
    }
}
