//! Turns a request into the specification of a task.

use std::path::Path;
use std::time::Duration;

use siding_model::fnv::Fnv1a;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::limits::Thresholds;
use siding_model::monitor::Monitor;
use siding_model::outcome::Placement;
use siding_model::process::ProcRef;
use siding_model::record;
use siding_model::settings::Settings;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};
use siding_model::wait::Condition;

use super::error::RunError;
use crate::net::policy;
use crate::session;
use crate::store::StateDir;
use crate::sys::{birthmark, file, procfs};

/// A request to run a command. All other properties of the task come from the settings.
#[derive(Debug, Clone)]
pub struct TaskRequest {
    /// The kind of the task.
    pub kind: TaskKind,
    /// The command to execute.
    pub command: TaskCommand,
    /// The working directory, as returned by [`resolve_directory`].
    pub cwd: String,
    /// The owning session, as returned by [`resolve_session`].
    pub session_id: SessionId,
    /// A name for people.
    pub name: Option<String>,
    /// The source of the task's standard input.
    pub stdin: StdinMode,
    /// Whether the task starts in the foreground or in the background.
    pub placement: Placement,
    /// The time from the start of the task to its deadline.
    pub deadline: Duration,
    /// Whether the task outlives its session.
    pub keep: bool,
    /// The monitor that reports lines of the task's output.
    pub monitor: Option<Monitor>,
    /// The conditions that must be met for the task to be ready.
    pub wait_for: Vec<Condition>,
}

/// Returns the specification of a new task, with a new id.
///
/// # Errors
///
/// [`RunError::Id`]; [`RunError::Net`] if the network policy cannot be enforced on this system.
pub fn task_spec(
    root: &StateDir,
    settings: &Settings,
    request: TaskRequest,
) -> Result<TaskSpec, RunError> {
    let id = root.new_id(request.kind).map_err(RunError::Id)?;
    task_spec_with_id(root, settings, request, id)
}

/// Returns the specification of a task with an existing id, which its command line may contain.
///
/// # Errors
///
/// [`RunError::Net`].
pub fn task_spec_with_id(
    root: &StateDir,
    settings: &Settings,
    order: TaskRequest,
    task_id: TaskId,
) -> Result<TaskSpec, RunError> {
    let TaskRequest { command, cwd, session_id, name, stdin, placement, deadline, keep, .. } =
        order;
    policy::check_enforceable(&settings.net)?;
    Ok(TaskSpec {
        task_id,
        session_id,
        parent_task: enclosing_task(root),
        name,
        same_key: same_key(&command, &cwd),
        command,
        cwd,
        stdin,
        placement,
        deadline_ms: duration_ms(deadline),
        cap_ms: duration_ms(settings.max_elapsed_hard_cap),
        signal: settings.kill_signal,
        grace_ms: duration_ms(settings.kill_grace),
        on_leader_exit: settings.on_leader_exit,
        keep,
        session_grace_ms: duration_ms(settings.session_grace),
        stall_after_ms: duration_ms(settings.stall_after),
        deadline_notice_ms: duration_ms(settings.deadline_notice),
        limits: settings.limits(),
        // Tasks of other kinds, above all agents, exchange data with a model all the time and would
        // trip a watchdog.
        watch: if task_id.kind() == TaskKind::LocalBash {
            settings.watchdog_thresholds()
        } else {
            Thresholds::default()
        },
        net: settings.net.clone(),
        keep_head: settings.output_keep_head.0,
        keep_tail: settings.output_keep_tail.0,
        duplicate_of: None,
        monitor: order.monitor,
        wait_for: order.wait_for,
    })
}

/// Returns a command that runs this program with these arguments.
#[must_use]
pub fn self_command(arguments: Vec<String>) -> TaskCommand {
    TaskCommand::Argv { argv: std::iter::once(self_program_path()).chain(arguments).collect() }
}

/// Returns the path by which a task executes this program: its installed path, or `/proc/self/exe`
/// if another file has replaced it since.
#[must_use]
pub fn self_program_path() -> String {
    /// A task's process executes its shim's program, which is this one, until it calls execve(2).
    const PROC_SELF_EXE: &str = "/proc/self/exe";
    let path = std::env::current_exe().ok().filter(|path| file::is_program(path));
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    path.unwrap_or_else(|| PROC_SELF_EXE.to_owned())
}

