//! The command-line values for ways to notify a person.

use std::fmt;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NotifyWay {
    /// A desktop notification, by notify-send
    Desktop,
    /// The bell of the host's terminal
    Bell,
    /// A POST request to an address
    Webhook,
}

impl fmt::Display for NotifyWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Desktop => "desktop",
            Self::Bell => "bell",
            Self::Webhook => "webhook",
        })
    }
}

/// Returns the ways as one argument, for example `desktop,bell`.
pub(crate) fn join_ways(ways: &[NotifyWay]) -> String {
    ways.iter().map(NotifyWay::to_string).collect::<Vec<_>>().join(",")
}
