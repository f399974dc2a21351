//! What a person may see of an agent at work.

use siding_model::id::SessionId;

use super::Label;
use crate::conversation::Rest;
use crate::message::{CallId, Said, Told, ToolCall, ToolResult, Usage};
use crate::provider::Part;

/// Something to be seen. What is on record is in the transcript.
#[derive(Debug, Clone, Copy)]
pub enum Sight<'a> {
    /// It begins to work in this conversation.
    Began(&'a SessionId),
    /// The model is asked.
    Asking,
    /// A part of an answer that is on its way.
    Part(Part<'a>),
    /// The model has answered.
    Said(&'a [Said]),
    /// A tool is called.
    Calls(&'a ToolCall),
    /// A call has its result.
    Done(&'a ToolResult),
    /// The model is told something.
    Told(&'a Told),
    /// The model could not be asked.
    Failed(&'a str),
    /// What was just done, in few words.
    Label(&'a Label),
    /// What an answer cost.
    Spent(Usage),
    /// What was said is being put in short.
    Summarising,
    /// A person is to say whether a command is run.
    Question {
        /// The call that waits for it.
        call: &'a CallId,
        /// The command.
        command: &'a str,
        /// What speaks against it.
        why: &'a str,
    },
    /// There is nothing to be done before something happens.
    Rests(&'a Rest),
}
