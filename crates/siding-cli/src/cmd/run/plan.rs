//! From arguments and settings to a task that is on record.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::time::Duration;

use siding_core::launch::IdleShim;
use siding_core::run::request::{self, TaskRequest};
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult};
use siding_core::session;
use siding_core::settings::Environment;
use siding_core::store::StateDir;
use siding_model::budget::{BudgetCall, CallerWait, WaitRequest};
use siding_model::outcome::BackgroundReason;
use siding_model::settings::{Key, RawValue, Settings};
use siding_model::size::Bytes;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};

use super::{Args, OnTimeout, StdinSource, auto_background};
use crate::failure::Failure;

/// What was decided before anything was started.
#[derive(Debug)]
pub(super) struct RunPlan {
    pub(super) spec: TaskSpec,
    /// The variables that the call sets.
    env: Vec<(String, String)>,
    /// How long the caller is kept waiting; `None` until the end.
    pub(super) budget: Option<Duration>,
    /// Why it is in the background once that time has passed.
    pub(super) hand_over: BackgroundReason,
    /// Bytes of output text to print of a command that is over, and of one that goes on.
    pub(super) output_max_bytes: usize,
    pub(super) handover_max_bytes: usize,
    /// What the caller should know about what was decided.
    pub(super) notes: Vec<String>,
}

/// Decides everything.
pub(super) fn prepare(args: &Args, root: &StateDir) -> Result<RunPlan, Failure> {
    let settings = siding_core::settings::load(&settings_sources(args))?;
    if args.background && !settings.background_tasks {
        return Err(Failure::new("--background: background tasks are turned off")
            .with_hint("see `siding config show background_tasks`, or run without --background"));
    }
    if !args.wait_for.is_empty() && !settings.background_tasks {
        return Err(Failure::new("--wait-for: what is ready goes on in the background, and background tasks are turned off")
            .with_hint("see `siding config show background_tasks`, or run without --wait-for"));
    }
    let command = parse_command(args, &settings)?;
    let cwd = request::resolve_directory(args.cwd.as_deref())?;
    let session_id = request::resolve_session(root, args.session.as_deref())?;
    let times = time_limits(args, &settings, session::is_subagent(&session_id));
    let chosen =
        auto_background::choose_placement(args, &settings, root, (&command, &cwd), times.budget);
    let order = TaskRequest {
        kind: args.kind,
        command,
        cwd,
        session_id,
        name: args.name.clone(),
        stdin: match args.stdin {
            StdinSource::Null => StdinMode::Null,
            StdinSource::Pipe => StdinMode::Pipe,
        },
        placement: chosen.placement,
        deadline: times.deadline,
        keep: args.keep,
        monitor: args.monitor.clone(),
        wait_for: args.wait_for.clone(),
    };
    let env = args.env.iter().map(|text| parse_variable(text)).collect::<Result<Vec<_>, _>>()?;
    let mut spec = request::task_spec(root, &settings, order)?;
    request::distinguish_same_key(&mut spec, &env, args.env_clear);
    Ok(RunPlan {
        spec,
        env,
        budget: chosen.budget,
        hand_over: if timeout_as_budget(args).is_some() {
            BackgroundReason::Timeout
        } else {
            BackgroundReason::Budget
        },
        output_max_bytes: to_usize(settings.output_max_bytes),
        handover_max_bytes: to_usize(settings.handover_max_bytes.min(settings.output_max_bytes)),
        // What a lock or the cap did not admit: a caller must learn what is in force.
        notes: settings.warnings().iter().map(ToString::to_string).chain(chosen.note).collect(),
    })
}

fn to_usize(bytes: Bytes) -> usize {
    usize::try_from(bytes.0).unwrap_or(usize::MAX)
}

/// Returns the settings' sources with what the flags say on top.
fn settings_sources(args: &Args) -> Environment {
    // With `--on-timeout background` the timeout says when to stop waiting, not when to end.
    let deadline = args.timeout.as_ref().filter(|_| args.on_timeout != Some(OnTimeout::Background));
    let budget = args.budget.as_ref().filter(|text| *text != "none");
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

/// Returns the timeout where it says when to stop waiting, and no budget does.
fn timeout_as_budget(args: &Args) -> Option<&String> {
    let is_budget = args.on_timeout == Some(OnTimeout::Background)
        && args.budget.as_ref().is_none_or(|text| text == "none");
    args.timeout.as_ref().filter(|_| is_budget)
}

struct TimeLimits {
    budget: Option<Duration>,
    deadline: Duration,
}

/// Returns how long to wait and how long the task may live.
fn time_limits(args: &Args, settings: &Settings, is_subagent: bool) -> TimeLimits {
    let mut deadline = settings.max_elapsed.min(settings.max_elapsed_hard_cap);
    let call = BudgetCall {
        request: requested_wait(args),
        is_subagent,
        is_person: !args.json && std::io::stdout().is_terminal(),
    };
    let budget = match settings.budget_policy().decide(call) {
        CallerWait::UntilStart => Some(settings.settle),
        CallerWait::For(budget) => Some(budget),
        CallerWait::UntilEnd => None,
    };
    if args.on_timeout == Some(OnTimeout::Stop)
        && !args.background
        && let Some(budget) = budget
    {
        // The shim holds it, so it holds when this caller is dead.
        deadline = deadline.min(budget);
        return TimeLimits { budget: None, deadline };
    }
    TimeLimits { budget, deadline }
}

/// Returns the wait that the flags ask for.
fn requested_wait(args: &Args) -> WaitRequest {
    let is_wait = args.timeout.is_some() && args.on_timeout == Some(OnTimeout::Background);
    match args.budget.as_deref() {
        _ if args.background => WaitRequest::Background,
        Some("none") => WaitRequest::UntilEnd,
        Some(_) => WaitRequest::Budget,
        None if is_wait => WaitRequest::Budget,
        None => WaitRequest::Unspecified,
    }
}

fn parse_command(args: &Args, settings: &Settings) -> Result<TaskCommand, Failure> {
    let words: Vec<String> = args.command.iter().map(utf8_word).collect::<Result<_, _>>()?;
    Ok(match <[String; 1]>::try_from(words) {
        Ok([text]) => TaskCommand::Shell { text, shell: settings.shell.clone() },
        Err(argv) => TaskCommand::Argv { argv },
    })
}

fn utf8_word(word: &OsString) -> Result<String, Failure> {
    word.clone().into_string().map_err(|word| {
        Failure::new(format!("`{}` is not UTF-8", word.to_string_lossy()))
            .with_hint("write it inside a shell text with $'\\xNN' instead")
    })
}

/// Puts the task on record and gives it to its shim.
pub(super) fn start_task(
    args: &Args,
    root: &StateDir,
    plan: &RunPlan,
    shim: io::Result<IdleShim>,
) -> Result<LaunchResult, Failure> {
    let duplicates = if args.allow_duplicate { Duplicates::Allowed } else { Duplicates::Refused };
    let given = LaunchEnv { env: &plan.env, env_clear: args.env_clear, duplicates };
    Ok(run::start_task(root, &plan.spec, &given, shim)?)
}

fn parse_variable(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::new(format!("--env `{text}`: write NAME=VALUE")))?;
    Ok((name.to_owned(), value.to_owned()))
}
