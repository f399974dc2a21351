//! Colors text for a terminal, unless the user has disabled colors.

use std::io::IsTerminal;

/// The meaning of a text, which determines its color.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    /// Success, in green.
    Good,
    /// A failure or a needed action, in red.
    Bad,
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
            Self::Busy => "\x1b[36m",
            Self::Faint => "\x1b[2m",
        }
    }
}

/// Whether text is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    On,
    Off,
}

impl ColorMode {
    /// Returns `On` if standard output is a terminal, unless `NO_COLOR` is set to a non-empty value
    /// (no-color.org).
    pub(crate) fn for_stdout() -> Self {
        Self::for_stream(&std::io::stdout())
    }

    /// Returns the mode for standard error, as [`Self::for_stdout`] does.
    pub(crate) fn for_stderr() -> Self {
        Self::for_stream(&std::io::stderr())
    }

    fn for_stream(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if stream.is_terminal() && !refused { Self::On } else { Self::Off }
    }

    /// Returns the text with the escape sequences of a style, or unchanged if colors are off.
    pub(crate) fn apply(self, paint: TextStyle, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("{}{text}\x1b[m", paint.ansi_code()),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}
