//! `siding run`: runs a command as a task.

mod auto_background;
mod caller_descriptors;
mod duplicate;
mod empty_input;
mod follow;
mod job_options;
mod keyboard;
mod limits;
mod match_printer;
mod not_found;
mod plan;
mod progress;
mod project_copy;
mod same_name;
mod stdin_source;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use clap::ValueEnum;
use siding_core::output;
use siding_core::sys::signals;
use siding_core::task::launch::IdleShim;
use siding_core::task::run::LaunchResult;
use siding_core::task::view::ViewDetail;
use siding_model::advice::budget_stop_advice;
use siding_model::id::{TaskId, TaskKind};
use siding_model::monitor::Monitor;
use siding_model::outcome::{BackgroundReason, Outcome};
use siding_model::signal::Signal;
use siding_model::size::size_in_words;
use siding_model::task_view::TaskView;
use siding_model::terminal::TerminalSize;
use siding_model::wait::Condition;

use crate::context::{self, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};
use crate::run_history;
use crate::stderr;

use stdin_source::StdinSource;

/// Runs a command as a task.
///
/// A single argument is a shell command line; several are a program and its arguments. For a person
/// at a terminal the call returns when the shell ends, and Ctrl-B moves the command to the
/// background. For an agent, without a terminal, and with --budget, the command moves there when
/// the budget has passed. The same process continues in the background. At its deadline (--timeout)
/// the task is terminated with everything it started.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Machine that runs the command: an executor of the settings (`siding executors`), perhaps with
    /// a partition (`slurm:gpu`); `slurm` is the cluster of this machine, and `local` this machine
    #[arg(long, value_name = "EXECUTOR")]
    pub(super) on: Option<String>,
    #[command(flatten)]
    copies: project_copy::CopyArgs,
    /// How long to wait before the command moves to the background (`15s`, `2m`, `none`; default:
    /// `none` for a person at a terminal, otherwise blocking_budget, 15s)
    #[arg(long, value_name = "D")]
    pub(super) budget: Option<String>,
    /// Start in the background and return immediately, or after --settle
    #[arg(long, short_aliases = ['b', 'd'])]
    pub(super) background: bool,
    /// Start in the background if the command is known to take longer than the budget: from earlier
    /// runs, otherwise by its words (`cargo build`, `npm install`, `make` …)
    #[arg(long)]
    auto_background: bool,
    /// Notify the agent once when this condition holds: `output:REGEX`, `port:N`, `http:URL`,
    /// `file:PATH`; if repeated, when all conditions hold. Without --background the call returns at
    /// that time or after the budget, and the command continues
    #[arg(long, value_name = "WHAT", value_parser = super::wait::parse_readiness_condition)]
    wait_for: Vec<Condition>,
    /// With --background: how long to wait for an early end, whose outcome, output and exit code
    /// are then the result of the call (default: settle, 0s; for a person at a terminal 200ms
    /// unless settle is set)
    #[arg(long, value_name = "D")]
    settle: Option<String>,
    /// Time after which the task is terminated with everything it started (`90s`, `2h`; `none`: the
    /// cap, max_elapsed_hard_cap; default: max_elapsed, 30m, which counts only in the background if
    /// a person waits at a terminal). `siding extend` moves this deadline
    #[arg(long, value_name = "D")]
    pub(super) timeout: Option<String>,
    /// Action after the budget or the timeout. By default the budget moves the command to the
    /// background and the timeout stops it; this sets one action for both
    #[arg(long, value_name = "WHAT")]
    on_timeout: Option<OnTimeout>,
    /// Silence after which a stall is recorded; `0s` turns the check off (default: stall_after,
    /// 45s)
    #[arg(long, value_name = "D")]
    pub(super) stall_after: Option<String>,
    /// Time between the termination signal and the kill (default: kill_grace, 10s)
    #[arg(long, value_name = "D")]
    pub(super) grace: Option<String>,
    /// Termination signal (default: kill_signal, TERM)
    #[arg(long, value_name = "SIGNAL")]
    pub(super) signal: Option<String>,
    /// Session that owns the task (default: $SIDING_SESSION, otherwise the implicit one)
    #[arg(long, value_name = "ID")]
    pub(super) session: Option<String>,
    /// Let the task outlive its session, up to its deadline
    #[arg(long)]
    keep: bool,
    /// Working directory of the command (default: the current one)
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<std::path::PathBuf>,
    /// Variable to set for the command; may be repeated
    #[arg(long, value_name = "K=V")]
    pub(super) env: Vec<String>,
    /// Start from an empty environment
    #[arg(long)]
    env_clear: bool,
    /// Do not set the variables that keep an agent's programs from prompting and paging:
    /// `GIT_TERMINAL_PROMPT=0`, `GIT_EDITOR=false`, `DEBIAN_FRONTEND=noninteractive`, `PAGER=cat`.
    /// They are never set for a person at a terminal
    #[arg(long)]
    env_plain: bool,
    /// Standard input of the command: `auto` passes on a file, or the pipe of a pipeline that ends
    /// here, and otherwise nothing; `inherit` (this command's own), `null` (nothing), `pipe` (the
    /// text that `siding input` writes), or the path of a FILE (`./pipe` for a file with such a name)
    #[arg(long, value_name = "FROM", default_value = "auto", value_parser = stdin_source::parse)]
    stdin: StdinSource,
    /// Give the command a terminal of its own, for programs that ask, draw or need one: `siding
    /// screen` shows it, `siding keys` types into it, `siding attach` connects a person's terminal.
    /// At a terminal, a person's command in the foreground has one by default, except in Slurm
    #[arg(long, conflicts_with = "stdin")]
    pub(super) pty: bool,
    /// Give the command no terminal of its own, even for a person at a terminal (default:
    /// run_terminal, auto): it then cannot ask, and its standard error can be redirected alone
    #[arg(long, conflicts_with = "pty")]
    pub(super) no_pty: bool,
    /// Size of the terminal with --pty, as COLUMNSxROWS (default: 80x24; at a terminal its size)
    #[arg(long, value_name = "SIZE", requires = "pty")]
    pub(super) size: Option<TerminalSize>,
    /// Action on processes that outlive the shell: `linger` or `reap` (default: on_leader_exit,
    /// linger)
    #[arg(long, value_name = "WHAT")]
    pub(super) on_leader_exit: Option<String>,
    /// Network access of the command and everything it starts: `host` (unrestricted), `none`,
    /// `loopback` (its own), TCP `ports:443,8000-8010`, or through a proxy `allow:HOST,…` (default:
    /// net, host)
    #[arg(long, value_name = "POLICY")]
    pub(super) net: Option<String>,
    /// Start even if the same command already runs in the same directory. Without this flag an
    /// agent's command is refused, and a person at a terminal gets a note
    #[arg(long)]
    pub(super) allow_duplicate: bool,
    /// Name of the task, which commands accept in place of its id
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Shell that runs a single argument (default: shell, bash)
    #[arg(long, value_name = "SHELL")]
    pub(super) shell: Option<String>,
    /// Print the task as JSON instead of its output
    #[arg(long)]
    pub(super) json: bool,
    /// Command: one string for the shell, or a program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<std::ffi::OsString>,
    /// Rule for the lines that become notices; set by commands such as `siding monitor`.
    #[arg(skip)]
    pub(super) monitor: Option<Monitor>,
    /// Whether only the lines that `monitor` selects are shown.
    #[arg(skip)]
    pub(super) prints_matches: bool,
    /// Kind of the task; set by other commands that run a program in a task.
    #[arg(skip)]
    pub(super) kind: TaskKind,
    /// Id of the task, of the same kind; set if the program that starts the task has recorded the
    /// id before.
    #[arg(skip)]
    pub(super) id: Option<TaskId>,
    // These two must be the last fields: their help headings apply to all options after them.
    #[command(flatten)]
    limits: limits::LimitArgs,
    #[command(flatten)]
    job: job_options::JobArgs,
}

