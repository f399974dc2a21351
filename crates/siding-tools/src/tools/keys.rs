//! The tool `keys`, which types into the terminal of a task and shows the effect.

use std::pin::pin;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::sys::clock;
use siding_core::task::terminal::TerminalError;
use siding_model::advice::{Dialect, key_error_text};
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use siding_model::terminal::{KeyInput, KeysRefusal, ScreenHash, ScreenHashError, parse_key};
use siding_model::text::one_line;
use siding_terminal::{
    LiveTerminal, LiveTerminalError, Screen, ScreenConditionError, TerminalCondition,
    TerminalWaitEnd, format_changes, format_screen,
};

use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::CallContext;
use crate::context::ToolContext;
use crate::delivery::DeliveryAck;
use crate::terminal::{self, TaskScreen};
use crate::text::{self, LINE_COLUMNS, millis};

pub(super) const DESCRIPTION: &str = "\
Type into the terminal of a `pty` task, wait until the program waits for input again, and show \
what has changed on the screen. Never type a password.";

/// The value of `if_screen` that stands for the screen in the last answer.
const LAST_SCREEN: &str = "last";
/// Maximum duration of the wait without `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval at which a wait checks whether the caller has canceled the call, in milliseconds.
const WAIT_SLICE_MS: u64 = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeysArgs {
    /// Task id, prefix or name.
    id: String,
    /// Keys in tmux's spelling (`Enter`, `C-c`, `M-x`, `Up`, `F5`) and texts, in order, such as
    /// `["yes", "Enter"]`; empty to only wait.
    #[serde(default)]
    keys: Vec<String>,
    /// Type the names of keys as text, too.
    #[serde(default)]
    literal: bool,
    /// Type only if the screen is still the last one shown (`last`), or the one with this hash.
    #[serde(default)]
    if_screen: Option<String>,
    /// `input` (default), `idle` (no output for 0.5 s) or `screen:REGEX`.
    #[serde(default)]
    wait_for: Option<String>,
    /// Maximum seconds to wait (default 15).
    #[serde(default)]
    timeout: Option<f64>,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: KeysArgs,
) -> Result<ToolAnswer, ToolError> {
    let keys = parse_keys(&args, context.dialect)?;
    let condition = parse_condition(args.wait_for.as_deref())?;
    let timeout =
        args.timeout.map(|timeout| text::parse_seconds("timeout", timeout)).transpose()?;
    let bound = call.limit_wait(timeout.unwrap_or(DEFAULT_TIMEOUT));
    let requester = call.name();
    let (id, mut terminal, before) = run_blocking(|| open_terminal(context, &args.id, requester))?;
    let if_screen = find_screen(context, id, args.if_screen.as_deref())?;
    let if_screen = parse_hash(if_screen.as_deref())?;
    if !keys.is_empty()
        && let Err(error) = run_blocking(|| terminal.type_keys(&keys, if_screen.as_ref()))
    {
        return run_blocking(|| refusal_answer(context, id, &mut terminal, error));
    }
    let end = wait_for_effect(context, call, id, &mut terminal, &condition, bound).await?;
    run_blocking(|| {
        // Read before the screen, which therefore shows the effect of all records in this state.
        let state = context.snapshot(id)?.state;
        let after = TaskScreen::read_live(context, id, &mut terminal)?;
        let mut answer = match after.has_ended {
            true => text::ended_answer(context, id)?,
            false => ToolAnswer::from_line(after.describe(id))
                .with_ack(DeliveryAck::TaskReported(Box::new(state), Coverage::Screen)),
        };
        let known = before.content_hash();
        let is_known = if_screen.as_ref().is_some_and(|seen| seen.matches(&known))
            || context.shown_screens.last(id) == Some(known);
        answer.output = Some(match is_known {
            true => format_changes(&before, &after.screen, &keys),
            false => format_screen(&after.screen),
        });
        if end == TerminalWaitEnd::TimedOut && !after.has_ended {
            let wanted = one_line(args.wait_for.as_deref().unwrap_or("input"), LINE_COLUMNS);
            answer.lines.insert(0, format!("not yet ({wanted}) after {}", format_duration(bound)));
        }
        context.shown_screens.record(id, after.screen.content_hash());
        Ok(answer)
    })
}

fn parse_keys(args: &KeysArgs, dialect: Dialect) -> Result<Vec<KeyInput>, ToolError> {
    let parse = |word: &String| {
        if args.literal {
            return Ok(KeyInput::Text(word.clone()));
        }
        parse_key(word).map_err(|error| {
            ToolError::Arguments(format!("`keys`: {}", key_error_text(&error, dialect)))
        })
    };
    args.keys.iter().map(parse).collect()
}

/// Returns the text of `if_screen`, with the hash of the last shown screen in place of `last`.
fn find_screen(
    context: &ToolContext,
    id: TaskId,
    text: Option<&str>,
) -> Result<Option<String>, ToolError> {
    if text.map(str::trim) != Some(LAST_SCREEN) {
        return Ok(text.map(str::to_owned));
    }
    let shown = context.shown_screens.last(id);
    shown.map(Some).ok_or_else(|| {
        let screen = context.dialect.format_tool("screen");
        ToolError::Arguments(format!(
            "`if_screen`: `{LAST_SCREEN}` needs an earlier answer to this caller with the screen of \
             {id}; pass the hash that {screen} shows"
        ))
    })
}

fn parse_hash(text: Option<&str>) -> Result<Option<ScreenHash>, ToolError> {
    let parse = |text: &str| text.trim().parse::<ScreenHash>();
    text.map(parse)
        .transpose()
        .map_err(|error: ScreenHashError| ToolError::Arguments(format!("`if_screen`: {error}")))
}

