//! Playing a script.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use siding_model::text::one_line;

use super::fill::{Found, fill, fill_value};
use super::format::{Answer, Call, End, Failure, Part as Piece, Script};
use super::{ScriptError, shown};
use crate::message::{CallId, Message, Said, Stop, ToolCall, Usage};
use crate::provider::pause::pause;
use crate::provider::retry::{Next, Policy, Trouble};
use crate::provider::{self, AskError, Asking, Cancel, Part, Provider};

/// Columns of what the model was told, when it is not what the script expects.
const COLUMNS: usize = 400;

/// A model that says what stands in a file.
pub(crate) struct Scripted {
    path: PathBuf,
    script: Script,
    policy: Policy,
    /// Empty before the first request, which tells how far the conversation is.
    state: Mutex<Option<State>>,
}

/// How far a script is played.
#[derive(Debug, Default)]
struct State {
    next: usize,
    found: Found,
}

/// One answer with everything filled in.
struct Turn {
    delay: Duration,
    thinking: Option<String>,
    signature: Option<String>,
    text: Vec<Piece>,
    end: Filled,
}

enum Filled {
    Whole { calls: Vec<ToolCall>, stop: Stop, usage: Usage },
    Failure(Failure),
}

impl Scripted {
    /// Reads a script. Failures in it are followed by what `policy` says.
    ///
    /// # Errors
    ///
    /// [`ScriptError`] when it cannot be read, or for the first mistake in it.
    pub(crate) fn read(path: &Path, policy: Policy) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ScriptError::Read { path: path.to_owned(), error })?;
        Self::new(path, &text, policy)
    }

    pub(super) fn new(path: &Path, text: &str, policy: Policy) -> Result<Self, ScriptError> {
        let script = Script::parse(path, text)?;
        Ok(Self { path: path.to_owned(), script, policy, state: Mutex::new(None) })
    }

    /// Takes the next answer. Nothing when all were given.
    fn take(&self, messages: &[Message]) -> Result<Option<Turn>, AskError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state.get_or_insert_with(|| self.catch_up(messages));
        let Some(answer) = self.script.answers.get(state.next) else { return Ok(None) };
        let number = state.next + 1;
        let told = told(messages);
        let refused = |what: String| {
            let place = format!("{}:{}", shown(&self.path), answer.line);
            AskError::Refused(format!("{place}: answer {number} {what}"))
        };
        if let Some(expect) = &answer.expect
            && !answer.find(&told, &mut state.found)
        {
            let told = one_line(&told, COLUMNS);
            return Err(refused(format!("expects `{expect}`, and the model was told: {told}")));
        }
        let turn = answer.filled(number, &state.found).map_err(|name| {
            refused(format!("needs `${{{name}}}`, whose group has matched nothing so far"))
        })?;
        state.next += 1;
        Ok(Some(turn))
    }

    /// Returns how far a conversation is that another process has begun: as many answers were given
    /// as the model has messages in it.
    fn catch_up(&self, messages: &[Message]) -> State {
        let mut state = State::default();
        if self.script.restart {
            return state;
        }
        let given =
            messages.iter().enumerate().filter(|(_, one)| matches!(one, Message::Assistant(_)));
        for (at, _) in given {
            let is_failure = |answer: &Answer| matches!(answer.end, End::Failure(_));
            while self.script.answers.get(state.next).is_some_and(is_failure) {
                state.next += 1;
            }
            if let Some(answer) = self.script.answers.get(state.next) {
                let _is_expected = answer.find(&told(&messages[..at]), &mut state.found);
            }
            state.next += 1;
        }
        state
    }

    /// Says that there is nothing more.
    fn over(&self) -> Turn {
        let text = format!(
            "The script {} is over: all of its {} answers were given.",
            shown(&self.path),
            self.script.answers.len()
        );
        let end = Filled::Whole { calls: Vec::new(), stop: Stop::EndTurn, usage: Usage::default() };
        let text = vec![Piece { text, delay: Duration::ZERO }];
        Turn { delay: Duration::ZERO, thinking: None, signature: None, text, end }
    }
}

