//! The content of a script, and its validation.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use regex::Regex;
use serde_json::{Number, Value};
use siding_model::text::one_line;

use super::ScriptError;
use super::raw::{RawAnswer, RawCall, RawError, RawScript};
use super::template::placeholder_names;
use crate::message::{FinishReason, Usage};

/// Maximum columns of an error of the TOML or regular expression parser.
const PARSER_ERROR_COLUMNS: usize = 300;

/// A script that has passed all checks.
#[derive(Debug)]
pub(super) struct Script {
    /// Whether playback starts at the first answer even in a conversation that already has answers.
    pub(super) restart: bool,
    /// The answers; at least one.
    pub(super) answers: Vec<ScriptAnswer>,
}

#[derive(Debug)]
pub(super) struct ScriptAnswer {
    /// Line of the file on which the answer starts, from 1.
    pub(super) line: usize,
    /// A pattern that the last message to the model must match; `None` accepts any message.
    pub(super) expect: Option<Regex>,
    /// Explains a message that does not match; with `None`, the error shows the pattern.
    pub(super) mismatch: Option<String>,
    /// Delay before the first part.
    pub(super) delay: Duration,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) text: Vec<TextPart>,
    pub(super) end: AnswerEnd,
}

/// A part of an answer's text, which is sent after a delay.
#[derive(Debug)]
pub(super) struct TextPart {
    pub(super) text: String,
    /// Delay before this part.
    pub(super) delay: Duration,
}

/// How an answer ends.
#[derive(Debug)]
pub(super) enum AnswerEnd {
    /// The answer is sent completely, with these calls.
    Complete { calls: Vec<ScriptCall>, stop: FinishReason, usage: Usage },
    /// The request fails after the text has been sent.
    Failure(PlayedFailure),
}

#[derive(Debug)]
pub(super) struct ScriptCall {
    pub(super) tool: String,
    pub(super) input: Value,
}

/// A failure that the script simulates.
#[derive(Debug, Clone)]
pub(super) struct PlayedFailure {
    /// The HTTP status; `None` simulates a stream that breaks off.
    pub(super) status: Option<u16>,
    pub(super) message: String,
    /// The delay that the simulated server asks for, if any.
    pub(super) retry_after: Option<Duration>,
}

impl Script {
    /// Parses and validates a script.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Mistake`] for the first mistake.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        let mistake = |offset: usize, what: String| ScriptError::Mistake {
            path: path.to_owned(),
            line: line_number(text, offset),
            what,
        };
        let raw: RawScript = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(text.len(), |span| span.start);
            mistake(offset, one_line(error.message(), PARSER_ERROR_COLUMNS))
        })?;
        let mut known = HashSet::new();
        let mut answers = Vec::new();
        for (number, answer) in raw.answer.into_iter().enumerate() {
            let offset = answer.span().start;
            let checked = check_answer(answer.into_inner(), line_number(text, offset), &mut known)
                .map_err(|what| mistake(offset, format!("answer {}: {what}", number + 1)))?;
            answers.push(checked);
        }
        if answers.is_empty() {
            return Err(mistake(0, "it has no answer: start one with `[[answer]]`".to_owned()));
        }
        Ok(Self { restart: raw.restart, answers })
    }
}

