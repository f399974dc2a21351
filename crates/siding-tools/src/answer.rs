//! The result of a tool call: text for a model, or an error.

use std::path::PathBuf;

use serde_json::{Map, Value};
use siding_core::remote::{CopyError, SyncError};
use siding_core::settings::SettingsError;
use siding_core::store::StoreError;
use siding_core::task::input::InputError;
use siding_core::task::run::RunError;
use siding_core::task::terminal::TerminalError;
use siding_core::task::wait::WaitError;
use siding_core::task::watch::WatchError;
use siding_core::task::why::WhyError;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::text::one_line;
use siding_terminal::LiveTerminalError;

use crate::delivery::DeliveryAck;
use crate::structured::StructuredAnswer;

/// Maximum width of an error message, in columns.
const MESSAGE_COLUMNS: usize = 2_000;

/// The answer to a tool call, from which each protocol builds its own message.
#[derive(Debug, Default)]
pub struct ToolAnswer {
    /// The state and the next step, in siding's own words. Task output is not part of these lines,
    /// except for the line that met a condition `output:REGEX`, which is shown in one line after
    /// the task's id.
    pub lines: Vec<String>,
    /// Output of a task, if the answer shows any. The output is a separate block, so that a model
    /// does not mistake a line of the task for one of siding's.
    pub output: Option<String>,
    /// Notices about other tasks, if there are any, in a separate block.
    pub notices: Option<String>,
    /// The fields of the tool's structured content in addition to those that every tool has; `None`
    /// for an answer that is only text.
    pub(crate) details: Option<Map<String, Value>>,
    /// Whether any part of the request failed.
    pub is_error: bool,
    /// The task, if any, that still runs after its hand-over to the background, for example because
    /// the budget passed. A caller that can wait in another way, such as an MCP client with tasks,
    /// continues with this id.
    pub background_task: Option<TaskId>,
    /// Acknowledgements to record once the client has received the answer.
    pub delivery_acks: Vec<DeliveryAck>,
}

impl ToolAnswer {
    /// Starts an answer with one of siding's own lines.
    pub fn from_line(line: impl Into<String>) -> Self {
        Self { lines: vec![line.into()], ..Self::default() }
    }

    /// Appends a line if there is one.
    #[must_use]
    pub fn with_line(mut self, line: Option<String>) -> Self {
        self.lines.extend(line);
        self
    }

    /// Adds an acknowledgement to record once the client has received the answer.
    #[must_use]
    pub(crate) fn with_ack(mut self, ack: DeliveryAck) -> Self {
        self.delivery_acks.push(ack);
        self
    }

    /// Returns the structured content that the tool's output schema describes, or `None` for an
    /// answer that is only text.
    #[must_use]
    pub fn structured(&self) -> Option<Value> {
        let answer = StructuredAnswer {
            message: self.lines.join("\n"),
            output: self.output.clone().filter(|text| !text.is_empty()),
            notices: self.notices.clone(),
            details: self.details.as_ref()?,
        };
        serde_json::to_value(answer).ok()
    }

    /// Returns the text blocks for a model: siding's own lines, the task's output, and notices.
    #[must_use]
    pub fn into_text_blocks(self) -> Vec<String> {
        let lines = self.lines.join("\n");
        let output = self.output.filter(|text| !text.is_empty());
        [Some(lines), output, self.notices].into_iter().flatten().collect()
    }
}

