//! The colors with which siding answers queries: light text on a dark background, and the palette
//! of xterm.

use std::fmt;

/// The first 16 colors of xterm's palette (XTerm-col.ad).
const ANSI_COLORS: [[u8; 3]; 16] = [
    [0, 0, 0],
    [205, 0, 0],
    [0, 205, 0],
    [205, 205, 0],
    [0, 0, 238],
    [205, 0, 205],
    [0, 205, 205],
    [229, 229, 229],
    [127, 127, 127],
    [255, 0, 0],
    [0, 255, 0],
    [255, 255, 0],
    [92, 92, 255],
    [255, 0, 255],
    [0, 255, 255],
    [255, 255, 255],
];
/// The steps of each component in the color cube at 16 to 231 (256colres.pl of xterm).
const CUBE_STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// A color, formatted as in answers to queries: `rgb:c0c0/c0c0/c0c0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RgbColor([u8; 3]);

impl fmt::Display for RgbColor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}")
    }
}

/// Returns the color of text and of the cursor.
pub(super) const fn foreground_color() -> RgbColor {
    RgbColor([0xc0; 3])
}

/// Returns the color behind text.
pub(super) const fn background_color() -> RgbColor {
    RgbColor([0; 3])
}

/// Returns a color of the palette: 16 ANSI colors, a cube of 216 colors, and 24 shades of gray.
pub(super) fn palette_color(index: u8) -> RgbColor {
    let components = match index {
        0..=15 => ANSI_COLORS[usize::from(index)],
        16..=231 => {
            let in_cube = usize::from(index - 16);
            [CUBE_STEPS[in_cube / 36], CUBE_STEPS[in_cube / 6 % 6], CUBE_STEPS[in_cube % 6]]
        }
        232..=255 => [8 + 10 * (index - 232); 3],
    };
    RgbColor(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_is_that_of_xterm() {
        for (index, color) in [
            (0, "rgb:0000/0000/0000"),
            (1, "rgb:cdcd/0000/0000"),
            (12, "rgb:5c5c/5c5c/ffff"),
            (16, "rgb:0000/0000/0000"),
            (110, "rgb:8787/afaf/d7d7"),
            (231, "rgb:ffff/ffff/ffff"),
            (232, "rgb:0808/0808/0808"),
            (255, "rgb:eeee/eeee/eeee"),
        ] {
            assert_eq!(palette_color(index).to_string(), color, "{index}");
        }
    }
}
