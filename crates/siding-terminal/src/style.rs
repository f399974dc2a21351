//! Colors and attributes of cells, and the sequences that select them (SGR).

use std::fmt::Write as _;

use siding_model::text::{CharStyle, TextColor};

/// Returns the visible style of a cell. An erased cell shows only a background, as in xterm.
pub(crate) fn cell_style(cell: &vt100::Cell) -> CharStyle {
    let style = stored_style(cell);
    if cell.has_contents() {
        style
    } else {
        CharStyle { background: style.background, ..CharStyle::default() }
    }
}

/// Returns the style that is stored in a cell, even if the cell does not show all of it. A
/// combining mark on an erased cell makes the style visible.
pub(crate) fn stored_style(cell: &vt100::Cell) -> CharStyle {
    CharStyle {
        foreground: text_color(cell.fgcolor()),
        background: text_color(cell.bgcolor()),
        bold: cell.bold(),
        dim: cell.dim(),
        italic: cell.italic(),
        underlined: cell.underline(),
        inverse: cell.inverse(),
        struck: false,
    }
}

/// Returns the style of the characters that are drawn next.
pub(crate) fn pen_style(grid: &vt100::Screen) -> CharStyle {
    CharStyle {
        foreground: text_color(grid.fgcolor()),
        background: text_color(grid.bgcolor()),
        bold: grid.bold(),
        dim: grid.dim(),
        italic: grid.italic(),
        underlined: grid.underline(),
        inverse: grid.inverse(),
        struck: false,
    }
}

/// Appends the sequence that selects exactly this style.
pub(crate) fn push_style(style: &CharStyle, out: &mut String) {
    out.push_str("\x1b[0");
    for (is_set, number) in [
        (style.bold, 1),
        (style.dim, 2),
        (style.italic, 3),
        (style.underlined, 4),
        (style.inverse, 7),
    ] {
        if is_set {
            let _writing_to_string = write!(out, ";{number}");
        }
    }
    push_color(38, style.foreground, out);
    push_color(48, style.background, out);
    out.push('m');
}

fn push_color(kind: u8, color: Option<TextColor>, out: &mut String) {
    let _writing_to_string = match color {
        None => Ok(()),
        Some(TextColor::Palette(index)) => write!(out, ";{kind};5;{index}"),
        Some(TextColor::Rgb(red, green, blue)) => write!(out, ";{kind};2;{red};{green};{blue}"),
    };
}

const fn text_color(color: vt100::Color) -> Option<TextColor> {
    match color {
        vt100::Color::Default => None,
        vt100::Color::Idx(index) => Some(TextColor::Palette(index)),
        vt100::Color::Rgb(red, green, blue) => Some(TextColor::Rgb(red, green, blue)),
    }
}
