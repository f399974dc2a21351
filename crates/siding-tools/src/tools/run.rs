//! The tool `run`, which runs a shell command.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::remote::{FileCopies, SyncPlan};
use siding_core::settings::{self, Environment};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
use siding_core::task::run::{
    self, BaseEnvironment, ExecutorChoice, LaunchResult, PreparedTask, RunError, TaskStdin,
};
use siding_core::task::shim_client::ShimConnection;
use siding_core::task::watch::TaskWatch;
use siding_model::budget::EARLY_FAILURE_WAIT;
use siding_model::duration::format_duration;
use siding_model::file_sync::parse_fetch_path;
use siding_model::foreground_call::CallPolicy;
use siding_model::history::{self, AutoBackground, PlacementRequest};
use siding_model::lifecycle::Phase;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::settings::{Key, Origin, RawValue};
use siding_model::spec::{TaskCommand, TaskSpec};
use siding_model::task_reference::parse_task_name;
use siding_model::terminal::TerminalSize;
use siding_model::wait::Condition;

use super::wait;
use crate::answer::{ToolAnswer, ToolError};
use crate::async_fd::run_blocking;
use crate::call_context::{CallContext, limited_wait};
use crate::context::{SHIM_PROGRAM, TaskSnapshot, ToolContext};
use crate::delivery::DeliveryAck;
use crate::foreground_wait;
use crate::structured::{self, RunDetails};
use crate::text::{self, millis};

pub(super) const DESCRIPTION: &str = "\
Run a shell command. Returns its result and output. A command that takes longer than `budget` is \
not lost: it continues in the background, and the answer has its task id for `wait`, `output` and \
`stop`. For servers and watchers set `background`, and `wait_for` to learn when they are ready. \
Every task is stopped with all its processes at its `timeout`, and when this client ends.";

/// The arguments of `run`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArgs {
    /// Command text for bash.
    pub command: String,
    /// Name of the task, usable as `id`.
    #[serde(default)]
    pub name: Option<String>,
    /// Start in the background and answer immediately with the task id.
    #[serde(default)]
    pub background: bool,
    /// Seconds to wait before the command moves to the background (default 15).
    #[serde(default)]
    pub budget: Option<f64>,
    /// Deadline in seconds, after which the command is stopped (default 1800).
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Working directory.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Environment variables to set.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Start in the background and answer when all of these hold, at the latest after `budget`:
    /// `output:REGEX`, `port:N`, `http:URL`, `file:PATH`. If they hold later, a later answer says
    /// so.
    #[serde(default)]
    pub wait_for: Vec<String>,
    /// Let `input` write to its standard input, which is empty otherwise.
    #[serde(default)]
    pub stdin: bool,
    /// Give it a terminal, for a program that asks or draws a screen. Answers when it waits for
    /// input, which `keys` types.
    #[serde(default)]
    pub pty: bool,
    /// Size of the terminal (default `80x24`).
    #[serde(default)]
    pub size: Option<String>,
    /// Machine that runs it: the name of an executor in the settings.
    #[serde(default)]
    pub on: Option<String>,
    /// With `on`: copy the git project to that machine first.
    #[serde(default)]
    pub sync: bool,
    /// With `on`: files or directories to copy too, ignored by git or not.
    #[serde(default)]
    pub sync_paths: Vec<PathBuf>,
    /// With `on`: files or directories below `cwd` to copy back at the end.
    #[serde(default)]
    pub fetch: Vec<String>,
    /// Start even if the same command already runs in the same directory.
    #[serde(default)]
    pub allow_duplicate: bool,
    /// Whether a command that is expected to exceed the budget starts in the background if no
    /// setting decides that. The field is not part of the schema: only siding's own agent sets it.
    #[serde(skip)]
    #[schemars(skip)]
    pub may_start_in_background: bool,
}

