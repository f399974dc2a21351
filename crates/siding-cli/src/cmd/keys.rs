//! `siding keys`: types into the terminal of a task.

use std::process::ExitCode;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::task::view::ViewDetail;
use siding_model::advice::{Dialect, key_error_text};
use siding_model::id::TaskId;
use siding_model::task_view::ScreenView;
use siding_model::terminal::{KeyInput, ScreenHash, parse_key};
use siding_terminal::{
    ColorDetail, LiveTerminal, TerminalCondition, TerminalWaitEnd, format_changes,
};

use super::parse_duration;
use super::wait::terminal::print_unmet;
use crate::caller;
use crate::context::{self, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, ended_line, out};
use crate::terminal_replay;

/// The name under which the journal records the writer.
const REQUESTER: &str = "siding keys";

/// Types into the terminal of a task that was started with `--pty`.
///
/// A word that is the name of a key, in the spelling of tmux, presses the key; any other word is
/// typed as text. With --wait-for the call waits for the effect, and shows what has changed on the
/// screen: one call for each step of a dialog.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding keys b-4k7q yes Enter --wait-for input      answer, show what follows
  siding keys b-4k7q C-c                             interrupt
  siding keys b-4k7q Down Down Enter                 choose in a menu
  siding keys b-4k7q -l 'C-c is text'                no key names
  siding keys b-4k7q --if-screen 3f2a9c1b y         only if nothing has changed

Keys: C-x, M-x, S-Tab, Enter, Escape, Tab, Space, BSpace, Up, Down, Left, Right,
Home, End, PageUp, PageDown, Insert, Delete, F1 to F12; click:COLUMN,ROW.

Conditions: `input` (a program in the foreground waits for input and has read
everything typed), `idle` (no output for 0.5 s), `screen:REGEX`.

Exit codes: 0 after the condition, or after the keys; 1 if the task ended first;
124 if the time has passed; 125 if not all keys were typed, because the screen
has changed, a person types, a program asks for a secret, or the task has ended,
or if that is unknown. The message says how many characters were typed.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    /// Keys and texts, in the order in which they are typed; only with --wait-for, none is needed
    #[arg(value_name = "KEY", required_unless_present = "wait_for")]
    keys: Vec<String>,
    /// Type every word as text, also the names of keys
    #[arg(short, long)]
    literal: bool,
    /// Type only if the screen still has this hash; its first 8 digits are enough
    #[arg(long, value_name = "HASH")]
    if_screen: Option<ScreenHash>,
    /// Then wait for `input`, `idle` or `screen:REGEX`, and show what has changed on the screen
    #[arg(long, value_name = "WHAT")]
    wait_for: Option<TerminalCondition>,
    /// How long to wait
    #[arg(long, value_name = "D", default_value = "15s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding keys`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "keys")]
pub(super) struct KeysView {
    /// The complete id of the task.
    task_id: TaskId,
    /// End of the wait: `met`, `timeout` or `ended`; null without `--wait-for`.
    wait: Option<&'static str>,
    /// The screen after the keys and the wait.
    screen: ScreenView,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let task = Task::find(&root, &self.id, self.json)?;
        let id = task.dir.id();
        let keys = self.parse_keys()?;
        if let Some(failure) = terminal_replay::host_terminal_failure(&root, &task) {
            return Err(failure);
        }
        let user = caller::terminal_user();
        let mut terminal = LiveTerminal::open(&root, SHIM_PROGRAM, id, user, REQUESTER)?;
        let before = terminal.screen()?;
        if !keys.is_empty() {
            terminal.type_keys(&keys, self.if_screen.as_ref())?;
        }
        let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
        let wait = self.wait_for.as_ref();
        let end = wait.map(|wanted| terminal.wait(wanted, timeout_ms)).transpose()?;
        // The task may have ended, so the screen is computed only from the output.
        let task = Task::read(&root, id)?;
        let replay = terminal_replay::open(id, &task.dir, None)?;
        let after = replay.screen();
        if self.json {
            let has_ended = !task.state.is_live();
            let (offset, gap) = (replay.offset(), replay.is_incomplete());
            let screen = after.to_view(id, offset, has_ended, gap, ColorDetail::Text);
            render::json::print(&KeysView {
                task_id: id,
                wait: end.map(TerminalWaitEnd::as_str),
                screen,
            })?;
        } else if let (Some(condition), Some(end)) = (wait, end) {
            let changes = format_changes(&before, &after, &keys);
            out::print(&format!("{changes}hash {}\n", after.short_hash()))?;
            print_unmet(condition, self.timeout, end);
            if !task.state.is_live() {
                errln!("siding: {}", ended_line(&task.view(&root, ViewDetail::Brief)));
            }
        }
        Ok(ExitCode::from(match end {
            None | Some(TerminalWaitEnd::Met) => 0,
            Some(TerminalWaitEnd::Ended) => 1,
            Some(TerminalWaitEnd::TimedOut) => exit::TIMED_OUT,
        }))
    }

    fn parse_keys(&self) -> Result<Vec<KeyInput>, Failure> {
        let parse = |word: &String| {
            if self.literal {
                return Ok(KeyInput::Text(word.clone()));
            }
            parse_key(word).map_err(|error| Failure::new(key_error_text(&error, Dialect::Commands)))
        };
        self.keys.iter().map(parse).collect()
    }
}
