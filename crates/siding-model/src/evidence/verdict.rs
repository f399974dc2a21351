//! The verdicts about a quiet task and the evidence for them.

use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as ValueError, StringDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::id::TaskId;
use crate::process::MonotonicMs;
use crate::terminal::AwaitedInput;

/// The cause of a task's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WhyVerdict {
    /// A process is blocked reading the task's input or a terminal.
    InputWait,
    /// The output ends with a prompt, or with an incomplete line while a process polls the input.
    InputLikely,
    /// A process that cannot be inspected has most likely asked for a password.
    PasswordLikely,
    /// A process was stopped because it used the terminal from the background.
    TtyStopped,
    /// A process was stopped by a signal or a debugger.
    Stopped,
    /// A server waits for connections.
    Serving,
    /// The task waits for an object of a known kind, which `waiting_on` names.
    Waiting,
    /// The task uses processor time, or a process of the task was running in both samples.
    Busy,
    /// The task sleeps, and the object that it waits for is unknown.
    Quiet,
    /// The processes could not be inspected.
    // Also the verdict of a newer siding: a recorded stall names its verdict, and an unknown name
    // must not make the journal unreadable.
    #[serde(other)]
    Unknown,
}

/// The build fails if [`WhyVerdict::ALL_VERDICTS`] lacks a variant.
const _: () = assert!(WhyVerdict::ALL_VERDICTS.len() == WhyVerdict::Unknown as usize + 1);

impl WhyVerdict {
    /// All verdicts, in the order of their declaration.
    pub const ALL_VERDICTS: [Self; 10] = [
        Self::InputWait,
        Self::InputLikely,
        Self::PasswordLikely,
        Self::TtyStopped,
        Self::Stopped,
        Self::Serving,
        Self::Waiting,
        Self::Busy,
        Self::Quiet,
        Self::Unknown,
    ];

    /// Returns the verdict's name in JSON and text.
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

impl WhyVerdict {
    /// Returns whether the task most likely waits for an answer of a person or an agent.
    #[must_use]
    pub const fn asks_for_input(self) -> bool {
        match self {
            Self::InputWait | Self::InputLikely | Self::PasswordLikely => true,
            Self::TtyStopped
            | Self::Stopped
            | Self::Serving
            | Self::Waiting
            | Self::Busy
            | Self::Quiet
            | Self::Unknown => false,
        }
    }

    /// Returns whether the verdict, if it is certain, means that the task makes no progress until
    /// an agent or a person acts.
    #[must_use]
    pub const fn needs_action(self) -> bool {
        match self {
            Self::InputWait | Self::TtyStopped | Self::Stopped => true,
            // `InputLikely` and `PasswordLikely` are never certain.
            Self::Serving
            | Self::Waiting
            | Self::Busy
            | Self::Quiet
            | Self::Unknown
            | Self::InputLikely
            | Self::PasswordLikely => false,
        }
    }
}

impl WhyVerdict {
    /// Returns the verdict as a phrase about a task, such as "waits for a lock". `waiting_on` is
    /// the object of [`WhyVerdict::Waiting`], and `awaited_input` that of [`Evidence`].
    #[must_use]
    pub const fn phrase(
        self,
        waiting_on: Option<WaitingOn>,
        awaited_input: Option<AwaitedInput>,
    ) -> &'static str {
        match self {
            Self::InputWait | Self::InputLikely => match awaited_input {
                Some(AwaitedInput::Secret) => "waits for a password",
                Some(AwaitedInput::Line | AwaitedInput::Keys) | None => "waits for input",
            },
            Self::PasswordLikely => "waits for a password",
            Self::TtyStopped => "stopped when it used its terminal",
            Self::Stopped => "stopped by a signal or a debugger",
            Self::Serving => "serves, waits for connections",
            Self::Waiting => match waiting_on {
                Some(WaitingOn::Child) => "waits for a child process",
                Some(WaitingOn::Timer) => "waits for a timer",
                Some(WaitingOn::Lock) => "waits for a lock",
                Some(WaitingOn::Fifo) => "waits for a FIFO",
                Some(WaitingOn::Pipe) => "waits for a pipe",
                Some(WaitingOn::Network) => "waits for the network",
                Some(WaitingOn::Disk) => "waits for a disk",
                None => "waits",
            },
            Self::Busy => "computes",
            Self::Quiet => match awaited_input {
                Some(AwaitedInput::Keys) => "idle, waits for keys",
                Some(AwaitedInput::Line | AwaitedInput::Secret) | None => {
                    "sleeps for an unknown reason"
                }
            },
            Self::Unknown => "cannot be inspected",
        }
    }