/// The decisions about a call, which are made before its task is started.
struct RunPlan {
    task: PreparedTask,
    /// Maximum time for which the caller waits; `None` is a wait without a limit.
    budget: Option<Duration>,
    max_output_bytes: usize,
    /// Notes for the caller about the settings and the decisions of this plan.
    notes: Vec<String>,
    /// A note that the caller receives only if the budget has passed before the command ended.
    cap_note: Option<String>,
}

pub(super) async fn call<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    args: RunArgs,
) -> Result<ToolAnswer, ToolError> {
    let (plan, launch) = run_blocking(|| {
        let plan = plan_run(context, call, &args)?;
        if !call.accept_task(plan.task.id()) {
            return Err(ToolError::Cancelled);
        }
        let shim = IdleShim::start(SHIM_PROGRAM);
        let launch = match args.allow_duplicate {
            true => LaunchResult::Started(plan.task.start(&context.root, shim)?),
            false => plan.task.start_unless_duplicate(&context.root, shim)?,
        };
        Ok::<_, ToolError>((plan, launch))
    })?;
    let link = match launch {
        LaunchResult::Started(link) => link,
        LaunchResult::Duplicate(first) => {
            let details = RunDetails {
                task: None,
                task_id: None,
                duplicate_of: Some(first),
                output_truncated: false,
            };
            let line = format!(
                "not started: {first} already runs the same command in the same directory; \
                 {} waits for it, `allow_duplicate` starts another",
                context.dialect.format_tool("wait")
            );
            return Ok(ToolAnswer {
                details: structured::to_fields(&details),
                ..ToolAnswer::from_line(line)
            });
        }
    };
    let spec = plan.task.spec();
    let snapshot = wait_for_task(context, call, spec, link, plan.budget).await?;
    if !spec.wait_for.is_empty() && snapshot.state.is_live() {
        let waited = plan.budget.unwrap_or(Duration::from_millis(spec.deadline_ms));
        return run_blocking(|| wait::ready_answer(context, snapshot, waited));
    }
    let mut answer = run_blocking(|| build_answer(context, snapshot, plan.max_output_bytes))?;
    answer.lines.extend(plan.notes);
    answer.lines.extend(plan.cap_note.filter(|_| answer.background_task.is_some()));
    Ok(answer)
}

/// Waits for a started task until its leader has ended, until it is ready if it has readiness
/// conditions, or until the caller's budget has passed.
pub(super) async fn wait_for_task<C: CallContext>(
    context: &ToolContext,
    call: &mut C,
    spec: &TaskSpec,
    link: ShimConnection,
    budget: Option<Duration>,
) -> Result<TaskSnapshot, ToolError> {
    let mut watch = TaskWatch::from_connection(&context.root, SHIM_PROGRAM, spec.task_id, link);
    let is_asked = !spec.wait_for.is_empty();
    let budget_reason = if is_asked { BackgroundReason::Asked } else { BackgroundReason::Budget };
    let policy = CallPolicy { budget_reason, ..CallPolicy::for_task(spec, budget) };
    foreground_wait::wait_in_foreground(context, call, &mut watch, spec, policy).await.inspect_err(
        |_| {
            drop(watch);
            run_blocking(|| run::clear_unrecorded(&context.root, spec));
        },
    )
}

/// Returns the answer of a `run` call: the state of the task after the wait, and its output.
pub(super) fn build_answer(
    context: &ToolContext,
    snapshot: TaskSnapshot,
    max_output_bytes: usize,
) -> Result<ToolAnswer, ToolError> {
    let is_running = matches!(snapshot.state.lifecycle.phase(), Phase::Running { .. });
    let placement = snapshot.state.lifecycle.placement();
    let handed_over = matches!(placement, Placement::Background { why } if why.is_hand_over());
    let mut answer = text::answer_with_output(context, &snapshot, max_output_bytes)?;
    answer.background_task = (is_running && handed_over).then_some(snapshot.state.spec.task_id);
    answer.delivery_acks.push(DeliveryAck::ResultReturned(Box::new(snapshot.state)));
    Ok(answer)
}

