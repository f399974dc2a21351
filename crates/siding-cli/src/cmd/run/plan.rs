//! Decides from the arguments and settings how a task runs, records the task, and starts it.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use siding_core::session;
use siding_core::settings::Environment;
use siding_core::store::StateDir;
use siding_core::sys::{descriptor, terminal_attributes, tty};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{self, TaskRequest, WorkingDirectory};
use siding_core::task::run::{
    BaseEnvironment, CallerStdin, ExecutorChoice, LaunchResult, PreparedTask, TaskStdin,
    caller_stdin,
};
use siding_core::task::shim_client::ShimConnection;
use siding_model::advice::Dialect;
use siding_model::budget::{BudgetCall, CallerWait, WaitRequest};
use siding_model::duration::format_duration;
use siding_model::flow_control::report_step_bytes;
use siding_model::id::TaskKind;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::protocol::ShimRequest;
use siding_model::settings::{Key, RawValue, RunTerminal, Settings};
use siding_model::spec::{StdinMode, TaskCommand};
use siding_model::task_reference::parse_task_name;
use siding_model::terminal::{TerminalAttributes, TerminalSize};

use super::duplicate::{self, DuplicateAction};
use super::follow::ShownOutput;
use super::stdin_source::StdinSource;
use super::{Args, OnTimeout, auto_background, caller_descriptors, same_name};
use crate::caller;
use crate::failure::Failure;
use crate::render;
use crate::terminal;

/// The note for an agent whose command has a terminal and therefore does not read the input of the
/// call.
const UNREAD_INPUT_NOTE: &str = "the file or pipe on standard input is not read, because --pty \
                                 gives the command a terminal as its input; `siding keys` types \
                                 into it";
/// Value of `--budget` and `--timeout` for a time without a limit.
const NO_LIMIT: &str = "none";

/// The decisions that are made before a task starts.
#[derive(Debug)]
pub(super) struct RunPlan {
    pub(super) task: PreparedTask,
    /// Action if the same command already runs in the same directory.
    on_duplicate: DuplicateAction,
    /// Maximum time that the caller waits; with `None` it waits until the task ends.
    pub(super) budget: Option<Duration>,
    /// Reason that is recorded when the budget moves the task to the background.
    pub(super) hand_over: BackgroundReason,
    /// Maximum size in bytes of the output excerpt in the JSON of an ended command.
    pub(super) output_max_bytes: usize,
    /// Maximum size in bytes of the output excerpt in any other answer.
    pub(super) handover_max_bytes: usize,
    /// Whether a person at a terminal calls, and no program reads the result as JSON.
    pub(super) is_person: bool,
    /// Whether the task is stopped when the budget has passed (`--on-timeout stop`).
    pub(super) stops_at_budget: bool,
    /// Whether the settings allow the command to be moved to the background.
    pub(super) can_hand_over: bool,
    /// Number of shown bytes after which the call reports its progress to the shim, so that the
    /// command of a person waits for a slow reader, as in a shell pipeline. `None` if the
    /// command does not wait.
    pub(super) report_step: Option<u64>,
    /// Remarks for the caller about these decisions.
    pub(super) notes: Vec<String>,
}

impl RunPlan {
    /// Returns the dialect of the advice for the caller.
    pub(super) const fn dialect(&self) -> Dialect {
        if self.is_person { Dialect::Terminal } else { Dialect::Commands }
    }

    /// Closes the descriptors of this process for the input that the command or its mirror now
    /// reads. Otherwise the writer of a pipeline would get no SIGPIPE while this call waits for a
    /// command that has closed its input.
    fn release_stdin(&mut self) {
        self.task.release_stdin();
        // A terminal has no writer, and is needed to detect a person.
        let is_passed_on = self.task.spec().stdin == StdinMode::Inherit;
        if is_passed_on && !io::stdin().is_terminal() {
            // Without `/dev/null`, the writer receives SIGPIPE only at the end of this call.
            let _best_effort = descriptor::redirect_stdin_to_null();
        }
    }
}

