//! The observation that satisfied a condition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// What was seen when something came true.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum WaitDetail {
    /// The task ended so.
    Outcome(Outcome),
    /// It wrote this line.
    Line {
        /// Stream offset at which the line begins.
        offset: u64,
        /// The line, without its newline, cut to 1 KiB. Text of the task.
        line: String,
    },
    /// This process of its tree listens.
    Port {
        /// On this port.
        port: u16,
        /// Process number.
        pid: i32,
    },
    /// The address answered.
    Http {
        /// With this status.
        status: u16,
    },
    /// The file is there.
    File {
        /// Its absolute path.
        path: String,
    },
}

impl fmt::Display for WaitDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome(outcome) => write!(f, "{outcome}"),
            Self::Line { line, .. } => f.write_str(line),
            Self::Port { pid, .. } => write!(f, "process {pid} listens"),
            Self::Http { status } => write!(f, "answers {status}"),
            Self::File { path } => f.write_str(path),
        }
    }
}
