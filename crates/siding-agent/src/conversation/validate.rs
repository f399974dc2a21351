//! The rules of the model APIs for lists of messages.

use std::collections::HashSet;

use crate::message::{AssistantContent, CallId, Message};

/// A violated rule of the model APIs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("message {number}: {what}")]
pub struct InvalidMessages {
    /// The index of the message, from 0.
    pub number: usize,
    /// The rule that the message violates.
    pub what: &'static str,
}

/// Checks a list of messages against the rules of the Messages API:
///
/// - user and assistant messages alternate, and the first and the last are the user's;
/// - no message is empty, no text is blank, and no assistant message contains only reasoning;
/// - the arguments of each call are an object;
/// - each call has a unique id, and exactly one result in the message that follows it, before any
///   other content;
/// - there are no other results.
///
/// # Errors
///
/// [`InvalidMessages`] for the first message that violates a rule.
pub fn validate_messages(messages: &[Message]) -> Result<(), InvalidMessages> {
    let mut names: HashSet<&CallId> = HashSet::new();
    let mut open: Vec<&CallId> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        let says = |holds: bool, what: &'static str| {
            if holds { Ok(()) } else { Err(InvalidMessages { number, what }) }
        };
        match message {
            Message::User { results, content } => {
                says(number % 2 == 0, "a user message follows a user message")?;
                says(!results.is_empty() || !content.is_empty(), "the message is empty")?;
                says(content.iter().all(|one| !one.text().trim().is_empty()), "a blank text")?;
                let answered: Vec<&CallId> = results.iter().map(|one| &one.call).collect();
                says(answered == open, "the results are not those of the preceding calls")?;
                open.clear();
            }
            Message::Assistant(content) => {
                says(number % 2 == 1, "an assistant message does not follow a user message")?;
                let is_said =
                    |one: &AssistantContent| !matches!(one, AssistantContent::Thinking { .. });
                says(content.iter().any(is_said), "the message has no text and no calls")?;
                for one in content {
                    match one {
                        AssistantContent::Text { text } => {
                            says(!text.trim().is_empty(), "a blank text")?
                        }
                        AssistantContent::Thinking { .. } => {}
                        AssistantContent::Call(call) => {
                            says(
                                call.input.is_object(),
                                "the arguments of a call are not an object",
                            )?;
                            says(names.insert(&call.id), "two calls have the same id")?;
                            open.push(&call.id);
                        }
                    }
                }
            }
        }
    }
    let last = messages.len().saturating_sub(1);
    let ends_well = matches!(messages.last(), Some(Message::User { .. }));
    if ends_well {
        Ok(())
    } else {
        Err(InvalidMessages { number: last, what: "the last message is not the user's" })
    }
}