const EXAMPLES: &str = "\
Examples:
  siding run -- 'make -j2 && make test'            a shell command line
  siding run --budget 2s -- cargo build            background after 2 s
  siding run --background --name web -- npm start  in the background
  siding run --wait-for port:3000 -- npm start     returns when it listens
  siding run --timeout 5m --on-timeout stop -- ./flaky.sh
  siding run --net none -- ./tests.sh              without network
  siding run --on build --sync --fetch out -- make on another machine
  siding run --max-memory 4GiB --max-cpu-spin 5m --on-limit stop -- ./server

Keys at a terminal: Ctrl-B moves the command to the background (in tmux, press
it twice); `siding attach` returns to it; pressed twice within 0.5 s, Ctrl-B
reaches the command once. Ctrl-Z returns to the shell: it suspends this call,
the command continues, and `fg` shows it again; a program that reads single
keys, and a job of a shell in the task, receive the key themselves. All other
keys reach the command as without siding, also Ctrl-C. If a command that reads lines continues for 3 s after two
Ctrl-C, a line says so, and the next Ctrl-C stops it as described below.

Keys with --no-pty, with another input or output, and in a pipeline: Ctrl-B
moves the command to the background, in a pipeline after 5 s and only with
programs such as tee and grep: a pager reads the keys itself. Ctrl-C stops it
with SIGINT, and after half of --grace with SIGTERM; a second Ctrl-C kills it.
Ctrl-\\ does the same with SIGQUIT instead of SIGINT. Ctrl-Z suspends only
this call, and the command continues; `fg` and `bg` of the shell continue the
call.

