//! The observation that satisfied a condition.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

/// The observation that satisfied a condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum WaitDetail {
    /// The task ended with this outcome.
    Outcome(Outcome),
    /// The task wrote this line.
    Line {
        /// Stream offset of the start of the line.
        offset: u64,
        /// The line, without its newline, cut to 1 KiB. The line is untrusted text of the task.
        line: String,
    },
    /// A process of the task's tree listens on a port.
    Port {
        /// The TCP port of the condition.
        port: u16,
        /// Pid of the listening process.
        pid: i32,
    },
    /// The URL responded with a status that satisfies the condition.
    Http {
        /// HTTP status of the response, 2xx or 3xx.
        status: u16,
    },
    /// The file exists.
    File {
        /// Absolute path of the file.
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