    /// Returns the phrase with a note about how certain the verdict is, such as "waits for a lock
    /// (certain)".
    #[must_use]
    pub fn phrase_with_certainty(
        self,
        waiting_on: Option<WaitingOn>,
        awaited_input: Option<AwaitedInput>,
        certainty: Certainty,
    ) -> String {
        let phrase = self.phrase(waiting_on, awaited_input);
        match certainty {
            Certainty::Hard => format!("{phrase} (certain)"),
            Certainty::Soft => format!("{phrase} (likely)"),
            Certainty::None => phrase.to_owned(),
        }
    }
}

/// The kind of object that a waiting task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitingOn {
    /// A child process, or a step of a workflow.
    Child,
    /// A timer: the end of a sleep, or the timeout of a poll.
    Timer,
    /// A file lock, or a lock between the threads of one process.
    Lock,
    /// A FIFO whose other end is not open, or that has no data.
    Fifo,
    /// A pipe without data; or a pipe, FIFO or terminal without free space.
    Pipe,
    /// The peer of a socket.
    Network,
    /// A disk or a network file system.
    Disk,
}

impl WaitingOn {
    /// Returns the object's name in JSON and text.
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

/// The degree to which the samples support a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The kernel shows the cause in both samples, or the task used half a core or more between
    /// them.
    Hard,
    /// The facts fit the verdict, but other explanations remain.
    Soft,
    /// No fact supports the verdict; it is reported because no other verdict applies.
    None,
}

/// One process on the path from the leader to the waiting process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainLink {
    /// Pid of the process at the time of the sample.
    pub pid: i32,
    /// Command line of the process, shortened.
    pub command: String,
    /// Process state: the letter from proc_pid_stat(5).
    pub state: String,
    /// System call in which the process is blocked; null if it runs or if the call is unknown.
    #[serde(default)]
    pub syscall: Option<String>,
    /// Object that the process waits for; null if it is unknown.
    #[serde(default)]
    pub object: Option<String>,
    /// The process that could end the wait: a lock's holder, a socket's peer, a pipe's reader; or
    /// the reason why this process is unknown.
    #[serde(default)]
    pub detail: Option<String>,
}

/// A verdict with the facts that a reader needs to verify it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The cause of the silence.
    pub verdict: WhyVerdict,
    /// The object that the task waits for; `None` unless the verdict is [`WhyVerdict::Waiting`].
    // An object that only a newer siding knows is read as `None`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_name")]
    pub waiting_on: Option<WaitingOn>,
    /// The kind of input that the task waits for, if its terminal or its prompt shows it. With
    /// [`WhyVerdict::Quiet`], a full-screen program waits for keys and asks for nothing.
    // A kind that only a newer siding knows is read as `None`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known_name")]
    pub awaited_input: Option<AwaitedInput>,
    /// Whether the samples prove the verdict, only agree with it, or do not support it.
    pub certainty: Certainty,
    /// Time for which the state has been observed, in milliseconds.
    pub since_ms: u64,
    /// Time without output, in milliseconds.
    pub silent_ms: u64,
    /// Processor time of the tree between the samples, in thousandths of one core.
    pub cpu_permille: u32,
    /// The processes from the leader to the waiting process.
    pub chain: Vec<ChainLink>,
    /// Last line of the output, without escape sequences and control characters.
    pub tail: String,
    /// The next step for the agent or person in charge of the task.
    pub advice: String,
}

/// Reads the name of a variant; a name that `T` does not have becomes `None`.
fn known_name<'de, D, T>(reader: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let name = Option::<String>::deserialize(reader)?;
    let known = |name: String| {
        let reader: StringDeserializer<ValueError> = name.into_deserializer();
        T::deserialize(reader).ok()
    };
    Ok(name.and_then(known))
}

impl Evidence {
    /// Maximum number of workflow steps that are listed individually.
    const MAX_NAMED_STEPS: usize = 3;

    /// Returns the evidence of a waiting workflow with these running steps, adjusted to name the
    /// steps. Returns any other evidence unchanged. The workflow runner waits on the sockets of the
    /// steps' shims, which otherwise looks like a wait for the network.
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
            "It waits for its steps {}{more}: `siding why {first}` examines the first.",
            named.join(", ")
        );
        self
    }
}

/// A recorded stall, with everything that its notice contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallRecord {
    /// Time of the sample that confirmed the stall.
    pub at: MonotonicMs,
    /// Size of the output at this time, in bytes. More output ends the stall.
    pub output_bytes: u64,
    /// The verdict about the stall, and the facts from which it was derived.
    #[serde(flatten)]
    pub evidence: Evidence,
}