/// Checks the arguments, and decides the placement, the budget and the deadline of the task.
pub(super) fn prepare(args: &Args, root: &StateDir) -> Result<RunPlan, Failure> {
    let settings = siding_core::settings::load(&settings_sources(args))?;
    check_background_tasks(args, &settings)?;
    let command = parse_command(args, &settings)?;
    let executor = choose_executor(args, &settings)?;
    args.copies.check(executor.as_ref())?;
    let cwd = WorkingDirectory::resolve(args.cwd.as_deref())?;
    let session_id = request::resolve_session(root, args.session.as_deref())?;
    // `--json` is for programs, even at a terminal.
    let is_person = !args.json && caller::is_person(settings.assistant_mode);
    let times = time_limits(args, &settings, session::is_subagent(&session_id), is_person);
    let history_directory = ExecutorChoice::history_directory(executor.as_ref(), &cwd);
    let chosen = auto_background::choose_placement(
        args,
        &settings,
        root,
        (&command, history_directory.as_str()),
        times.budget,
    );
    let is_local_person = is_person && executor.is_none();
    let has_terminal = args.pty
        || (is_person && gives_terminal(args, &settings, chosen.placement, executor.as_ref()));
    let (stdin, stdin_note) = open_stdin(args, has_terminal, is_person)?;
    let (env, name) = (parse_variables(args)?, task_name(args)?);
    // All other checks precede the copy of the files.
    let copy = |executor| args.copies.copy_project(root, executor, (&cwd, is_person));
    let executor = executor.map(copy).transpose()?;
    let request = TaskRequest::new(command, cwd, session_id, chosen.placement).kind(args.kind);
    let request = args.id.into_iter().fold(request, TaskRequest::id);
    let task = request
        .name(name)
        .stdin(stdin)
        .terminal_attributes(read_attributes(has_terminal && is_person, chosen.placement))
        .separate_stderr(is_local_person && !has_terminal && !args.background && has_two_outputs())
        .executor(executor)
        .fetch(args.copies.fetch_paths())
        .timeout(times.timeout)
        .deadline_from_background(is_person && !requests_deadline(args))
        .keep(args.keep)
        .monitor(args.monitor.clone())
        .wait_for(args.wait_for.clone())
        .env(env)
        .base_environment(base_environment(args, is_person))
        .prepare(root, &settings)?;
    // The caller must be informed about values that a lock or the cap replaced.
    let notes = settings.warnings().iter().map(ToString::to_string);
    let remarks = [chosen.note, stdin_note, unlimited_note(args, &settings, is_person)];
    let notes = notes.chain(remarks.into_iter().flatten()).collect();
    let waits_for_reader = is_local_person
        && task.spec().placement == Placement::Foreground
        && args.shown_output() == ShownOutput::Output;
    let report_step = waits_for_reader.then(|| report_step_bytes(task.spec().keep_tail));
    Ok(RunPlan {
        task,
        report_step,
        on_duplicate: DuplicateAction::decide(args.allow_duplicate, is_person),
        budget: chosen.budget,
        hand_over: if timeout_as_budget(args).is_some() {
            BackgroundReason::Timeout
        } else {
            BackgroundReason::Budget
        },
        output_max_bytes: settings.output_max_bytes.to_usize(),
        handover_max_bytes: settings.handover_max_bytes.min(settings.output_max_bytes).to_usize(),
        is_person,
        stops_at_budget: times.stops_at_budget,
        can_hand_over: settings.background_tasks,
        notes,
    })
}

/// Rejects arguments that need background tasks if the settings disable these.
fn check_background_tasks(args: &Args, settings: &Settings) -> Result<(), Failure> {
    if args.background && !settings.background_tasks {
        return Err(Failure::new("--background: background tasks are turned off")
            .with_hint("see `siding config show background_tasks`, or run without --background"));
    }
    if !args.wait_for.is_empty() && !settings.background_tasks {
        return Err(Failure::new("--wait-for: a ready command continues in the background, and background tasks are turned off")
            .with_hint("see `siding config show background_tasks`, or run without --wait-for"));
    }
    Ok(())
}

