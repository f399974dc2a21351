//! `siding attach`: connects a person's terminal with the terminal of a task.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use siding_core::store::StateDir;
use siding_core::task::run::{CallEnd, wait_attached};
use siding_core::task::view::ViewDetail;
use siding_core::task::watch::TaskWatch;
use siding_model::foreground_call::CallPolicy;
use siding_model::id::TaskId;
use siding_model::notice::Coverage;
use siding_model::terminal::{DetachKeys, InputModes, TerminalState, parse_key};
use siding_model::text::one_line;

use crate::attachment::{self, AttachmentOptions, LeaveKeys, TerminalCaller};
use crate::caller;
use crate::context::{self, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, ended_line};
use crate::stdout;
use crate::terminal_replay;

/// The keys that detach unless `--detach-keys` names others.
const DEFAULT_DETACH_KEYS: &str = "C-\\ C-\\";
/// Restores the title that [`TerminalCaller::show_first_screen`] has saved (XTWINOPS 23).
const RESTORE_TITLE: &[u8] = b"\x1b[23;2t";
/// Maximum number of rows of the task's scroll-back that are copied into that of this terminal.
const SCROLLBACK_ROWS: usize = 1_000;

/// Connects this terminal with the terminal of a task; Ctrl-\ twice leaves it.
///
/// Shows the task's screen immediately, below up to 1,000 lines that have left its top, and passes
/// on every key except the detach keys. The task's terminal takes the size of this one. While a
/// person types, an agent's keys are refused. The task continues after a detach, and after the loss
/// of this terminal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding attach b-4k7q                      leave with Ctrl-\\ Ctrl-\\
  siding attach --read-only                 watch the newest terminal
  siding attach web --detach-keys 'C-a d'   leave as screen does
  siding attach web --steal                 refuse an agent's keys from now on

Any number of people may attach. Exit codes: 0 after a detach; the task's own
code if it ended meanwhile.")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one (default: the running task
    /// with a terminal that was started last)
    #[arg(value_name = "ID")]
    id: Option<String>,
    /// Watch only: no key except the detach keys has an effect, and the size stays
    #[arg(long)]
    read_only: bool,
    /// Take the terminal before the first key, also from the people who type; an agent is refused
    /// until you leave or type nothing for `attach_idle` (30 s)
    #[arg(long, conflicts_with = "read_only")]
    steal: bool,
    /// Keys that detach, in the spelling of `siding keys`, separated by spaces; `none` for no keys
    #[arg(long, value_name = "KEYS", default_value = DEFAULT_DETACH_KEYS)]
    detach_keys: String,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = match &self.id {
            Some(text) => context::resolve_task(&root, text, false)?,
            None => context::last_running_terminal(&root)?,
        };
        context::recover(&root, id)?;
        let task = Task::read(&root, id)?;
        check_task(&root, &task)?;
        // A program that acts for an agent would bypass the lease of a person and the refusal of
        // secrets.
        if !self.read_only {
            caller::require_person_outside_tasks(
                "only a person may type through `siding attach`",
                &format!("siding attach {id}"),
                &format!("`siding keys {id}` types for an agent; --read-only only watches"),
            )?;
        }
        let options = AttachmentOptions {
            requester: "siding attach",
            leave_keys: LeaveKeys::Detach(DetachKeys::new(self.detach_sequence()?)),
            title: Some(self.title(id)),
            is_read_only: self.read_only,
            takes_terminal: self.steal,
            owns_command: false,
            report_step: None,
        };
        match attach(&root, &task, options)? {
            CallEnd::Left => {
                render::print_note(&format!(
                    "left {id}, which continues; `siding attach {id}` returns to it"
                ));
                Ok(ExitCode::SUCCESS)
            }
            CallEnd::Returned(..) => {
                let ended = Task::read(&root, id)?;
                errln!("siding: {}", ended_line(&ended.view(&root, ViewDetail::Brief)));
                context::mark_consumed(&root, &ended.state, Coverage::Status);
                Ok(ExitCode::from(exit::code_for_task(&ended.state)))
            }
        }
    }

    /// Returns the title, which says how to leave. It stays visible unless the program sets another
    /// one.
    fn title(&self, id: TaskId) -> String {
        let leave = match self.detach_keys.as_str() {
            // The signal ends the call as a detachment does.
            "none" => format!(
                "closing this terminal or `kill {}` leaves it, and it ends with the task",
                std::process::id()
            ),
            DEFAULT_DETACH_KEYS => "Ctrl-\\ twice leaves it".to_owned(),
            keys => format!("{} leaves it", one_line(keys, usize::MAX)),
        };
        let read_only = if self.read_only { ", read-only" } else { "" };
        format!("{id}{read_only}; {leave}")
    }

    /// Returns the bytes of the detach keys.
    fn detach_sequence(&self) -> Result<Vec<u8>, Failure> {
        if self.detach_keys == "none" {
            return Ok(Vec::new());
        }
        let mut sequence = Vec::new();
        for word in self.detach_keys.split_whitespace() {
            let key =
                parse_key(word).map_err(|error| Failure::new(format!("--detach-keys: {error}")))?;
            let bytes = key.encode(InputModes::default());
            sequence
                .extend(bytes.map_err(|error| Failure::new(format!("--detach-keys: {error}")))?);
        }
        Ok(sequence)
    }
}

/// Connects the terminals until the person leaves or the task ends.
fn attach(root: &StateDir, task: &Task, options: AttachmentOptions) -> Result<CallEnd, Failure> {
    let id = task.dir.id();
    let watch = TaskWatch::open(root, SHIM_PROGRAM, id)?;
    if watch.is_finished() {
        return Err(ended_failure(id));
    }
    let signals = attachment::block_signals()?;
    let size = task.state.terminal.as_ref().map(TerminalState::size);
    let mut caller = TerminalCaller::open(root, id, &signals, size, options)?;
    let policy = CallPolicy::until_task_end(&task.state.spec);
    let shown = caller.show_first_screen(SCROLLBACK_ROWS);
    let end = shown.and_then(|()| wait_attached(watch, policy, &mut caller));
    // The terminal is restored before any message is printed.
    caller.leave();
    let _peer_gone = stdout::print_bytes(RESTORE_TITLE);
    end
}

fn ended_failure(id: TaskId) -> Failure {
    Failure::new(format!("{id} has ended"))
        .with_hint(format!("`siding screen {id}` shows its last screen"))
}

/// Rejects a task or a caller without a terminal.
fn check_task(root: &StateDir, task: &Task) -> Result<(), Failure> {
    let id = task.dir.id();
    if let Some(failure) = terminal_replay::host_terminal_failure(root, task) {
        return Err(failure);
    }
    if task.state.spec.terminal.is_none() {
        return Err(Failure::new(format!("{id} has no terminal")).with_hint(
            "`siding run --pty` starts a command with one; `siding output --follow` shows any task",
        ));
    }
    if !task.state.is_live() {
        return Err(ended_failure(id));
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(Failure::new("attach needs a terminal as standard input and output")
            .with_hint(format!("`siding screen {id}` and `siding keys {id}` work without one")));
    }
    Ok(())
}