Exit codes: the command's own; 128+n if signal n ended it; 141 if it wrote after
the reader of its output had exited, as in `siding run yes | head -1`, which
stops a person's command; 75 if it continues in the background; 79 if nothing
was started, because the same command already runs; 124 at the deadline; 125 if
siding itself failed; 126 and 127 as in a shell. With --wait-for: 0 if it is
ready, 1 if it ended with 0 before.";

/// The action after the budget or the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnTimeout {
    /// Move the command to the background
    Background,
    /// Stop the command
    Stop,
}

impl Args {
    /// Runs the command; `shim` supervises it.
    pub(crate) fn run(self, shim: io::Result<IdleShim>) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let mut plan = plan::prepare(&self, &root)?;
        // Signals are read from a descriptor from here on, so that an interrupt between start and
        // wait is not lost.
        let signals = follow::block_signals(&plan)?;
        let link = match plan::start_task(&root, &mut plan, shim)? {
            LaunchResult::Started(link) => link,
            LaunchResult::Duplicate(first) => {
                return duplicate::report_refusal(&root, first, self.json);
            }
        };
        let followed = follow::follow(&root, &plan, link, &signals, self.shown_output())?;
        let (task, detached_by) = match followed.end {
            follow::FollowEnd::Finished(task) => (*task, None),
            follow::FollowEnd::Detached(signal) => {
                (Task::read(&root, plan.task.id())?, Some(signal))
            }
        };
        let reader = if self.json {
            self.print_json(&root, &task, &plan)?
        } else {
            self.print_text(&root, &task, &plan)?
        };
        // After a hand-over, the advice already says that more output will follow, so only the
        // output of an ended task is reported as cut.
        let is_cut = !task.state.is_live() && followed.unshown > 0;
        if is_cut && detached_by.is_none() {
            let unshown = size_in_words(followed.unshown);
            let id = task.state.spec.task_id;
            render::print_note(&format!(
                "the last {unshown} of its output were not read; `siding output {id}` shows them"
            ));
        }
        if detached_by.is_none() && reader == out::ReaderState::Connected {
            if !is_cut {
                context::mark_returned(&root, &task);
            }
            // The next `siding output` starts with the output that this call has not shown.
            if (task.state.is_live() || is_cut)
                && let Some(shown) = followed.shown
            {
                context::advance_read_cursor(&task.dir, &context::current_session(), shown);
            }
        }
        let code = match detached_by {
            Some(signal) => exit::code_for_signal(signal),
            None if followed.is_disconnected => exit::code_for_signal(Signal::PIPE),
            // The caller requested a background task, and the task has started.
            None if self.background && task.state.is_live() => 0,
            // The next program of a person's pipeline has received only a part of the output.
            None if plan.is_person
                && !io::stdout().is_terminal()
                && (followed.lost_output || could_not_store_output(&task)) =>
            {
                exit::SIDING_FAILED
            }
            None => exit::code_for_task(&task.state),
        };
        if plan.is_person && followed.is_interrupted && code == exit::code_for_signal(Signal::INT) {
            if follow::is_attached(&plan) {
                // The key sent no signal to this process group, but the shell of a script expects
                // to receive it.
                signals::signal_own_group(Signal::INT);
            }
            // A shell ends its script or loop only if the program was ended by the signal.
            signals::raise_unblocked(Signal::INT);
        }
        Ok(ExitCode::from(code))
    }

    /// Sets the kind of the task and, if the caller has recorded one, the id of the task.
    pub(super) fn set_kind(&mut self, kind: TaskKind, id: Option<TaskId>) -> Result<(), Failure> {
        if let Some(id) = id.filter(|id| id.kind() != kind) {
            return Err(Failure::new(format!("{id} is the id of another kind of task")));
        }
        self.kind = kind;
        self.id = id;
        Ok(())
    }

    /// Returns the part of the output that is shown during the wait.
    const fn shown_output(&self) -> follow::ShownOutput<'_> {
        match &self.monitor {
            _ if self.json || self.background => follow::ShownOutput::Nothing,
            Some(monitor) if self.prints_matches => follow::ShownOutput::MatchingLines(monitor),
            Some(_) | None => follow::ShownOutput::Output,
        }
    }

    fn print_json(
        &self,
        root: &siding_core::store::StateDir,
        task: &Task,
        plan: &plan::RunPlan,
    ) -> Result<out::ReaderState, Failure> {
        let mut view = task.view(root, ViewDetail::Full);
        add_expectation(root, &mut view);
        let keep_head = task.state.spec.keep_head;
        let is_over = view.outcome.is_some() || view.leader_outcome.is_some();
        let excerpt = match is_over {
            true => output::excerpt(&task.dir, keep_head, plan.output_max_bytes),
            false => output::handover_excerpt(&task.dir, keep_head, plan.handover_max_bytes),
        };
        if let Ok(excerpt) = excerpt {
            view.output.text = Some(excerpt.text);
            view.output.truncated = excerpt.truncated;
        }
        let advice = advice(root, task, &view, plan);
        view.message = plan.notes.iter().cloned().chain(advice).reduce(join_messages);
        render::json::print_to_reader(&view)
    }

    /// Prints the result of a call without `--json`: a background task's id on standard output, and
    /// notes on standard error, because the command's output is on standard output.
    fn print_text(
        &self,
        root: &siding_core::store::StateDir,
        task: &Task,
        plan: &plan::RunPlan,
    ) -> Result<out::ReaderState, Failure> {
        for note in &plan.notes {
            render::print_note(note);
        }
        let mut reader = out::ReaderState::Connected;
        if self.background {
            reader = out::print(&format!("{}\n", task.state.spec.task_id))?;
        }
        let mut view = task.view(root, ViewDetail::Full);
        add_expectation(root, &mut view);
        if self.background && !task.state.is_live() {
            // No output of this task was shown while the call waited, so an excerpt is printed.
            let keep_head = task.state.spec.keep_head;
            render::print_note(&render::ended_line(&view));
            if let Ok(excerpt) = output::excerpt(&task.dir, keep_head, plan.handover_max_bytes) {
                let _peer_gone = stderr::print(&excerpt.text);
            }
        }
        // A breach that did not stop the task is reported here, because this call acknowledges the
        // notice of the breach.
        let limits = &task.state.spec.limits;
        let breaches = view.breaches.iter().filter(|breach| !limits.stops_at(breach));
        breaches.for_each(|breach| render::print_note(&breach.detail));
        if !is_ended_by_key(task, plan)
            && let Some(advice) = advice(root, task, &view, plan)
        {
            render::print_task_note(&advice, &view);
        }
        let advice = not_found::advice_for_person(&task.state).or_else(|| {
            // A person who sets --stdin null knows that the input is empty.
            let is_automatic = self.stdin == StdinSource::Auto;
            is_automatic.then(|| empty_input::advice_for_person(plan, task)).flatten()
        });
        if let Some(advice) = advice {
            render::print_note(&advice);
        }
        Ok(reader)
    }
}

