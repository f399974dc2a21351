//! The methods that can notify a person, as command-line values.

use std::fmt;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NotifyMethod {
    /// A desktop notification, by notify-send
    Desktop,
    /// The bell of the host's terminal
    Bell,
    /// A POST request to an address
    Webhook,
}

impl fmt::Display for NotifyMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Desktop => "desktop",
            Self::Bell => "bell",
            Self::Webhook => "webhook",
        })
    }
}

/// Joins the methods to one argument, for example `desktop,bell`.
pub(crate) fn join_methods(methods: &[NotifyMethod]) -> String {
    methods.iter().map(NotifyMethod::to_string).collect::<Vec<_>>().join(",")
}
