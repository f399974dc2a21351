//! Plays a script: selects the answer to each request, and simulates delays and failures.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siding_model::text::one_line;

use super::format::{
    AnswerEnd, PlayedFailure, Script, ScriptAnswer, ScriptCall, TextPart as Piece,
};
use super::template::{Captures, fill, fill_value};
use super::{ScriptError, display_path};
use crate::cancel_flag::CancelFlag;
use crate::message::{AssistantContent, CallId, FinishReason, Message, ToolCall, Usage};
use crate::provider::cancellable_sleep::sleep_unless_cancelled;
use crate::provider::retry::{FailureKind, RetryDecision, RetryPolicy};
use crate::provider::{self, ModelRequest, Provider, ProviderError, ResponsePart};

/// Maximum columns of a text that an error quotes: the model's input that does not match, or the
/// message of a simulated failure.
const SHOWN_COLUMNS: usize = 400;

/// A model whose answers come from a script.
pub(crate) struct ScriptedProvider {
    path: PathBuf,
    script: Script,
    policy: RetryPolicy,
    /// `None` before the first request, whose messages determine the position in the script.
    state: Mutex<Option<PlaybackState>>,
}

/// The position in a script, and the groups captured so far.
#[derive(Debug, Default)]
struct PlaybackState {
    next_answer: usize,
    captures: Captures,
}

/// An answer whose placeholders have been replaced.
struct FilledAnswer {
    delay: Duration,
    thinking: Option<String>,
    signature: Option<String>,
    text: Vec<Piece>,
    end: FilledEnd,
}

enum FilledEnd {
    Complete { calls: Vec<ToolCall>, stop: FinishReason, usage: Usage },
    Failure(PlayedFailure),
}

impl ScriptedProvider {
    /// Reads a script. `policy` applies to the failures that the script simulates.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] if the file cannot be read, or for the first mistake in it.
    pub(crate) fn read(path: &Path, policy: RetryPolicy) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ScriptError::Read { path: path.to_owned(), error })?;
        Self::new(path, &text, policy)
    }

    pub(super) fn new(path: &Path, text: &str, policy: RetryPolicy) -> Result<Self, ScriptError> {
        let script = Script::parse(path, text)?;
        Ok(Self { path: path.to_owned(), script, policy, state: Mutex::new(None) })
    }

    /// Returns the next answer; `None` after the last one. Fails if the input of the model does not
    /// match the answer's pattern, or if a placeholder has no match.
    fn next_answer(&self, messages: &[Message]) -> Result<Option<FilledAnswer>, ProviderError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.get_or_insert_with(|| self.replay_position(messages));
        let Some(answer) = self.script.answers.get(state.next_answer) else { return Ok(None) };
        let number = state.next_answer + 1;
        let prompt = last_user_text(messages);
        let refused = |what: String| {
            let place = format!("{}:{}", display_path(&self.path), answer.line);
            ProviderError::Refused(format!("{place}: answer {number} {what}"))
        };
        if let Some(expect) = &answer.expect
            && !answer.matches_expectation(&prompt, &mut state.captures)
        {
            let prompt = one_line(&prompt, SHOWN_COLUMNS);
            let what = match &answer.mismatch {
                Some(meaning) => format!("does not fit: {}", one_line(meaning, SHOWN_COLUMNS)),
                None => format!("expects `{expect}`"),
            };
            return Err(refused(format!("{what}, but the model received: {prompt}")));
        }
        let turn = answer.fill(number, &state.captures).map_err(|name| {
            refused(format!("needs `${{{name}}}`, whose group has not matched so far"))
        })?;
        state.next_answer += 1;
        Ok(Some(turn))
    }

    /// Returns the position for a conversation that another process has started. Each message of
    /// the model is one answer of the script; simulated failures have left no message and are
    /// skipped.
    fn replay_position(&self, messages: &[Message]) -> PlaybackState {
        let mut state = PlaybackState::default();
        if self.script.restart {
            return state;
        }
        let given =
            messages.iter().enumerate().filter(|(_, one)| matches!(one, Message::Assistant(_)));
        for (at, _) in given {
            let is_failure = |answer: &ScriptAnswer| matches!(answer.end, AnswerEnd::Failure(_));
            while self.script.answers.get(state.next_answer).is_some_and(is_failure) {
                state.next_answer += 1;
            }
            if let Some(answer) = self.script.answers.get(state.next_answer) {
                let _best_effort = answer
                    .matches_expectation(&last_user_text(&messages[..at]), &mut state.captures);
            }
            state.next_answer += 1;
        }
        state
    }

    /// Returns the answer that reports the end of the script.
    fn exhausted_answer(&self) -> FilledAnswer {
        let text = format!(
            "The script {} has ended: all of its {} answers were given.",
            display_path(&self.path),
            self.script.answers.len()
        );
        let end = FilledEnd::Complete {
            calls: Vec::new(),
            stop: FinishReason::EndTurn,
            usage: Usage::default(),
        };
        let text = vec![Piece { text, delay: Duration::ZERO }];
        FilledAnswer { delay: Duration::ZERO, thinking: None, signature: None, text, end }
    }
}