/// Returns whether a part of the output of an ended task is missing, for example because the disk
/// was full.
fn could_not_store_output(task: &Task) -> bool {
    task.state.closed.as_ref().is_some_and(|closed| closed.output.lost > 0)
}

/// Returns whether a key of the person has terminated a command with a terminal. As without siding,
/// the signal of such a key is not reported.
fn is_ended_by_key(task: &Task, plan: &plan::RunPlan) -> bool {
    let Some(Outcome::Signaled { signal, .. }) = task.state.lifecycle.outcome() else {
        return false;
    };
    let has_terminal = plan.is_person && task.state.spec.terminal.is_some();
    has_terminal && [Signal::INT, Signal::QUIT].contains(signal)
}

/// Adds the command's usual duration from the history, unless the caller requested the background.
/// Such a call must return immediately, without opening the history.
fn add_expectation(root: &siding_core::store::StateDir, view: &mut TaskView) {
    if view.placement.why != Some(BackgroundReason::Asked) {
        run_history::add_expectations(root, std::slice::from_mut(view));
    }
}

/// Returns the advice about a task. If the task was stopped at a deadline that `--budget` set, the
/// advice names that flag.
fn advice(
    root: &siding_core::store::StateDir,
    task: &Task,
    view: &TaskView,
    plan: &plan::RunPlan,
) -> Option<String> {
    if plan.stops_at_budget && matches!(view.outcome, Some(Outcome::Deadline { .. })) {
        return budget_stop_advice(view, plan.dialect());
    }
    render::advice(root, (&task.dir, &task.state), view, plan.dialect())
}

