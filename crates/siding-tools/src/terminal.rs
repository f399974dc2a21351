//! The terminals of tasks, as the tools show them to a model.

use std::time::Duration;

use siding_core::processes::host_terminal;
use siding_core::task::terminal::{TerminalClient, TerminalError};
use siding_model::advice::{Dialect, host_terminal_advice, host_terminal_text};
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::spec::TaskSpec;
use siding_model::terminal::{AwaitedInput, TerminalFacts, TerminalUser};
use siding_terminal::{
    LiveScreen, LiveTerminal, LiveTerminalError, Screen, TerminalHistory, TerminalReplay,
};

use crate::answer::ToolError;
use crate::async_fd::run_blocking;
use crate::context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};

/// Shortest and longest pause between two checks of a terminal during a call. The call ends only if
/// two checks, with the shortest pause between them, find the same wait for input.
const LOOK_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(500));
/// Requester name for a reader of the screen. The journal never contains it, because a reader
/// writes nothing.
const READER: &str = "siding";

/// The screen of a task, and what the task waits for.
#[derive(Debug)]
pub(crate) struct TaskScreen {
    pub(crate) screen: Screen,
    pub(crate) awaited: Option<AwaitedInput>,
    /// Milliseconds for which a person has held the terminal; `None` if no person holds it.
    pub(crate) taken_for_ms: Option<u64>,
    pub(crate) has_ended: bool,
    /// Whether a part of the output that the screen depends on is no longer stored.
    pub(crate) is_incomplete: bool,
}

impl TaskScreen {
    /// Reads the screen of a task that has a terminal.
    pub(crate) fn read(context: &ToolContext, snapshot: &TaskSnapshot) -> Result<Self, ToolError> {
        let id = snapshot.dir.id();
        if !snapshot.state.is_live() {
            return Self::read_stored(snapshot);
        }
        match open_live(context, id, READER) {
            Ok(mut terminal) => Self::read_live(context, id, &mut terminal),
            Err(error) => Self::read_after(context, id, error),
        }
    }

    /// Reads the screen of a task over an open connection.
    pub(crate) fn read_live(
        context: &ToolContext,
        id: TaskId,
        terminal: &mut LiveTerminal<'_>,
    ) -> Result<Self, ToolError> {
        match terminal.screen_with_input() {
            Ok(LiveScreen { screen, awaited, taken_for_ms }) => {
                let (_, is_incomplete) = terminal.position();
                Ok(Self { screen, awaited, taken_for_ms, has_ended: false, is_incomplete })
            }
            Err(error) => Self::read_after(context, id, error),
        }
    }

    /// Reads the last screen of a task whose terminal could not be read because the task has ended.
    fn read_after(
        context: &ToolContext,
        id: TaskId,
        error: LiveTerminalError,
    ) -> Result<Self, ToolError> {
        match error {
            LiveTerminalError::Terminal(TerminalError::Ended { .. }) => {
                Self::read_stored(&context.snapshot(id)?)
            }
            error @ (LiveTerminalError::Terminal(_)
            | LiveTerminalError::Key(_)
            | LiveTerminalError::Output { .. }) => Err(error.into()),
        }
    }

    /// Computes the screen from the output alone.
    pub(crate) fn read_stored(snapshot: &TaskSnapshot) -> Result<Self, ToolError> {
        let TaskSnapshot { dir, state } = snapshot;
        let Some(terminal) = &state.terminal else {
            return Err(ToolError::Arguments(format!("task {} has no terminal", dir.id())));
        };
        let has_ended = !state.is_live();
        let replay = TerminalReplay::open(dir, &TerminalHistory::from(terminal), None, has_ended)
            .map_err(|source| ToolError::Io { doing: "read the output", source })?;
        let (screen, is_incomplete) = (replay.screen(), replay.is_incomplete());
        Ok(Self { screen, awaited: None, taken_for_ms: None, has_ended, is_incomplete })
    }

    /// Describes the input that the running task waits for, and the restrictions that the caller
    /// must know.
    pub(crate) fn describe(&self, id: TaskId) -> String {
        let mut text = match self.awaited {
            Some(AwaitedInput::Line) => "it waits for a line".to_owned(),
            Some(AwaitedInput::Keys) => "it waits for keys".to_owned(),
            Some(AwaitedInput::Secret) => format!(
                "it asks for a secret, which only a person may type: ask the user to run `siding \
                 answer {id}`"
            ),
            None => "it does not wait for input".to_owned(),
        };
        if let Some(taken_ms) = self.taken_for_ms {
            let taken = format_duration(Duration::from_millis(taken_ms));
            text.push_str(&format!(
                "; a person has had the terminal for {taken}, so keys are refused"
            ));
        }
        if self.is_incomplete {
            text.push_str("; the screen may lack text, because older output is no longer stored");
        }
        text
    }