/// Returns the sources of the settings. The flags are the last source, so they take precedence,
/// except over locked keys.
fn settings_sources(args: &Args) -> Environment {
    let deadline = deadline_flag(args).filter(|text| *text != NO_LIMIT);
    let budget = args.budget.as_ref().filter(|text| *text != NO_LIMIT);
    let budget = budget.or_else(|| timeout_as_budget(args));
    let flags = [
        (Key::BlockingBudget, "--budget", budget),
        (Key::Settle, "--settle", args.settle.as_ref()),
        (Key::MaxElapsed, "--timeout", deadline),
        (Key::KillGrace, "--grace", args.grace.as_ref()),
        (Key::KillSignal, "--signal", args.signal.as_ref()),
        (Key::StallAfter, "--stall-after", args.stall_after.as_ref()),
        (Key::OnLeaderExit, "--on-leader-exit", args.on_leader_exit.as_ref()),
        (Key::Shell, "--shell", args.shell.as_ref()),
        (Key::Net, "--net", args.net.as_ref()),
    ];
    let auto = args.auto_background.then_some(RawValue::Boolean(true));
    flags
        .into_iter()
        .chain(args.limits.flags())
        .map(|(key, flag, value)| (key, flag, value.cloned().map(RawValue::Text)))
        .chain([(Key::AutoBackground, "--auto-background", auto)])
        .fold(Environment::from_process(), |sources, (key, flag, value)| match value {
            Some(value) => sources.with_call(key, flag, value),
            None => sources,
        })
}

/// Returns the duration of `--timeout` if it ends the wait and `--budget` sets no duration.
fn timeout_as_budget(args: &Args) -> Option<&String> {
    let is_budget = args.on_timeout == Some(OnTimeout::Background)
        && args.budget.as_ref().is_none_or(|text| text == NO_LIMIT);
    args.timeout.as_ref().filter(|text| is_budget && *text != NO_LIMIT)
}

/// Returns the value of `--timeout` if it sets the deadline. With `--on-timeout background` it ends
/// the wait, not the task.
fn deadline_flag(args: &Args) -> Option<&String> {
    args.timeout.as_ref().filter(|_| args.on_timeout != Some(OnTimeout::Background))
}

/// Returns whether the call sets the deadline to `none`; the cap is then the deadline.
fn is_unlimited(args: &Args) -> bool {
    deadline_flag(args).is_some_and(|text| text == NO_LIMIT)
}

/// Returns whether the call requests a deadline, which counts from the start even for a person.
fn requests_deadline(args: &Args) -> bool {
    let is_duration = deadline_flag(args).is_some() && !is_unlimited(args);
    is_duration || args.on_timeout == Some(OnTimeout::Stop)
}

/// Returns the note that even a task without a requested limit has a deadline.
fn unlimited_note(args: &Args, settings: &Settings, is_person: bool) -> Option<String> {
    let cap = format_duration(settings.max_elapsed_hard_cap);
    let place = if is_person { " in the background" } else { "" };
    is_unlimited(args).then(|| {
        format!(
            "--timeout none sets the deadline to the cap: the task is ended after {cap}{place} \
             (max_elapsed_hard_cap, which only the system's settings file can raise)"
        )
    })
}

struct TimeLimits {
    budget: Option<Duration>,
    /// Time to the deadline of the task; `None` means the one in the settings.
    timeout: Option<Duration>,
    /// Whether the deadline is the budget.
    stops_at_budget: bool,
}

/// Returns the caller's maximum wait and the time to the task's deadline.
fn time_limits(args: &Args, settings: &Settings, is_subagent: bool, is_person: bool) -> TimeLimits {
    let call = BudgetCall { request: requested_wait(args), is_subagent, is_person };
    let budget = match settings.budget_policy().decide(call) {
        CallerWait::UntilStart if is_person => Some(settings.person_settle()),
        CallerWait::UntilStart => Some(settings.settle),
        CallerWait::For(budget) => Some(budget),
        CallerWait::UntilEnd => None,
    };
    let timeout = is_unlimited(args).then_some(settings.max_elapsed_hard_cap);
    if args.on_timeout == Some(OnTimeout::Stop)
        && !args.background
        && let Some(budget) = budget
    {
        // The shim enforces the deadline, so the command is stopped even if this caller is killed.
        let timeout = timeout.unwrap_or(settings.max_elapsed);
        let stops_at_budget = budget < timeout;
        return TimeLimits { budget: None, timeout: Some(budget.min(timeout)), stops_at_budget };
    }
    TimeLimits { budget, timeout, stops_at_budget: false }
}

