//! What happens to a conversation, and what is to be done about it.

use siding_model::id::TaskId;

use super::entry::Entry;
use crate::message::{CallId, Said, Stop, Told, ToolCall, ToolResult, Usage};

/// Numbers the requests of one process. An answer to a request that was given up is nobody's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request(pub(super) u32);

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// This process has begun to hold the conversation, and the model is to be told this. Once,
    /// before anything else.
    Began(Vec<Told>),
    /// The model is to be told something. It is, once whatever is on its way has come.
    Told(Vec<Told>),
    /// A call is run as a task, which is not begun before this is on record.
    Bound {
        /// The call.
        call: CallId,
        /// The task.
        task: TaskId,
    },
    /// A call has its result.
    Done(ToolResult),
    /// The model has answered.
    Answered {
        /// Which request.
        request: Request,
        /// What it said, as the provider gave it.
        said: Vec<Said>,
        /// Why it stopped.
        stop: Stop,
        /// What that cost.
        usage: Usage,
    },
    /// The model has put in short what was said.
    Summarised {
        /// Which request.
        request: Request,
        /// Its words.
        text: String,
        /// What that cost.
        usage: Usage,
    },
    /// A request came to nothing, and it is of no use to try again.
    Failed {
        /// Which request.
        request: Request,
        /// What was tried and what came of it.
        why: String,
    },
    /// A person wants what goes on in the foreground to end. Tasks in the background are left alone.
    Interrupted,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// To be written before anything that follows is done.
    Record(Entry),
    /// The model is to be sent [`super::Conversation::messages`].
    Ask(Request),
    /// The model is to put [`super::Conversation::to_summarise`] in short.
    Summarise(Request),
    /// A request is to be given up; what comes of it is not heard.
    GiveUp(Request),
    /// A call is to be run. Never twice.
    Run(ToolCall),
    /// A call was begun by a process that has ended since: it is to be found out what came of it.
    Recover {
        /// The call.
        call: ToolCall,
        /// The task that it was to be run as, if it came to that.
        task: Option<TaskId>,
    },
    /// A call that runs is to be ended. Its result is still waited for.
    Cancel(CallId),
    /// There is nothing to be done before something happens.
    Rest(Rest),
}

/// Why there is nothing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rest {
    /// The model has ended its turn, and there is nothing more to tell it.
    Turn(Stop),
    /// Nothing has been said yet.
    Nothing,
    /// The model could not be asked.
    Failed {
        /// What was tried and what came of it.
        why: String,
    },
    /// A person has interrupted it.
    Interrupted,
    /// It has asked the model as often as it may.
    Requests {
        /// How often that is.
        most: u32,
    },
}