    /// Returns the text of [`Self::describe`], and the tools for the next step.
    pub(crate) fn describe_with_tools(&self, id: TaskId, dialect: Dialect) -> String {
        let text = self.describe(id);
        let (keys, screen) = (dialect.format_tool("keys"), dialect.format_tool("screen"));
        match self.awaited {
            Some(AwaitedInput::Secret) => text,
            Some(AwaitedInput::Line | AwaitedInput::Keys) => format!("{text}; {keys} types"),
            None => format!("{text}; {keys} types, {screen} shows its screen again"),
        }
    }
}

/// Returns the error of a call about the terminal, or the input, of an adopted task that runs on a
/// terminal which siding has not opened; `None` for any other task.
pub(crate) fn host_terminal_error(
    context: &ToolContext,
    snapshot: &TaskSnapshot,
) -> Option<ToolError> {
    let path = host_terminal::find(&context.root, &snapshot.state)?;
    let id = snapshot.dir.id();
    let (reason, advice) =
        (host_terminal_text(id, &path), host_terminal_advice(id, context.dialect));
    Some(ToolError::Arguments(format!("{reason}; {advice}")))
}

/// Connects to the terminal of a running task on behalf of an agent. `requester` is the name of the
/// caller in the journal.
pub(crate) fn open_live<'c>(
    context: &'c ToolContext,
    id: TaskId,
    requester: &str,
) -> Result<LiveTerminal<'c>, LiveTerminalError> {
    LiveTerminal::open(&context.root, SHIM_PROGRAM, id, TerminalUser::Agent, requester)
}

/// Resolves when a new task waits for input from its terminal. Never resolves for a task without a
/// terminal, or if its caller waits for readiness conditions.
pub(crate) async fn wait_for_reader(context: &ToolContext, spec: &TaskSpec) {
    if spec.terminal.is_none() || !spec.wait_for.is_empty() {
        return std::future::pending().await;
    }
    let mut client = None;
    let mut pause = LOOK_PAUSE.0;
    let mut previous = None;
    loop {
        tokio::time::sleep(pause).await;
        let facts = run_blocking(|| read_facts(context, spec.task_id, &mut client));
        let seen = facts
            .filter(TerminalFacts::awaits_input)
            .map(|facts| (facts.output_bytes, facts.input));
        // A program may poll its input between two steps of its work.
        if seen.is_some() && seen == previous {
            return;
        }
        pause = if seen.is_some() { LOOK_PAUSE.0 } else { (pause * 2).min(LOOK_PAUSE.1) };
        previous = seen;
    }
}

/// Returns the state of a terminal; `None` before the terminal exists, and after the end of the
/// task.
fn read_facts<'c>(
    context: &'c ToolContext,
    id: TaskId,
    client: &mut Option<TerminalClient<'c>>,
) -> Option<TerminalFacts> {
    if client.is_none() {
        let user = TerminalUser::Agent;
        *client = TerminalClient::open(&context.root, SHIM_PROGRAM, id, user, READER).ok();
    }
    let facts = client.as_mut()?.facts().ok();
    if facts.is_none() {
        *client = None;
    }
    facts
}

#[cfg(test)]
mod tests {
    use siding_model::terminal::TerminalSize;
    use siding_terminal::Emulator;

    use super::*;

    #[test]
    fn a_model_is_told_what_the_task_waits_for() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let screen = || TaskScreen {
            screen: Emulator::new(TerminalSize::DEFAULT).screen(),
            awaited: None,
            taken_for_ms: None,
            has_ended: false,
            is_incomplete: false,
        };
        let awaiting = |awaited| TaskScreen { awaited: Some(awaited), ..screen() };
        let text = awaiting(AwaitedInput::Line).describe_with_tools(id, Dialect::Agent);
        assert_eq!(text, "it waits for a line; `task_keys` types");
        let text = awaiting(AwaitedInput::Secret).describe_with_tools(id, Dialect::Tools);
        assert!(text.ends_with("ask the user to run `siding answer b-4k7q0n2m8x5t`"), "{text}");
        let text = screen().describe_with_tools(id, Dialect::Tools);
        assert!(
            text.ends_with("not wait for input; `keys` types, `screen` shows its screen again")
        );
        let text = TaskScreen { taken_for_ms: Some(12_000), ..screen() }.describe(id);
        assert!(text.contains("a person has had the terminal for 12s"), "{text}");
    }
}
