//! A little colour for terminals.

use std::io::IsTerminal;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// It is still going on.
    Busy,
    /// It is of less interest.
    Faint,
}

impl TextStyle {
    const fn ansi_code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[31m",
            Self::Busy => "\x1b[36m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// Whether standard output takes colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    /// It does.
    On,
    /// It does not.
    Off,
}

impl ColorMode {
    /// Returns `On` for a terminal, unless `NO_COLOR` is set to something (no-color.org).
    pub(crate) fn for_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if std::io::stdout().is_terminal() && !refused { Self::On } else { Self::Off }
    }

    /// Returns the text painted.
    pub(super) fn apply(self, paint: TextStyle, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("{}{text}\x1b[m", paint.ansi_code()),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