/// Returns the wait that the flags request.
fn requested_wait(args: &Args) -> WaitRequest {
    let is_wait = args.on_timeout == Some(OnTimeout::Background);
    match (args.budget.as_deref(), args.timeout.as_deref().filter(|_| is_wait)) {
        _ if args.background => WaitRequest::Background,
        (Some(NO_LIMIT), _) | (None, Some(NO_LIMIT)) => WaitRequest::UntilEnd,
        (Some(_), _) | (None, Some(_)) => WaitRequest::Budget,
        (None, None) => WaitRequest::Unspecified,
    }
}

/// Returns the executor that `--on` names, or else the default executor; `None` for this machine.
/// siding's own programs, such as agents, always run on this machine.
fn choose_executor(args: &Args, settings: &Settings) -> Result<Option<ExecutorChoice>, Failure> {
    if args.kind != TaskKind::LocalBash {
        return Ok(None);
    }
    let options = args.job.to_options();
    match (ExecutorChoice::find(args.on.as_deref(), settings)?, options.first_option()) {
        (Some(executor), _) => Ok(Some(executor.with_job_options(options)?)),
        (None, None) => Ok(None),
        (None, Some(option)) => Err(Failure::new(format!("{option}: this machine is no cluster"))
            .with_hint("write --on with a Slurm cluster, such as `--on slurm`")),
    }
}

/// Returns the variables to which those of `--env` are added. For a person, prompts, editors and
/// pagers are not turned off.
const fn base_environment(args: &Args, is_person: bool) -> BaseEnvironment {
    // A program with a terminal of its own is expected to prompt.
    match (args.env_clear, args.env_plain || args.pty || is_person) {
        (true, _) => BaseEnvironment::Empty,
        (false, true) => BaseEnvironment::Inherited,
        (false, false) => BaseEnvironment::Unattended,
    }
}

/// Opens the command's standard input. Also returns a note for a person if the input is not passed
/// on.
fn open_stdin(
    args: &Args,
    has_terminal: bool,
    is_person: bool,
) -> Result<(TaskStdin, Option<String>), Failure> {
    if !has_terminal {
        return args.stdin.open(is_person);
    }
    let own_size = || {
        let (columns, rows) = tty::size(io::stdout()).filter(|_| is_person)?;
        TerminalSize::new(columns, rows).ok()
    };
    let note = check_unread_input(is_person)?;
    let size = args.size.or_else(own_size).unwrap_or(TerminalSize::DEFAULT);
    Ok((TaskStdin::Terminal(size), note))
}

/// Returns the attributes of the person's terminal if it is connected with that of the command.
/// Agents type into the terminal of a command in the background, and expect its usual attributes.
fn read_attributes(has_terminal: bool, placement: Placement) -> Option<TerminalAttributes> {
    let is_connected = has_terminal && placement == Placement::Foreground;
    is_connected.then(|| terminal_attributes::read(io::stdin())).flatten()
}

/// Rejects a person's command with a terminal if a file or pipe was opened as the input of this
/// call alone: the command would wait for keys, and the input would be lost. An agent gets a note,
/// because its host may connect a pipe that no program writes to.
fn check_unread_input(is_person: bool) -> Result<Option<String>, Failure> {
    match caller_stdin() {
        CallerStdin::Own if is_person => Err(Failure::new(
            "--pty gives the command a terminal as its input, so the file or pipe on standard \
             input would not be read",
        )
        .with_hint("leave out --pty, or type with `siding keys`")),
        CallerStdin::Own => Ok(Some(UNREAD_INPUT_NOTE.to_owned())),
        CallerStdin::Shared | CallerStdin::Other => Ok(None),
    }
}

