//! A little colour for terminals.

use std::io::IsTerminal;

/// What a text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    /// It went well.
    Good,
    /// It did not.
    Bad,
    /// It is still going on.
    Busy,
    /// It is of less interest.
    Faint,
}

impl Paint {
    const fn code(self) -> &'static str {
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
pub(crate) enum Colour {
    /// It does.
    On,
    /// It does not.
    Off,
}

impl Colour {
    /// Returns `On` for a terminal, unless `NO_COLOR` is set to something (no-color.org).
    pub(crate) fn of_stdout() -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if std::io::stdout().is_terminal() && !refused { Self::On } else { Self::Off }
    }

    /// Returns the text painted.
    pub(super) fn paint(self, paint: Paint, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("{}{text}\x1b[m", paint.code()),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