fn join_messages(all: String, next: String) -> String {
    format!("{all}; {next}")
}

#[cfg(test)]
mod tests {
    use siding_core::task::run::NONINTERACTIVE_VARIABLES;

    use super::*;

    #[test]
    fn help_and_readme_say_how_long_a_persons_call_waits() {
        let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
        let help = command.get_long_about().expect("the command has a text").to_string();
        let key = "Ctrl-B moves the command to the background";
        assert!(help.contains("returns when the shell ends") && help.contains(key), "{help}");
        let path = format!("{}/../../README.md", env!("CARGO_MANIFEST_DIR"));
        let readme = std::fs::read_to_string(&path).expect("the document exists");
        for text in ["`siding run` waits until the command ends", "| Ctrl-B | moves the command"] {
            assert!(readme.contains(text), "{path}: {text}");
        }
    }

    #[test]
    fn help_and_document_list_the_noninteractive_variables() {
        let command = <Args as clap::Args>::augment_args(clap::Command::new("run"));
        let flag = command.get_arguments().find(|flag| flag.get_long() == Some("env-plain"));
        let help = flag.and_then(clap::Arg::get_help).expect("the flag has a text").to_string();
        let path = format!("{}/../../docs/settings.md", env!("CARGO_MANIFEST_DIR"));
        let document = std::fs::read_to_string(&path).expect("the document exists");
        for (name, value) in NONINTERACTIVE_VARIABLES {
            let assignment = format!("`{name}={value}`");
            assert!(help.contains(&assignment), "the help lacks {assignment}");
            let item = format!("- {assignment}: ");
            assert!(document.lines().any(|line| line.starts_with(&item)), "{path}: {item}");
        }
        assert_eq!(help.matches('=').count(), NONINTERACTIVE_VARIABLES.len(), "{help}");
    }
}