/// Returns whether the command of a person has a terminal without `--pty`: in the foreground, if
/// the person's terminal is the only input and output of the call.
fn gives_terminal(
    args: &Args,
    settings: &Settings,
    placement: Placement,
    executor: Option<&ExecutorChoice>,
) -> bool {
    // A job may wait in the queue for hours, and its output arrives in steps.
    let is_cluster = executor.is_some_and(|executor| executor.settings().slurm.is_some());
    !is_cluster
        && settings.run_terminal == RunTerminal::Auto
        && placement == Placement::Foreground
        && !args.no_pty
        && args.kind == TaskKind::LocalBash
        && args.monitor.is_none()
        && args.stdin == StdinSource::Auto
        && terminal::understands_sequences()
        && io::stdout().is_terminal()
        && !has_two_outputs()
        && tty::is_foreground(io::stdin())
}

/// Returns whether standard output and standard error go to different places, as in
/// `siding run -- make 2> errors`.
fn has_two_outputs() -> bool {
    let (stdout, stderr) = (io::stdout(), io::stderr());
    descriptor::is_same_object(stdout.as_fd(), stderr.as_fd()).is_ok_and(|is_same| !is_same)
}

fn task_name(args: &Args) -> Result<Option<String>, Failure> {
    let name = args.name.as_deref().map(parse_task_name).transpose();
    name.map_err(|error| Failure::new(format!("--name: {error}")))
}

fn parse_command(args: &Args, settings: &Settings) -> Result<TaskCommand, Failure> {
    let words: Vec<String> = args.command.iter().map(utf8_word).collect::<Result<_, _>>()?;
    Ok(match <[String; 1]>::try_from(words) {
        Ok([text]) => TaskCommand::Shell { text, shell: settings.shell.clone() },
        Err(argv) => {
            caller_descriptors::reject(&argv)?;
            TaskCommand::Argv { argv }
        }
    })
}

fn utf8_word(word: &OsString) -> Result<String, Failure> {
    word.clone().into_string().map_err(|word| {
        Failure::new(format!("`{}` is not UTF-8", word.to_string_lossy()))
            .with_hint("write it as $'\\xNN' in a shell command line instead")
    })
}

/// Records the task and hands it to its shim. If the plan refuses duplicates, a task that already
/// runs the same command in the same directory is returned instead.
pub(super) fn start_task(
    root: &StateDir,
    plan: &mut RunPlan,
    shim: io::Result<IdleShim>,
) -> Result<LaunchResult, Failure> {
    let name_note = same_name::note_for_person(root, plan);
    let result = match plan.on_duplicate {
        DuplicateAction::Start => {
            let link = plan.task.start(root, shim)?;
            limit_unshown_output(plan, &link);
            LaunchResult::Started(link)
        }
        DuplicateAction::StartWithNote => {
            let (link, first) = plan.task.start_and_find_duplicate(root, shim)?;
            limit_unshown_output(plan, &link);
            if let Some(first) = first {
                duplicate::report_second_start(root, first);
            }
            LaunchResult::Started(link)
        }
        DuplicateAction::Refuse => plan.task.start_unless_duplicate(root, shim)?,
    };
    plan.release_stdin();
    if let Some(note) = name_note {
        render::print_note(&note);
    }
    Ok(result)
}

/// Makes the shim limit the output that is not yet shown, if the plan has a `report_step`. The
/// request is sent immediately after the start, so that the command cannot exceed the limit before
/// the shim receives the request.
fn limit_unshown_output(plan: &RunPlan, link: &ShimConnection) {
    if plan.report_step.is_some() {
        // If the shim has exited, the wait reports it.
        let _peer_gone = link.send(&ShimRequest::Subscribe { follow: false, shown: Some(0) });
    }
}

fn parse_variables(args: &Args) -> Result<Vec<(String, String)>, Failure> {
    args.env.iter().map(|text| parse_variable(text)).collect()
}

fn parse_variable(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::new(format!("--env `{text}`: use NAME=VALUE")))?;
    Ok((name.to_owned(), value.to_owned()))
}
