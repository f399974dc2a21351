//! The colors and symbols of the screen, with and without colors and UTF-8.
//!
//! The screen uses only the sixteen colors of the terminal's own palette, and no background, so
//! that it is readable on a light and on a dark terminal. The output of a task keeps its colors,
//! unless colors are disabled.

use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier, Style};
use siding_model::text::CharacterSet;

/// The meaning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Ordinary text.
    Normal,
    /// Success.
    Good,
    /// A failure.
    Bad,
    /// A needed action.
    Warning,
    /// Work in progress.
    Busy,
    /// Less important text.
    Faint,
    /// A title or heading.
    Strong,
    /// The selected row, or the active tab.
    Selected,
    /// A found text.
    Match,
}

/// The colors and characters that the screen may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Whether colors are used; `NO_COLOR` disables them.
    pub has_color: bool,
    /// Whether only ASCII is shown, because the locale is not UTF-8.
    pub is_ascii: bool,
}

impl Theme {
    /// Returns the style of a tone.
    pub(crate) const fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let (color, modifier) = match tone {
            Tone::Normal => (None, None),
            Tone::Good => (Some(Color::Green), None),
            Tone::Bad => (Some(Color::Red), None),
            Tone::Warning => (Some(Color::Magenta), Some(Modifier::BOLD)),
            Tone::Busy => (Some(Color::Cyan), None),
            Tone::Faint => (None, Some(Modifier::DIM)),
            Tone::Strong => (None, Some(Modifier::BOLD)),
            Tone::Selected => (None, Some(Modifier::REVERSED)),
            Tone::Match => (None, Some(Modifier::REVERSED.union(Modifier::BOLD))),
        };
        let style = match color {
            Some(color) if self.has_color => style.fg(color),
            Some(_) | None => style,
        };
        match modifier {
            Some(modifier) => style.add_modifier(modifier),
            None => style,
        }
    }

    /// Removes the colors from a style of a task's output if the theme has no colors.
    pub(crate) fn output_style(self, style: Style) -> Style {
        if self.has_color { style } else { Style { fg: None, bg: None, ..style } }
    }

    /// Replaces each non-ASCII symbol if only ASCII may be shown.
    pub(crate) fn adapt(self, buffer: &mut Buffer) {
        if !self.is_ascii {
            return;
        }
        for cell in &mut buffer.content {
            if !cell.symbol().is_ascii() {
                let first = cell.symbol().chars().next().unwrap_or(' ');
                let replacement = CharacterSet::Ascii.symbol(first);
                // Characters of a task's output have no replacement.
                cell.set_char(if replacement.is_ascii() { replacement } else { '?' });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Rect;

    use super::*;

    #[test]
    fn no_color_keeps_only_attributes() {
        let plain = Theme { has_color: false, is_ascii: false };
        for tone in [Tone::Good, Tone::Bad, Tone::Warning, Tone::Busy, Tone::Match] {
            assert_eq!(plain.style(tone).fg, None);
        }
        assert_eq!(plain.output_style(Style::new().fg(Color::Red)).fg, None);
        let colored = Theme { has_color: true, is_ascii: false };
        assert_eq!(colored.style(Tone::Bad).fg, Some(Color::Red));
    }

    #[test]
    fn an_ascii_terminal_gets_only_ascii() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 1));
        buffer.set_string(0, 0, "● ▓░ 你x…", Style::new());
        Theme { has_color: true, is_ascii: true }.adapt(&mut buffer);
        let text: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(text.trim_end(), "* #- ? x~");
    }
}
