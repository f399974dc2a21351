//! From arguments and settings to a task that is on record.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use siding_core::launch::Shim;
use siding_core::link::Link;
use siding_core::session;
use siding_core::settings::Environment;
use siding_core::store::{Root, StoreError, TaskDir};
use siding_core::sys::limit;
use siding_model::id::{SessionId, TaskId};
use siding_model::settings::{AssistantMode, Key, RawValue, Settings};
use siding_model::size::Bytes;
use siding_model::spec::{Command, Stdin, TaskSpec};

use super::{Args, From, OnTimeout, at_once, environment};
use crate::failure::Failure;

/// What was decided before anything was started.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) spec: TaskSpec,
    /// How long the caller is kept waiting; `None` until the end.
    pub(super) budget: Option<Duration>,
    /// Bytes of output text to print of a command that is over, and of one that goes on.
    pub(super) output_max_bytes: usize,
    pub(super) handover_max_bytes: usize,
    /// What the caller should know about what was decided.
    pub(super) notes: Vec<String>,
}

/// What came of the start.
#[derive(Debug)]
pub(super) enum Begun {
    /// A shim keeps it.
    Started(Link),
    /// The same command runs already.
    Duplicate(TaskId),
}

/// Decides everything.
pub(super) fn plan(args: &Args, root: &Root) -> Result<Plan, Failure> {
    let settings = siding_core::settings::load(&with_flags(args))?;
    if args.background && !settings.background_tasks {
        return Err(Failure::new("--background: background tasks are turned off")
            .with_hint("see `siding config show background_tasks`, or run without --background"));
    }
    let command = command(args, &settings)?;
    let cwd = directory(args)?;
    let session_id = session(args, root)?;
    let task_id =
        root.new_id().map_err(|error| Failure::new(format!("could not make an id: {error}")))?;
    let times = times(args, &settings);
    let chosen = at_once::choose(args, &settings, root, (&command, &cwd), times.budget);
    let spec = TaskSpec {
        task_id,
        session_id,
        parent_task: parent(root),
        name: args.name.clone(),
        same_key: same_key(&command, &cwd),
        command,
        cwd,
        stdin: match args.stdin {
            From::Null => Stdin::Null,
            From::Pipe => Stdin::Pipe,
        },
        placement: chosen.placement,
        deadline_ms: millis(times.deadline),
        cap_ms: millis(settings.max_elapsed_hard_cap),
        signal: settings.kill_signal,
        grace_ms: millis(settings.kill_grace),
        on_leader_exit: settings.on_leader_exit,
        keep: args.keep,
        session_grace_ms: millis(settings.session_grace),
        stall_after_ms: millis(settings.stall_after),
        limits: settings.limits(),
        keep_head: settings.output_keep_head.0,
        keep_tail: settings.output_keep_tail.0,
        duplicate_of: None,
        monitor: args.monitor.clone(),
    };
    Ok(Plan {
        spec,
        budget: chosen.budget,
        output_max_bytes: size(settings.output_max_bytes),
        handover_max_bytes: size(settings.handover_max_bytes.min(settings.output_max_bytes)),
        // What a lock or the cap did not admit: a caller must learn what is in force.
        notes: settings.warnings().iter().map(ToString::to_string).chain(chosen.note).collect(),
    })
}

fn size(bytes: Bytes) -> usize {
    usize::try_from(bytes.0).unwrap_or(usize::MAX)
}