impl Provider for Scripted {
    fn ask(
        &self,
        asking: &Asking<'_>,
        listen: &mut dyn FnMut(Part<'_>),
    ) -> Result<provider::Answer, AskError> {
        let mut failures = 0;
        loop {
            let turn = self.take(asking.messages)?.unwrap_or_else(|| self.over());
            turn.play(asking.cancel, listen)?;
            let failure = match turn.end {
                Filled::Failure(failure) => failure,
                Filled::Whole { calls, stop, usage } => {
                    let said = said(turn.thinking, turn.signature, turn.text, calls);
                    return Ok(provider::Answer { said, stop, usage });
                }
            };
            failures += 1;
            let (why, asked) = (failure.why(), failure.retry_after);
            let dice = RandomState::new().hash_one(failures);
            match self.policy.next(failure.trouble(), failures, asked, dice) {
                Next::Again(time) => {
                    let pause_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    listen(Part::Again { why: &why, pause_ms });
                    pause(time, asking.cancel)?;
                }
                Next::Never | Next::Enough | Next::Later(_) => {
                    let path = shown(&self.path);
                    return Err(AskError::Refused(format!("{path} plays a failure: {why}")));
                }
            }
        }
    }
}

impl Answer {
    /// Matches what the model was told, and keeps what the named groups have found. Whether it is
    /// what is expected.
    fn find(&self, told: &str, found: &mut Found) -> bool {
        let Some(expect) = &self.expect else { return true };
        let Some(captures) = expect.captures(told) else { return false };
        let groups = expect.capture_names().flatten();
        let matched = groups.filter_map(|name| Some((name, captures.name(name)?)));
        found.extend(matched.map(|(name, text)| (name.to_owned(), text.as_str().to_owned())));
        true
    }

    /// Fills it. `number` is its own, from 1.
    fn filled(&self, number: usize, found: &Found) -> Result<Turn, String> {
        let part = |part: &Piece| Ok(Piece { text: fill(&part.text, found)?, delay: part.delay });
        let end = match &self.end {
            End::Failure(failure) => Filled::Failure(failure.clone()),
            End::Whole { calls, stop, usage } => {
                let call = |(nth, call): (usize, &Call)| {
                    Ok(ToolCall {
                        id: CallId::new(&format!("script_{number}_{}", nth + 1)),
                        name: call.tool.clone(),
                        input: fill_value(&call.input, found)?,
                    })
                };
                let calls = calls.iter().enumerate().map(call).collect::<Result<_, String>>()?;
                Filled::Whole { calls, stop: *stop, usage: *usage }
            }
        };
        Ok(Turn {
            delay: self.delay,
            thinking: self.thinking.as_deref().map(|text| fill(text, found)).transpose()?,
            signature: self.signature.clone(),
            text: self.text.iter().map(part).collect::<Result<_, String>>()?,
            end,
        })
    }
}

impl Turn {
    /// Lets the parts be heard, a word at a time as from a model.
    fn play(&self, cancel: &Cancel, listen: &mut dyn FnMut(Part<'_>)) -> Result<(), AskError> {
        pause(self.delay, cancel)?;
        if let Some(thinking) = &self.thinking {
            words(thinking, &mut |word| listen(Part::Thinking(word)));
        }
        for part in &self.text {
            pause(part.delay, cancel)?;
            words(&part.text, &mut |word| listen(Part::Text(word)));
        }
        Ok(())
    }
}

impl Failure {
    const fn trouble(&self) -> Trouble {
        match self.status {
            Some(status) => Trouble::Status(status),
            None => Trouble::Broken,
        }
    }

    fn why(&self) -> String {
        let message = one_line(&self.message, COLUMNS);
        match self.status {
            Some(status) => format!("{status}: {message}"),
            None => format!("the answer broke off: {message}"),
        }
    }
}

fn words(text: &str, listen: &mut dyn FnMut(&str)) {
    text.split_inclusive(char::is_whitespace).for_each(listen);
}

/// Returns all that the last message to the model holds.
fn told(messages: &[Message]) -> String {
    let last = messages.iter().rev().find_map(|message| match message {
        Message::User { results, told } => Some((results, told)),
        Message::Assistant(_) => None,
    });
    let Some((results, told)) = last else { return String::new() };
    let results = results.iter().map(|result| result.text.as_str());
    let texts: Vec<&str> = results.chain(told.iter().map(|one| one.text())).collect();
    texts.join("\n")
}

fn said(
    thinking: Option<String>,
    signature: Option<String>,
    parts: Vec<Piece>,
    calls: Vec<ToolCall>,
) -> Vec<Said> {
    let text: String = parts.into_iter().map(|part| part.text).collect();
    let thinking = thinking.map(|text| Said::Thinking { text, signature });
    let text = (!text.trim().is_empty()).then_some(Said::Text { text });
    thinking.into_iter().chain(text).chain(calls.into_iter().map(Said::Call)).collect()
}