fn parse_condition(text: Option<&str>) -> Result<TerminalCondition, ToolError> {
    let Some(text) = text else { return Ok(TerminalCondition::Input) };
    text.trim().parse().map_err(|error: ScreenConditionError| {
        ToolError::Arguments(if matches!(error, ScreenConditionError::Form { .. }) {
            format!("`wait_for`: `{text}` is not one of `input`, `idle`, `screen:REGEX`")
        } else {
            format!("`wait_for`: {error}")
        })
    })
}

/// Connects to the terminal of a task, and reads the screen before the keys.
fn open_terminal<'c>(
    context: &'c ToolContext,
    task: &str,
    requester: &str,
) -> Result<(TaskId, LiveTerminal<'c>, Screen), ToolError> {
    let snapshot = context.snapshot(context.find_task(task)?)?;
    let id = snapshot.dir.id();
    if let Some(error) = terminal::host_terminal_error(context, &snapshot) {
        return Err(error);
    }
    if snapshot.state.is_live() && snapshot.state.terminal.is_none() {
        return Err(TerminalError::Refused { id, refusal: KeysRefusal::NoTerminal }.into());
    }
    let mut terminal = terminal::open_live(context, id, requester)?;
    let before = terminal.screen()?;
    Ok((id, terminal, before))
}

/// Waits for the effect of the keys.
async fn wait_for_effect<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    id: TaskId,
    terminal: &mut LiveTerminal<'_>,
    condition: &TerminalCondition,
    bound: Duration,
) -> Result<TerminalWaitEnd, ToolError> {
    let until = clock::monotonic_now().plus_ms(millis(bound));
    let mut cancelled = pin!(call.cancelled());
    loop {
        let left_ms = until.ms_since(clock::monotonic_now());
        let end = run_blocking(|| terminal.wait(condition, left_ms.min(WAIT_SLICE_MS)))?;
        if end != TerminalWaitEnd::TimedOut || left_ms <= WAIT_SLICE_MS {
            return Ok(end);
        }
        tokio::select! {
            biased;
            _gone = &mut cancelled => return Err(ToolError::Cancelled),
            () = call.progress_due() => {
                let snapshot = run_blocking(|| context.snapshot(id)).ok();
                call.report_progress(context, snapshot.as_ref(), bound).await;
            }
            () = std::future::ready(()) => {}
        }
    }
}

/// Returns the answer after keys that were not typed. For a changed screen, the answer contains the
/// current one, so that the model can decide without another call.
fn refusal_answer(
    context: &ToolContext,
    id: TaskId,
    terminal: &mut LiveTerminal<'_>,
    error: LiveTerminalError,
) -> Result<ToolAnswer, ToolError> {
    let is_changed = matches!(
        &error,
        LiveTerminalError::Terminal(TerminalError::Refused {
            refusal: KeysRefusal::ScreenChanged { .. },
            ..
        })
    );
    let refusal = ToolError::from(error);
    if !is_changed {
        return Err(refusal);
    }
    let present = TaskScreen::read_live(context, id, terminal)?;
    let mut answer = ToolAnswer::from_line(refusal.format_line(context.dialect));
    answer.lines.push("the present screen follows".to_owned());
    answer.output = Some(format_screen(&present.screen));
    answer.is_error = true;
    context.shown_screens.record(id, present.screen.content_hash());
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(keys: &[&str], literal: bool) -> KeysArgs {
        let keys = keys.iter().map(|word| (*word).to_owned()).collect();
        let id = "b-1".to_owned();
        KeysArgs { id, keys, literal, if_screen: None, wait_for: None, timeout: None }
    }

    #[test]
    fn words_are_keys_or_texts() {
        let keys = parse_keys(&args(&["yes", "Enter"], false), Dialect::Tools).unwrap();
        assert!(matches!(&keys[..], [KeyInput::Text(text), KeyInput::Key(_)] if text == "yes"));
        let keys = parse_keys(&args(&["Enter"], true), Dialect::Tools).unwrap();
        assert!(matches!(&keys[..], [KeyInput::Text(text)] if text == "Enter"));
        let error = parse_keys(&args(&["Ctrl-C"], false), Dialect::Agent).unwrap_err().to_string();
        assert!(error.contains("`C-c`") && error.contains("`literal`"), "{error}");
    }

    #[test]
    fn a_text_that_is_no_hash_is_an_error_that_names_the_argument() {
        assert_eq!(parse_hash(None).unwrap(), None);
        assert!(
            parse_hash(Some(" 5f3a9c1b\n")).unwrap().is_some_and(|hash| hash.matches("5f3a9c1b0"))
        );
        let error = parse_hash(Some("5f3a")).unwrap_err().to_string();
        assert!(error.starts_with("`if_screen`: `5f3a` is not the hash"), "{error}");
    }

    #[test]
    fn a_wrong_condition_is_reported_with_the_allowed_ones() {
        assert!(matches!(parse_condition(None), Ok(TerminalCondition::Input)));
        assert!(matches!(parse_condition(Some("idle")), Ok(TerminalCondition::Idle)));
        assert!(matches!(parse_condition(Some("screen:^>")), Ok(TerminalCondition::Screen(_))));
        for (text, part) in [("exit", "one of `input`, `idle`"), ("screen:(", "`(` is not a reg")] {
            let error = parse_condition(Some(text)).unwrap_err().to_string();
            assert!(error.starts_with("`wait_for`: ") && error.contains(part), "{error}");
        }
    }
}