fn plan_run<C: CallContext>(
    context: &ToolContext,
    call: &C,
    args: &RunArgs,
) -> Result<RunPlan, ToolError> {
    let settings = settings::load(&settings_sources(args.budget, args.timeout)?)?;
    let conditions = readiness_conditions(args)?;
    let wants_background = args.background || !conditions.is_empty();
    if wants_background && !settings.background_tasks {
        return Err(ToolError::Arguments(format!(
            "background tasks are disabled here; run it without {} and `wait_for`",
            context.dialect.format_option("background")
        )));
    }
    let command = TaskCommand::Shell { text: args.command.clone(), shell: settings.shell.clone() };
    let cwd = WorkingDirectory::resolve(args.cwd.as_deref())?;
    let wanted = context.budget(&settings, args.budget.is_some());
    let may_decide = settings.auto_background
        || args.may_start_in_background && *settings.origin(Key::AutoBackground) == Origin::BuiltIn;
    // Without a budget, the caller waits for any command, so its duration is not predicted.
    let background_request =
        match (wants_background, wanted.filter(|_| may_decide && settings.background_tasks)) {
            (true, _) => PlacementRequest::Background,
            (false, Some(_)) => PlacementRequest::Unspecified,
            (false, None) => PlacementRequest::Foreground,
        };
    let limit = wanted.unwrap_or(settings.blocking_budget);
    let executor = ExecutorChoice::find(args.on.as_deref(), &settings).map_err(RunError::from)?;
    let directory = ExecutorChoice::history_directory(executor.as_ref(), &cwd);
    let auto_background =
        decide_auto_background(context, (&command, directory.as_str()), background_request, limit);
    let note = auto_background.as_ref().and_then(|found| found.explanation(limit));
    let (placement, budget) = match &auto_background {
        // The task starts in the foreground, so that the caller waits until the task is ready or
        // the budget has passed.
        Some(_) if !conditions.is_empty() => {
            (Placement::Foreground, limited_wait(call, Some(limit)))
        }
        Some(found) => (
            Placement::Background { why: found.background_reason() },
            Some(settings.settle.max(EARLY_FAILURE_WAIT)),
        ),
        None => (Placement::Foreground, limited_wait(call, wanted)),
    };
    let is_capped = auto_background.is_none() && budget != wanted;
    let cap_note = budget.filter(|_| is_capped).map(|budget| {
        format!(
            "waited at most {}, because this client may abort a longer call",
            format_duration(budget)
        )
    });
    let session_id = context.live_session().map_err(RunError::from)?;
    // The files are copied after everything else is checked.
    let (executor, fetch) = copy_files(context, args, executor, &cwd)?;
    let task = TaskRequest::new(command, cwd, session_id, placement)
        .name(parse_name(args)?)
        .stdin(choose_stdin(context, args)?)
        .base_environment(base_environment(args))
        .wait_for(conditions)
        .executor(executor)
        .fetch(fetch)
        .env(args.env.clone().into_iter().collect())
        .prepare(&context.root, &settings)?;
    Ok(RunPlan {
        task,
        budget,
        max_output_bytes: settings.output_max_bytes.to_usize(),
        notes: settings.warnings().iter().map(ToString::to_string).chain(note).collect(),
        cap_note,
    })
}

/// Copies the project to the machine of the executor, if the call requests it. Returns the executor
/// with the directory of the copy, and the paths to copy back.
fn copy_files(
    context: &ToolContext,
    args: &RunArgs,
    executor: Option<ExecutorChoice>,
    cwd: &WorkingDirectory,
) -> Result<(Option<ExecutorChoice>, Vec<String>), ToolError> {
    let fetch: Result<Vec<_>, _> = args.fetch.iter().map(|path| parse_fetch_path(path)).collect();
    let fetch = fetch.map_err(|error| ToolError::Arguments(format!("`fetch`: {error}")))?;
    let copies = FileCopies { sync: args.sync, sync_paths: args.sync_paths.clone(), fetch };
    copies.check(executor.as_ref(), context.dialect)?;
    let executor = match executor {
        Some(executor) if copies.copies_project() => {
            let plan = SyncPlan::for_executor(&executor, cwd, &copies.sync_paths)?;
            let directory = plan.run(&context.root)?;
            Some(executor.in_directory(directory))
        }
        executor => executor,
    };
    Ok((executor, copies.fetch))
}

