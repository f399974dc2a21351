//! What a call comes to: text for a model, or why not.

use rmcp::model::{CallToolResult, ContentBlock};
use siding_core::input::InputError;
use siding_core::run::RunError;
use siding_core::settings::SettingsError;
use siding_core::store::StoreError;
use siding_core::wait::WaitError;
use siding_core::watch::WatchError;
use siding_core::why::WhyError;
use siding_model::id::TaskId;
use siding_model::text::one_line;

use crate::receipts::Receipt;

/// Columns of a message.
const MESSAGE: usize = 2_000;

/// What a call comes to.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// How things stand and what to do next, in siding's own words. Its lines are siding's.
    pub(crate) said: Vec<String>,
    /// What a task wrote, in a block of its own, so that no line of it can pass for siding's.
    pub(crate) output: Option<String>,
    /// What has become of other tasks, in a block of its own.
    pub(crate) news: Option<String>,
    /// Whether something of what was asked came to nothing.
    pub(crate) is_error: bool,
    /// The task that goes on although its caller would have waited, for callers with another way
    /// to wait.
    pub(crate) goes_on: Option<TaskId>,
    /// What is noted when the client has it.
    pub(crate) receipts: Vec<Receipt>,
}

impl Answer {
    pub(crate) fn say(line: impl Into<String>) -> Self {
        Self { said: vec![line.into()], ..Self::default() }
    }

    pub(crate) fn and(mut self, line: Option<String>) -> Self {
        self.said.extend(line);
        self
    }

    /// Returns the result of a call of a tool.
    pub(crate) fn result(self) -> CallToolResult {
        let said = self.said.join("\n");
        let output = self.output.filter(|text| !text.is_empty());
        let blocks = [Some(said), output, self.news].into_iter().flatten().map(ContentBlock::text);
        let blocks = blocks.collect();
        if self.is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) }
    }
}

/// Why a call came to nothing, and what to do instead.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The arguments are not what the tool takes.
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    Wait(#[from] WaitError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Why(#[from] WhyError),
    #[error("could not {doing}: {source}")]
    Io { doing: &'static str, source: std::io::Error },
    /// The client does not want it any more.
    #[error("cancelled by the client")]
    Cancelled,
}

impl Refusal {
    /// Returns the result of a call of a tool: the model reads it, which it would not do with an
    /// error of the protocol.
    pub(crate) fn result(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(self.line())])
    }

    /// Returns why, and what to do instead, in one line.
    pub(crate) fn line(&self) -> String {
        // A message repeats what the caller gave, which may come from anywhere.
        let text = one_line(&self.to_string(), MESSAGE);
        match self.next() {
            Some(next) => format!("{text}; {next}"),
            None => text,
        }
    }

    /// Returns what to do instead.
    const fn next(&self) -> Option<&'static str> {
        match self {
            Self::Store(StoreError::NoSuchTask { .. } | StoreError::Ambiguous { .. }) => {
                Some("`list` shows the ids")
            }
            Self::Input(InputError::NoPipe { .. }) => {
                Some("only one that was started with `run` and `stdin` true can be written to")
            }
            Self::Why(WhyError::Ended(_)) | Self::Input(InputError::Ended { .. }) => {
                Some("`output` shows what it wrote")
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