impl Provider for ScriptedProvider {
    fn send_request(
        &self,
        request: &ModelRequest<'_>,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<provider::ModelResponse, ProviderError> {
        let mut failures = 0;
        loop {
            let turn =
                self.next_answer(request.messages)?.unwrap_or_else(|| self.exhausted_answer());
            turn.emit_parts(request.cancel, on_part)?;
            let failure = match turn.end {
                FilledEnd::Failure(failure) => failure,
                FilledEnd::Complete { calls, stop, usage } => {
                    let content = response_content(turn.thinking, turn.signature, turn.text, calls);
                    return Ok(provider::ModelResponse { content, finish_reason: stop, usage });
                }
            };
            failures += 1;
            let (why, asked) = (failure.message(), failure.retry_after);
            let dice = RandomState::new().hash_one(failures);
            match self.policy.decide(failure.failure_kind(), failures, asked, dice) {
                RetryDecision::RetryAfter(time) => {
                    let pause_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    on_part(ResponsePart::Retry { reason: &why, pause_ms });
                    sleep_unless_cancelled(time, request.cancel)?;
                }
                RetryDecision::Permanent
                | RetryDecision::RetriesExhausted
                | RetryDecision::WaitTooLong(_) => {
                    let path = display_path(&self.path);
                    return Err(ProviderError::Refused(format!(
                        "{path} simulates a failure: {why}"
                    )));
                }
            }
        }
    }
}

impl ScriptAnswer {
    /// Matches the input of the model against the pattern and stores the captured groups. Returns
    /// whether the input matches; true if the answer has no pattern.
    fn matches_expectation(&self, prompt: &str, found: &mut Captures) -> bool {
        let Some(expect) = &self.expect else { return true };
        let Some(captures) = expect.captures(prompt) else { return false };
        let groups = expect.capture_names().flatten();
        let matched = groups.filter_map(|name| Some((name, captures.name(name)?)));
        found.extend(matched.map(|(name, text)| (name.to_owned(), text.as_str().to_owned())));
        true
    }

    /// Replaces the placeholders in all texts of the answer. `number`, the position of the answer
    /// from 1, becomes part of the ids of the answer's calls.
    fn fill(&self, number: usize, found: &Captures) -> Result<FilledAnswer, String> {
        let part = |part: &Piece| Ok(Piece { text: fill(&part.text, found)?, delay: part.delay });
        let end = match &self.end {
            AnswerEnd::Failure(failure) => FilledEnd::Failure(failure.clone()),
            AnswerEnd::Complete { calls, stop, usage } => {
                let call = |(nth, call): (usize, &ScriptCall)| {
                    Ok(ToolCall {
                        id: CallId::new(&format!("script_{number}_{}", nth + 1)),
                        name: call.tool.clone(),
                        input: fill_value(&call.input, found)?,
                    })
                };
                let calls = calls.iter().enumerate().map(call).collect::<Result<_, String>>()?;
                FilledEnd::Complete { calls, stop: *stop, usage: *usage }
            }
        };
        Ok(FilledAnswer {
            delay: self.delay,
            thinking: self.thinking.as_deref().map(|text| fill(text, found)).transpose()?,
            signature: self.signature.clone(),
            text: self.text.iter().map(part).collect::<Result<_, String>>()?,
            end,
        })
    }
}

impl FilledAnswer {
    /// Emits the parts word by word, as a model would.
    fn emit_parts(
        &self,
        cancel: &CancelFlag,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<(), ProviderError> {
        sleep_unless_cancelled(self.delay, cancel)?;
        if let Some(thinking) = &self.thinking {
            for_each_word(thinking, &mut |word| on_part(ResponsePart::Thinking(word)));
        }
        for part in &self.text {
            sleep_unless_cancelled(part.delay, cancel)?;
            for_each_word(&part.text, &mut |word| on_part(ResponsePart::Text(word)));
        }
        Ok(())
    }
}

impl PlayedFailure {
    const fn failure_kind(&self) -> FailureKind {
        match self.status {
            Some(status) => FailureKind::Status(status),
            None => FailureKind::Incomplete,
        }
    }

    fn message(&self) -> String {
        let message = one_line(&self.message, SHOWN_COLUMNS);
        match self.status {
            Some(status) => format!("{status}: {message}"),
            None => format!("the answer broke off: {message}"),
        }
    }
}

fn for_each_word(text: &str, listen: &mut dyn FnMut(&str)) {
    text.split_inclusive(char::is_whitespace).for_each(listen);
}

/// Returns the texts of the last user message, including its results.
fn last_user_text(messages: &[Message]) -> String {
    let last = messages.iter().rev().find_map(|message| match message {
        Message::User { results, content } => Some((results, content)),
        Message::Assistant(_) => None,
    });
    let Some((results, content)) = last else { return String::new() };
    let results = results.iter().map(|result| result.text.as_str());
    let texts: Vec<&str> = results.chain(content.iter().map(|one| one.text())).collect();
    texts.join("\n")
}

fn response_content(
    thinking: Option<String>,
    signature: Option<String>,
    parts: Vec<Piece>,
    calls: Vec<ToolCall>,
) -> Vec<AssistantContent> {
    let text: String = parts.into_iter().map(|part| part.text).collect();
    let thinking = thinking.map(|text| AssistantContent::Thinking { text, signature });
    let text = (!text.trim().is_empty()).then_some(AssistantContent::Text { text });
    thinking.into_iter().chain(text).chain(calls.into_iter().map(AssistantContent::Call)).collect()
}
