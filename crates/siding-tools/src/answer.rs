//! What a call comes to: text for a model, or why not.

use serde_json::{Map, Value};
use siding_core::input::InputError;
use siding_core::run::RunError;
use siding_core::settings::SettingsError;
use siding_core::store::StoreError;
use siding_core::wait::WaitError;
use siding_core::watch::WatchError;
use siding_core::why::WhyError;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::text::one_line;

use crate::delivery::DeliveryAck;
use crate::structured::StructuredAnswer;

/// Columns of a message.
const MESSAGE_COLUMNS: usize = 2_000;

/// What a call comes to.
#[derive(Debug, Default)]
pub struct ToolAnswer {
    /// How things stand and what to do next, in siding's own words. Its lines are siding's.
    pub lines: Vec<String>,
    /// What a task wrote, in a block of its own, so that no line of it can pass for siding's.
    pub output: Option<String>,
    /// What has become of other tasks, in a block of its own.
    pub notices: Option<String>,
    /// The fields of the tool's structured content beside those that repeat the text; `None` where
    /// there is only text.
    pub(crate) details: Option<Map<String, Value>>,
    /// Whether something of what was asked came to nothing.
    pub is_error: bool,
    /// The task that goes on although its caller would have waited, for callers with another way
    /// to wait.
    pub background_task: Option<TaskId>,
    /// What is noted when the client has it.
    pub delivery_acks: Vec<DeliveryAck>,
}

impl ToolAnswer {
    /// Begins with a line of siding's own.
    pub fn from_line(line: impl Into<String>) -> Self {
        Self { lines: vec![line.into()], ..Self::default() }
    }

    /// Adds a line, where there is one.
    #[must_use]
    pub fn with_line(mut self, line: Option<String>) -> Self {
        self.lines.extend(line);
        self
    }

    /// Returns the answer as data, as the tool's output schema describes it; `None` where there is
    /// only text.
    #[must_use]
    pub fn structured(&self) -> Option<Value> {
        let answer = StructuredAnswer {
            message: self.lines.join("\n"),
            output: self.output.clone().filter(|text| !text.is_empty()),
            news: self.notices.clone(),
            details: self.details.as_ref()?,
        };
        serde_json::to_value(answer).ok()
    }

    /// Returns the blocks of text that a model reads: siding's own words, what a task wrote, and news.
    #[must_use]
    pub fn into_text_blocks(self) -> Vec<String> {
        let lines = self.lines.join("\n");
        let output = self.output.filter(|text| !text.is_empty());
        [Some(lines), output, self.notices].into_iter().flatten().collect()
    }
}

/// Why a call came to nothing, and what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The arguments are not what the tool takes.
    #[error("{0}")]
    Arguments(String),
    /// A task cannot be found, or the state directory not be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// A wait cannot go on.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// A command cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A task's input cannot be written.
    #[error(transparent)]
    Input(#[from] InputError),
    /// It cannot be said why a task is quiet.
    #[error(transparent)]
    Why(#[from] WhyError),
    /// The operating system refused.
    #[error("could not {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// Its caller does not want it any more.
    #[error("cancelled by the caller")]
    Cancelled,
}

impl ToolError {
    /// Returns why, and what to do instead, in one line, in the words of `dialect`.
    #[must_use]
    pub fn format_line(&self, dialect: Dialect) -> String {
        // A message repeats what the caller gave, which may come from anywhere.
        let text = one_line(&self.to_string(), MESSAGE_COLUMNS);
        match self.advice(dialect) {
            Some(next) => format!("{text}; {next}"),
            None => text,
        }
    }

    /// Returns what to do instead.
    fn advice(&self, dialect: Dialect) -> Option<String> {
        match self {
            Self::Store(StoreError::NoSuchTask { .. } | StoreError::Ambiguous(_)) => {
                Some(format!("{} shows the ids", dialect.format_tool("list")))
            }
            Self::Input(InputError::NoPipe { .. }) => Some(format!(
                "only one that was started with {} and `stdin` true can be written to",
                dialect.format_tool("run")
            )),
            Self::Why(WhyError::Ended(_)) | Self::Input(InputError::Ended { .. }) => {
                Some(format!("{} shows what it wrote", dialect.format_tool("output")))
            }
            Self::Arguments(_)
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