/// Returns the requested directory, or the caller's own, as an absolute path.
///
/// # Errors
///
/// [`RunError::Directory`].
pub fn resolve_directory(requested: Option<&Path>) -> Result<String, RunError> {
    let named = requested.unwrap_or(Path::new("."));
    let bad = |why: &dyn std::fmt::Display| RunError::Directory {
        path: named.to_owned(),
        why: why.to_string(),
    };
    let path =
        if requested.is_some() { std::path::absolute(named) } else { std::env::current_dir() }
            .map_err(|error| bad(&error))?;
    file::open_directory(&path).map_err(|error| bad(&error))?;
    path.into_os_string().into_string().map_err(|_| bad(&"it is not UTF-8"))
}

/// Returns the session that will own a task: the named session, otherwise the session that
/// `SIDING_SESSION` names, otherwise the implicit session.
///
/// # Errors
///
/// [`RunError::Session`], [`RunError::SessionName`].
pub fn resolve_session(root: &StateDir, named: Option<&str>) -> Result<SessionId, RunError> {
    let inherited = std::env::var("SIDING_SESSION").ok();
    let given = named.or(inherited.as_deref());
    let Some(text) = given.filter(|text| !text.is_empty()) else {
        return Ok(SessionId::implicit());
    };
    let id: SessionId = text.parse()?;
    if !id.is_implicit() {
        session::require_live(root, &id)?;
    }
    Ok(id)
}

/// Returns the session of the environment if it is live and `owner` owns it. If another process
/// owns the session, the variable was inherited from an outer process or is outdated, and does not
/// name the session of this caller.
#[must_use]
pub fn inherited_session(root: &StateDir, owner: ProcRef) -> Option<SessionId> {
    let id: SessionId = std::env::var("SIDING_SESSION").ok()?.parse().ok()?;
    let boot = procfs::boot_id().ok()?;
    let session = session::require_live(root, &id).ok()?;
    session.is_owned_by(owner, &boot).then_some(id)
}

/// Returns the task inside which this call runs: the one whose birthmark this process carries.
fn enclosing_task(root: &StateDir) -> Option<TaskId> {
    birthmark::own_birthmark()
        .and_then(|mark| mark.task_id())
        .filter(|task| root.is_marked_live(*task))
}

/// Returns the key by which a second launch of a command is detected. Commands with colliding keys
/// are distinguished by their journals.
fn same_key(command: &TaskCommand, cwd: &str) -> String {
    // The byte 0xff never occurs in UTF-8, so no other pair of text and directory gives the same
    // input.
    const KEY_SEPARATOR: &[u8] = &[0xff];
    let text = command.display_text();
    Fnv1a::default()
        .with_bytes(text.trim().as_bytes())
        .with_bytes(KEY_SEPARATOR)
        .with_bytes(cwd.as_bytes())
        .to_hex()
}

/// Changes the key of a task that runs the same text with other variables, input or shell, because
/// such a task is no duplicate. The key contains only a checksum of the variables.
pub fn distinguish_same_key(spec: &mut TaskSpec, env: &[(String, String)], env_clear: bool) {
    /// The default shell; it leaves the key unchanged.
    const DEFAULT_SHELL: &str = "bash";
    let mut differences = Vec::new();
    let mut add = |name: &str, value: &str| {
        differences.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    };
    env.iter().for_each(|(name, value)| add(name, value));
    if env_clear {
        add("", "clear");
    }
    match spec.stdin {
        StdinMode::Null => {}
        StdinMode::Pipe => add("", "stdin"),
    }
    match &spec.command {
        TaskCommand::Shell { shell, .. } if shell != DEFAULT_SHELL => add("", shell),
        TaskCommand::Shell { .. } | TaskCommand::Argv { .. } => {}
    }
    if !differences.is_empty() {
        spec.same_key.push_str(&format!("-{:08x}", record::checksum(&differences)));
    }
}

fn duration_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key is a file name that later builds must find: a different key would start a second
    /// instance of a running command.
    #[test]
    fn the_same_key_of_a_command_is_stable_across_builds() {
        let shell =
            |text: &str| TaskCommand::Shell { text: text.to_owned(), shell: "bash".to_owned() };
        assert_eq!(same_key(&shell(" make test\n"), "/work"), "d584925b17579e66");
        assert_ne!(same_key(&shell("make"), "/a"), same_key(&shell("make/"), "a"));
    }
}
