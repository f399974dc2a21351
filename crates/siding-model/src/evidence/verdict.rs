//! The words for what was found.

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::process::MonotonicMs;

/// What a quiet task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WhyVerdict {
    /// A process is blocked reading the task's input or a terminal.
    InputWait,
    /// An event loop has the input in its set and the output ends like a question.
    InputLikely,
    /// A process that may not be looked into has most likely asked for a password.
    PasswordLikely,
    /// A process was stopped because it used its terminal from the background.
    TtyStopped,
    /// A process was stopped by a signal or a debugger.
    Stopped,
    /// A server waits for connections.
    Serving,
    /// It waits for something that has a name.
    Waiting,
    /// It computes.
    Busy,
    /// It sleeps, and nothing says for what.
    Quiet,
    /// Its processes could not be looked into.
    Unknown,
}

impl WhyVerdict {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InputWait => "input_wait",
            Self::InputLikely => "input_likely",
            Self::PasswordLikely => "password_likely",
            Self::TtyStopped => "tty_stopped",
            Self::Stopped => "stopped",
            Self::Serving => "serving",
            Self::Waiting => "waiting",
            Self::Busy => "busy",
            Self::Quiet => "quiet",
            Self::Unknown => "unknown",
        }
    }
}

/// What [`WhyVerdict::PendingReadiness`] waits on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// A child.
    Child,
    /// The clock.
    Timer,
    /// A lock of a file, or of the threads of one process.
    Lock,
    /// A FIFO that nobody has open, or writes to.
    Fifo,
    /// A pipe that nobody writes to, or reads from.
    Pipe,
    /// A socket.
    Network,
    /// A disk, or a file system behind a network.
    Disk,
}

impl WaitingOn {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Child => "child",
            Self::Timer => "timer",
            Self::Lock => "lock",
            Self::Fifo => "fifo",
            Self::Pipe => "pipe",
            Self::Network => "network",
            Self::Disk => "disk",
        }
    }
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// Two samples say the same and the kernel named the object.
    Hard,
    /// It fits, and something else may be true.
    Soft,
    /// Nothing speaks for it but the lack of anything else.
    None,
}

impl Certainty {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::None => "none",
        }
    }
}

/// One process between the leader and the one that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainLink {
    /// Process number.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// State letter of proc_pid_stat(5).
    pub state: String,
    /// System call it waits in.
    #[serde(default)]
    pub syscall: Option<String>,
    /// What it waits for.
    #[serde(default)]
    pub object: Option<String>,
    /// Who could end the wait: a lock's holder, a socket's other end, a pipe's reader; or why
    /// nothing more is known.
    #[serde(default)]
    pub detail: Option<String>,
}

/// What was found, with what a person needs to believe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the task does.
    pub verdict: WhyVerdict,
    /// On what it waits, with [`WhyVerdict::PendingReadiness`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingOn>,
    /// How sure that is.
    pub certainty: Certainty,
    /// For how long it has been seen to be so, in milliseconds.
    pub since_ms: u64,
    /// Time without output, in milliseconds.
    pub silent_ms: u64,
    /// Processor time of the tree between the samples, in thousandths of one core.
    pub cpu_permille: u32,
    /// From the leader to the process that waits.
    pub chain: Vec<ChainLink>,
    /// Last line of the output, readable, without escape sequences.
    pub tail: String,
    /// What whoever looks after the task can do.
    pub advice: String,
}

impl Evidence {
    /// Steps that are named one by one.
    const MAX_NAMED_STEPS: usize = 3;

    /// Returns what was found of a workflow of which these steps run. What carries it out waits for their
    /// shims, which looks like a wait for the network.
    #[must_use]
    pub fn for_workflow(mut self, steps: &[TaskId]) -> Self {
        let Some(first) = steps.first().filter(|_| self.verdict == WhyVerdict::Waiting) else {
            return self;
        };
        self.waiting_on = Some(WaitingOn::Child);
        let named: Vec<_> =
            steps.iter().take(Self::MAX_NAMED_STEPS).map(ToString::to_string).collect();
        let more = match steps.len().saturating_sub(Self::MAX_NAMED_STEPS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        self.advice = format!(
            "It waits for its steps {}{more}: `siding why {first}` looks at the first.",
            named.join(", ")
        );
        self
    }
}

/// A stall on record. Holds all that a notice says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallRecord {
    /// When it was found.
    pub at: MonotonicMs,
    /// Output when it was found, in bytes. The stall is over once there is more.
    pub output_bytes: u64,
    /// What was found.
    #[serde(flatten)]
    pub evidence: Evidence,
}