fn parse_name(args: &RunArgs) -> Result<Option<String>, ToolError> {
    let name = args.name.as_deref().map(parse_task_name).transpose();
    name.map_err(|error| ToolError::Arguments(format!("`name`: {error}")))
}

/// Returns the standard input of the command.
fn choose_stdin(context: &ToolContext, args: &RunArgs) -> Result<TaskStdin, ToolError> {
    if !args.pty {
        return match &args.size {
            Some(_) => Err(ToolError::Arguments(
                "`size` is the size of a terminal; set `pty` as well".to_owned(),
            )),
            None if args.stdin => Ok(TaskStdin::Pipe),
            None => Ok(TaskStdin::Null),
        };
    }
    if args.stdin {
        return Err(ToolError::Arguments(format!(
            "`stdin` is a pipe, which a command with `pty` does not have; omit it, and use {}",
            context.dialect.format_tool("keys")
        )));
    }
    let size = args.size.as_deref().map(str::parse::<TerminalSize>).transpose();
    let size = size.map_err(|error| ToolError::Arguments(format!("`size`: {error}")))?;
    Ok(TaskStdin::Terminal(size.unwrap_or_default()))
}

/// Returns the variables of the command. A program with its own terminal may ask questions, so
/// prompts, editors and pagers are not disabled.
const fn base_environment(args: &RunArgs) -> BaseEnvironment {
    if args.pty { BaseEnvironment::Inherited } else { BaseEnvironment::Unattended }
}

/// Parses the conditions in `wait_for`, and rejects `exit`, which is not a condition of readiness.
fn readiness_conditions(args: &RunArgs) -> Result<Vec<Condition>, ToolError> {
    let conditions = wait::parse_conditions(&args.wait_for)?;
    siding_core::task::wait::check_patterns(&conditions)?;
    if conditions.contains(&Condition::Exit) {
        return Err(ToolError::Arguments(
            "`wait_for` takes conditions for readiness: `output:REGEX`, `port:N`, `http:URL` or \
             `file:PATH`; the end of the command needs none"
                .to_owned(),
        ));
    }
    Ok(conditions)
}

/// Returns the sources of the settings, in which the call's `budget` and `timeout`, in seconds, are
/// the highest layer.
pub(super) fn settings_sources(
    budget: Option<f64>,
    timeout: Option<f64>,
) -> Result<Environment, ToolError> {
    let times = [(Key::BlockingBudget, "budget", budget), (Key::MaxElapsed, "timeout", timeout)];
    let mut sources = Environment::from_process();
    for (key, name, value) in times {
        if let Some(value) = value {
            let text = format!("{}ms", millis(text::parse_seconds(name, value)?));
            sources = sources.with_call(key, name, RawValue::Text(text));
        }
    }
    Ok(sources)
}

/// Decides whether a command starts in the background: because the call requests it, or because the
/// command will probably exceed the budget. Returns `None` for the foreground.
fn decide_auto_background(
    context: &ToolContext,
    (command, cwd): (&TaskCommand, &str),
    background_request: PlacementRequest,
    budget: Duration,
) -> Option<AutoBackground> {
    let words = match background_request {
        PlacementRequest::Unspecified => siding_guard::parse_task_command(command),
        PlacementRequest::Background | PlacementRequest::Foreground => Vec::new(),
    };
    let known = || {
        let ask =
            |history: &siding_history::History| history.expectation(&command.display_text(), cwd);
        siding_history::query_best_effort(&context.root, ask)?.value
    };
    history::decide_auto_background(background_request, budget, known, &words)
}