fn line_number(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Validates an answer. `known` contains the names of the groups in the earlier `expect` patterns;
/// the names of this answer's groups are added.
fn check_answer(
    raw: RawAnswer,
    line: usize,
    known: &mut HashSet<String>,
) -> Result<ScriptAnswer, String> {
    let expect = raw.expect.map(|regex| Regex::new(&regex)).transpose().map_err(|error| {
        format!(
            "`expect` is not a regular expression: {}",
            one_line(&error.to_string(), PARSER_ERROR_COLUMNS)
        )
    })?;
    if let Some(expect) = &expect {
        known.extend(expect.capture_names().flatten().map(str::to_owned));
    }
    let is_heard = raw.thinking.is_some() || !raw.text.0.is_empty();
    if !is_heard && raw.call.is_empty() && raw.stop.is_none() && raw.error.is_none() {
        return Err(
            "it has no content: give `text`, `thinking`, `call` or `error`, or `stop` for an empty \
             answer"
                .to_owned(),
        );
    }
    if raw.mismatch.is_some() && expect.is_none() {
        return Err("`mismatch` requires `expect`".to_owned());
    }
    if raw.signature.is_some() && raw.thinking.is_none() {
        return Err("`signature` requires `thinking`".to_owned());
    }
    let calls: Vec<ScriptCall> = raw.call.into_iter().map(parse_call).collect::<Result<_, _>>()?;
    let whole =
        [(!calls.is_empty(), "call"), (raw.stop.is_some(), "stop"), (raw.usage.is_some(), "usage")];
    let end = match (raw.error, whole.into_iter().find(|(is_given, _)| *is_given)) {
        (Some(_), Some((_, key))) => {
            return Err(format!(
                "`{key}` cannot be combined with `error`, which ends the answer before it"
            ));
        }
        (Some(error), None) => AnswerEnd::Failure(parse_failure(error)?),
        (None, _) => {
            let natural =
                if calls.is_empty() { FinishReason::EndTurn } else { FinishReason::ToolUse };
            let stop = raw.stop.unwrap_or(natural);
            AnswerEnd::Complete { calls, stop, usage: raw.usage.unwrap_or_default().into() }
        }
    };
    let text: Vec<TextPart> = raw.text.0.into_iter().map(TextPart::from).collect();
    let answer = ScriptAnswer {
        line,
        expect,
        mismatch: raw.mismatch,
        delay: Duration::from_millis(raw.delay_ms),
        thinking: raw.thinking,
        signature: raw.signature,
        text,
        end,
    };
    let mut unknown = None;
    answer.for_each_text(&mut |text| {
        let first = placeholder_names(text).find(|name| !known.contains(*name));
        unknown = unknown.take().or_else(|| first.map(str::to_owned));
    });
    match unknown {
        None => Ok(answer),
        Some(name) => Err(format!(
            "`${{{name}}}` is not a group of an `expect` so far ({}); write `$${{` for a shell's \
             `${{`",
            list_groups(known)
        )),
    }
}

fn list_groups(known: &HashSet<String>) -> String {
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    names.sort_unstable();
    if names.is_empty() {
        "there is none".to_owned()
    } else {
        format!("known: {}", names.join(", "))
    }
}

fn parse_call(raw: RawCall) -> Result<ScriptCall, String> {
    let input = match raw.input {
        None => Value::Object(serde_json::Map::new()),
        Some(value @ (toml::Value::Table(_) | toml::Value::String(_))) => toml_to_json(value)?,
        Some(other) => {
            return Err(format!(
                "`input` of `{}` is {}; write a table, or a string to simulate arguments that are \
                 not JSON",
                one_line(&raw.tool, 60),
                other.type_str()
            ));
        }
    };
    Ok(ScriptCall { tool: raw.tool, input })
}

fn toml_to_json(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| format!("`{number}` is not a JSON number"))?,
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => {
            Value::Array(items.into_iter().map(toml_to_json).collect::<Result<_, _>>()?)
        }
        toml::Value::Table(fields) => {
            let fields = fields.into_iter().map(|(key, value)| Ok((key, toml_to_json(value)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
    })
}

fn parse_failure(raw: RawError) -> Result<PlayedFailure, String> {
    if let Some(status) = raw.status
        && !(400..=599).contains(&status)
    {
        return Err(format!("`error.status` is {status}: an HTTP error is from 400 to 599"));
    }
    if raw.retry_after_ms.is_some() && raw.status.is_none() {
        return Err("`error.retry_after_ms` requires `error.status`".to_owned());
    }
    Ok(PlayedFailure {
        status: raw.status,
        message: raw.message.unwrap_or_else(|| "simulated by the script".to_owned()),
        retry_after: raw.retry_after_ms.map(Duration::from_millis),
    })
}

impl ScriptAnswer {
    /// Calls `show` with every text that may contain placeholders.
    fn for_each_text(&self, show: &mut dyn FnMut(&str)) {
        self.thinking.iter().for_each(|text| show(text));
        self.text.iter().for_each(|part| show(&part.text));
        if let AnswerEnd::Complete { calls, .. } = &self.end {
            calls.iter().for_each(|call| for_each_string(&call.input, show));
        }
    }
}

fn for_each_string(value: &Value, show: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => show(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_string(item, show)),
        Value::Object(fields) => fields.values().for_each(|value| for_each_string(value, show)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