/// The reason why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments do not match the tool's schema, or request something that the tool or the
    /// settings do not allow.
    #[error("{0}")]
    Arguments(String),
    /// The given id matches no task or more than one, or the state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The pattern of a wait is not valid, or the wait failed.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// The command cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Files were requested for a command that does not run on another machine.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// git finds no project to copy.
    #[error(
        "git finds no project in `{}` ({why}); name the files to copy in `sync_paths`, such as `.`",
        directory.display()
    )]
    NoProject {
        /// The working directory.
        directory: PathBuf,
        /// The message of git.
        why: String,
    },
    /// The project could not be copied.
    #[error(transparent)]
    Sync(SyncError),
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The task's input cannot be written.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The terminal of a task cannot be read, or the keys were not typed.
    #[error(transparent)]
    Terminal(#[from] LiveTerminalError),
    /// The reason why a task is quiet cannot be determined.
    #[error(transparent)]
    Why(#[from] WhyError),
    /// A system call failed.
    #[error("could not {doing}: {source}")]
    Io {
        /// The operation that failed, as an infinitive.
        doing: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The caller canceled the call or has disconnected.
    #[error("canceled by the caller")]
    Cancelled,
}

impl From<SyncError> for ToolError {
    fn from(error: SyncError) -> Self {
        match error {
            // The text of this error names a flag of the command line.
            SyncError::NoProject { directory, why } => Self::NoProject { directory, why },
            error @ (SyncError::Path { .. }
            | SyncError::ControlCharacter { .. }
            | SyncError::Owned { .. }
            | SyncError::List { .. }
            | SyncError::Busy { .. }
            | SyncError::Remote { .. }
            | SyncError::Local { .. }) => Self::Sync(error),
        }
    }
}

impl ToolError {
    /// Returns the error and the advice on what to do next in one line. The advice uses the terms
    /// of `dialect`.
    #[must_use]
    pub fn format_line(&self, dialect: Dialect) -> String {
        // The error contains arguments of the caller, which are untrusted text.
        let message = if let Self::Terminal(LiveTerminalError::Terminal(error)) = self {
            error.format(dialect)
        } else {
            self.to_string()
        };
        let text = one_line(&message, MESSAGE_COLUMNS);
        match self.advice(dialect) {
            Some(next) => format!("{text}; {next}"),
            None => text,
        }
    }

    /// Returns advice on what the caller can do instead, or `None` if the error says enough.
    fn advice(&self, dialect: Dialect) -> Option<String> {
        match self {
            Self::Store(StoreError::NoSuchTask { .. } | StoreError::Ambiguous(_)) => {
                Some(format!("{} lists the ids", dialect.format_tool("list")))
            }
            Self::Input(InputError::NoPipe { .. }) => Some(format!(
                "start it with {} and `stdin` true to write to it",
                dialect.format_tool("run")
            )),
            Self::Input(InputError::Ended { .. }) => {
                Some(format!("{} shows its output", dialect.format_tool("output")))
            }
            Self::Wait(WaitError::RemoteProcesses { condition, .. }) => Some(format!(
                "wait for `output:REGEX`, or start it with {} and `wait_for` `{condition}`, which \
                 is checked there",
                dialect.format_tool("run")
            )),
            Self::Copy(CopyError::ThisMachine { .. }) => {
                Some("name another machine in `on`".to_owned())
            }
            Self::Terminal(LiveTerminalError::Terminal(TerminalError::Unread { .. })) => {
                Some(format!("{} shows what it does", dialect.format_tool("why")))
            }
            Self::Arguments(_)
            | Self::Copy(CopyError::SharedFiles { .. })
            | Self::NoProject { .. }
            | Self::Sync(_)
            | Self::Terminal(_)
            | Self::Store(_)
            | Self::Watch(_)
            | Self::Wait(_)
            | Self::Run(_)
            | Self::Settings(_)
            | Self::Input(_)
            | Self::Why(_)
            | Self::Io { .. }
            | Self::Cancelled => None,
        }
    }
}

impl From<TerminalError> for ToolError {
    fn from(error: TerminalError) -> Self {
        Self::Terminal(error.into())
    }
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::KeysRefusal;

    use super::*;

    #[test]
    fn keys_that_may_have_been_typed_are_described_with_the_tool_that_shows_the_screen() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let why = "the connection to build broke before its answer".to_owned();
        let error = ToolError::from(TerminalError::Unconfirmed { id, why });
        let text = error.format_line(Dialect::Tools);
        assert!(text.contains("unknown whether the keys were typed"), "{text}");
        assert!(text.contains("read the screen with `screen` before"), "{text}");
    }

    #[test]
    fn a_refusal_of_keys_names_the_tools_of_its_reader() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let refused = |refusal| ToolError::from(TerminalError::Refused { id, refusal });
        let secret = KeysRefusal::SecretRequested { prompt: "Password:".to_owned() };
        let text = refused(secret).format_line(Dialect::Tools);
        assert!(text.contains("run `siding answer b-4k7q0n2m8x5t`"), "{text}");
        let text = refused(KeysRefusal::NoTerminal).format_line(Dialect::Agent);
        assert!(text.contains("start the command again with `bash` and `pty`"), "{text}");
        let text = ToolError::from(TerminalError::Ended { id }).format_line(Dialect::Tools);
        assert!(text.contains("read its output with `output`"), "{text}");
    }
}
