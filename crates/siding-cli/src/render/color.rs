//! Colors text for a terminal, unless the user has disabled colors.

use crate::terminal;

/// The meaning of a text, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// Success, in green.
    Good,
    /// A failure or a needed action, in red.
    Bad,
    /// A condition that may pass without an action, in yellow.
    Warning,
    /// Work in progress, in cyan.
    Busy,
    /// Less important text such as titles, dimmed.
    Faint,
}

impl TextStyle {
    const fn ansi_code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Warning => "\x1b[33m",
            Self::Busy => "\x1b[36m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// Whether text for standard output is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    On,
    Off,
}

impl ColorMode {
    /// Returns the mode for standard output, as [`terminal::shows_colors`] determines it.
    pub(crate) fn for_stdout() -> Self {
        if terminal::shows_colors(&std::io::stdout()) { Self::On } else { Self::Off }
    }

    /// Returns the text with the escape sequences of a style, or unchanged if colors are off.
    pub(crate) fn apply(self, paint: TextStyle, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("{}{text}\x1b[m", paint.ansi_code()),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