/// Returns the settings' sources with what the flags say on top.
fn with_flags(args: &Args) -> Environment {
    // With `--on-timeout background` the timeout says when to stop waiting, not when to end.
    let deadline = args.timeout.as_ref().filter(|_| args.on_timeout != Some(OnTimeout::Background));
    let budget = args.budget.as_ref().filter(|text| *text != "none").or_else(|| {
        args.timeout.as_ref().filter(|_| args.on_timeout == Some(OnTimeout::Background))
    });
    let flags = [
        (Key::BlockingBudget, "--budget", budget),
        (Key::Settle, "--settle", args.settle.as_ref()),
        (Key::MaxElapsed, "--timeout", deadline),
        (Key::KillGrace, "--grace", args.grace.as_ref()),
        (Key::KillSignal, "--signal", args.signal.as_ref()),
        (Key::StallAfter, "--stall-after", args.stall_after.as_ref()),
        (Key::OnLeaderExit, "--on-leader-exit", args.on_leader_exit.as_ref()),
        (Key::Shell, "--shell", args.shell.as_ref()),
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

struct Times {
    budget: Option<Duration>,
    deadline: Duration,
}

/// Returns how long to wait and how long the task may live.
fn times(args: &Args, settings: &Settings) -> Times {
    let mut deadline = settings.max_elapsed.min(settings.max_elapsed_hard_cap);
    let explicit = args.budget.is_some()
        || args.timeout.is_some() && args.on_timeout == Some(OnTimeout::Background);
    let assistant = match settings.assistant_mode {
        AssistantMode::On => true,
        AssistantMode::Off => false,
        AssistantMode::Auto => args.json || !std::io::stdout().is_terminal(),
    };
    let wanted = explicit || assistant && settings.background_tasks;
    let budget = if args.background {
        Some(settings.settle)
    } else if wanted && args.budget.as_deref() != Some("none") {
        Some(settings.blocking_budget)
    } else {
        None
    };
    if args.on_timeout == Some(OnTimeout::Stop)
        && !args.background
        && let Some(budget) = budget
    {
        // The shim holds it, so it holds when this caller is dead.
        deadline = deadline.min(budget);
        return Times { budget: None, deadline };
    }
    Times { budget, deadline }
}

fn command(args: &Args, settings: &Settings) -> Result<Command, Failure> {
    let words: Vec<String> = args.command.iter().map(text).collect::<Result<_, _>>()?;
    Ok(match <[String; 1]>::try_from(words) {
        Ok([text]) => Command::Shell { text, shell: settings.shell.clone() },
        Err(argv) => Command::Argv { argv },
    })
}

fn text(word: &OsString) -> Result<String, Failure> {
    word.clone().into_string().map_err(|word| {
        Failure::new(format!("`{}` is not UTF-8", word.to_string_lossy()))
            .with_hint("write it inside a shell text with $'\\xNN' instead")
    })
}

fn directory(args: &Args) -> Result<String, Failure> {
    let given = args.cwd.clone().unwrap_or_else(|| Path::new(".").to_owned());
    let bad = |why: &dyn std::fmt::Display| {
        Failure::new(format!("the directory `{}` cannot be used: {why}", given.display()))
    };
    let path =
        if args.cwd.is_some() { std::path::absolute(&given) } else { std::env::current_dir() }
            .map_err(|error| bad(&error))?;
    siding_core::sys::file::open_directory(&path).map_err(|error| bad(&error))?;
    path.into_os_string().into_string().map_err(|_| bad(&"it is not UTF-8"))
}

fn session(args: &Args, root: &Root) -> Result<SessionId, Failure> {
    let inherited = std::env::var("SIDING_SESSION").ok();
    let given = args.session.as_deref().or(inherited.as_deref());
    let Some(text) = given.filter(|text| !text.is_empty()) else {
        return Ok(SessionId::implicit());
    };
    let id: SessionId = text.parse().map_err(Failure::new)?;
    if !id.is_implicit() {
        session::live(root, &id)?;
    }
    Ok(id)
}

/// Returns the task inside which this call is made: the one whose mark this process carries.
fn parent(root: &Root) -> Option<TaskId> {
    limit::birthmark().and_then(|mark| mark.task()).filter(|task| root.is_marked_live(*task))
}

/// Returns the name under which a second launch of the same command is noticed. Two commands with
/// the same name are told apart by their journals.
fn same_key(command: &Command, cwd: &str) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    command.display().trim().hash(&mut hasher);
    cwd.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Puts the task on record and gives it to its shim.
pub(super) fn begin(
    args: &Args,
    root: &Root,
    plan: &Plan,
    shim: io::Result<Shim>,
) -> Result<Begun, Failure> {
    let mut spec = plan.spec.clone();
    let environment = environment::of_task(&spec, &args.env, args.env_clear)?;
    let dir = root.create_task(spec.task_id)?;
    if let Err(error) = claim(root, &mut spec) {
        withdraw(root, dir, &spec);
        return Err(error.into());
    }
    if let Some(first) = spec.duplicate_of
        && !args.allow_duplicate
    {
        withdraw(root, dir, &spec);
        return Ok(Begun::Duplicate(first));
    }
    let link = shim.and_then(|shim| shim.task(root, dir, &spec, &environment));
    link.map(Begun::Started).map_err(|error| {
        clear_unborn(root, &spec);
        Failure::new(format!("could not start a shim: {error}"))
            .with_hint("`siding doctor` tells what this machine lacks")
    })
}

/// Marks the task live and notes an earlier one with the same command.
fn claim(root: &Root, spec: &mut TaskSpec) -> Result<(), StoreError> {
    root.mark_live(spec.task_id)?;
    let still_runs = |first: TaskId| {
        let Ok(dir) = root.task(first) else { return false };
        match dir.read() {
            Ok(folded) => {
                folded.state.is_live()
                    && folded.state.spec.command.display().trim() == spec.command.display().trim()
                    && folded.state.spec.cwd == spec.cwd
            }
            // Nothing is on record yet: it is only just being started, by whoever has its lock. One
            // whose shim was killed before it wrote anything never ran.
            Err(_) => !matches!(dir.try_lock(), Ok(Some(_))),
        }
    };
    let first = root.claim(&spec.same_key, spec.task_id, still_runs)?;
    spec.duplicate_of = first;
    Ok(())
}

/// Takes back a task that is not to be started.
fn withdraw(root: &Root, dir: TaskDir, spec: &TaskSpec) {
    root.unmark_live(spec.task_id, &spec.same_key);
    // What cannot be removed now is removed by the next reap: nothing is recorded in it.
    if let Ok(Some(locked)) = dir.try_lock() {
        let _left_for_reap = root.remove_task(&locked);
    }
}

/// Takes back a task whose shim left without recording anything, so that nothing ever ran.
pub(super) fn clear_unborn(root: &Root, spec: &TaskSpec) {
    /// How long a shim that gave up may take to leave, and the pause between two looks.
    const TRIES: u32 = 200;
    const PAUSE: Duration = Duration::from_millis(5);
    for _ in 0..TRIES {
        let Ok(dir) = root.task(spec.task_id) else { return };
        if !dir.is_unborn() {
            return;
        }
        if let Ok(Some(locked)) = dir.try_lock() {
            root.unmark_live(spec.task_id, &spec.same_key);
            let _left_for_reap = root.remove_task(&locked);
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
