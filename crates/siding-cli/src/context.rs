//! Helpers that most commands use: opening the state directory, reading the settings, and finding
//! the task that an argument refers to.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, OsString};
use std::io::ErrorKind;
use std::path::Path;

use siding_core::notices;
use siding_core::output;
use siding_core::processes::siding_process;
use siding_core::session::{self, SessionError};
use siding_core::settings::{self, Environment};
use siding_core::store::{StateDir, StoreError, TaskDir};
use siding_core::sys::procfs;
use siding_core::task::listing;
use siding_core::task::recover::{Recovery, RecoveryOutcome};
use siding_core::task::view::{self, ViewDetail};
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Coverage, NoticeId, TaskNotices};
use siding_model::process::BootId;
use siding_model::settings::Settings;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use crate::failure::{Failure, OTHER_STATE_DIR_HINT};
use crate::{host_sandbox, stderr, stdout};

/// The argument that refers to the task that was started last, in the session of `SIDING_SESSION`
/// if that is set. It is also the default of commands that only read.
pub(crate) const LAST_TASK: &str = "@";
/// Maximum width in columns of a hostname in a message.
const MACHINE_NAME_COLUMNS: usize = 100;

/// The program that runs shims: siding itself.
pub(crate) const SHIM_PROGRAM: &CStr = siding_process::SELF_EXE;

/// Opens this user's state directory, which `SIDING_STATE_DIR`, `XDG_STATE_HOME` or `HOME`
/// determines.
pub(crate) fn open_state_dir() -> Result<StateDir, Failure> {
    let is_named = state_variable().is_some();
    let path = StateDir::default_path().ok_or_else(no_state_path_failure)?;
    StateDir::open(&path).map_err(|error| state_dir_failure(&path, is_named, error))
}

/// Returns the value of `SIDING_STATE_DIR`, unless it is empty.
fn state_variable() -> Option<OsString> {
    std::env::var_os("SIDING_STATE_DIR").filter(|value| !value.is_empty())
}

/// Returns the failure of a command for which [`StateDir::default_path`] has no path.
pub(crate) fn no_state_path_failure() -> Failure {
    match state_variable() {
        Some(dir) => Failure::new(format!(
            "the state directory `{}` cannot be found: it is relative, and the working directory \
             does not exist",
            dir.display()
        ))
        .with_hint("set SIDING_STATE_DIR to an absolute path"),
        None => {
            Failure::new("no location for siding's state: neither HOME nor XDG_STATE_HOME is set")
                .with_hint("set SIDING_STATE_DIR to a directory of your own")
        }
    }
}

/// Returns the failure of a state directory that cannot be opened: its path, the reason and the
/// next step. `is_named` says whether `SIDING_STATE_DIR` names the directory.
fn state_dir_failure(path: &Path, is_named: bool, error: StoreError) -> Failure {
    let (doing, at, source) = match &error {
        StoreError::Io { doing, path, source } => (doing, path, source),
        StoreError::Exposed { .. }
        | StoreError::OtherUser { .. }
        | StoreError::RuntimeDir(_)
        | StoreError::NoSuchTask { .. }
        | StoreError::Ambiguous(_) => return error.into(),
    };
    let kind = source.kind();
    if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return error.into();
    }
    let why = if kind == ErrorKind::NotADirectory && path.exists() {
        "it is not a directory".to_owned()
    } else if kind == ErrorKind::NotADirectory {
        "a part of its path is not a directory".to_owned()
    } else if at == path {
        format!("could not {doing} it: {source}")
    } else {
        format!("could not {doing} `{}`: {source}", at.display())
    };
    let path = path.display();
    let failure = Failure::new(format!("the state directory `{path}` cannot be used: {why}"));
    let is_refused = matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    if is_refused && host_sandbox::contains_this_call() {
        return failure.with_hint(host_sandbox::HINT);
    }
    // Another directory does not help against other errors, such as too many open files.
    let is_wrong_place = matches!(
        kind,
        ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::AlreadyExists
    );
    match (is_wrong_place, is_named) {
        (false, _) => failure,
        (true, false) => failure.with_hint(OTHER_STATE_DIR_HINT),
        (true, true) => failure.with_hint(format!("{OTHER_STATE_DIR_HINT}, or unset it")),
    }
}

/// Returns the id of the current boot.
pub(crate) fn boot_id() -> Result<BootId, Failure> {
    procfs::boot_id()
        .map_err(|error| Failure::new(format!("could not read this boot's id: {error}")))
}

/// Returns the settings in force, without command-line flags, and prints a warning for each value
/// that was ignored.
pub(crate) fn load_settings() -> Result<Settings, Failure> {
    load_settings_from(&Environment::from_process())
}

/// Returns the valid part of the settings, for a command that must work despite a mistake in a
/// settings file.
pub(crate) fn load_valid_settings() -> Settings {
    settings::read(&Environment::from_process()).settings
}

/// Returns the settings from the sources in `environment`, and prints a warning for each value that
/// was ignored.
pub(crate) fn load_settings_from(environment: &Environment) -> Result<Settings, Failure> {
    let settings = settings::load(environment)?;
    for warning in settings.warnings() {
        errln!("siding: {warning}");
    }
    Ok(settings)
}

/// A task's directory, and the task's state as replayed from the journal.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) dir: TaskDir,
    pub(crate) state: TaskState,
    /// Notices that are redundant for a caller that has received the task's full result.
    pub(crate) covered_notices: Vec<NoticeId>,
}

impl Task {
    /// Finds the task that an argument refers to, as [`resolve_task`] does, and repairs it as
    /// [`recover`] does.
    pub(crate) fn find(root: &StateDir, text: &str, is_json: bool) -> Result<Self, Failure> {
        let id = resolve_task(root, text, is_json)?;
        recover(root, id)?;
        Self::read(root, id)
    }

    /// Reads a task's journal, without recovery.
    pub(crate) fn read(root: &StateDir, id: TaskId) -> Result<Self, Failure> {
        let dir = root.task_dir(id)?;
        let journal =
            dir.read_notices().map_err(|error| Failure::new(format!("task {id}: {error}")))?;
        Ok(Self::from_parts(dir, journal))
    }

    pub(crate) fn from_parts(dir: TaskDir, journal: TaskNotices) -> Self {
        let news = Coverage::FullResult.covered_ids(&journal.notices).collect();
        Self { dir, state: journal.state, covered_notices: news }
    }

    /// Returns the task in the form that text and JSON output share.
    pub(crate) fn view(&self, root: &StateDir, detail: ViewDetail) -> TaskView {
        view::task_view(root, &self.dir, &self.state, detail)
    }
}

/// Returns the task that an argument refers to: [`LAST_TASK`], an id, the beginning of an id, or a
/// name. Unless the output is JSON, prints on standard error which task the last one is.
pub(crate) fn resolve_task(root: &StateDir, text: &str, is_json: bool) -> Result<TaskId, Failure> {
    if text != LAST_TASK {
        return Ok(listing::resolve_id(root, text)?);
    }
    let session = named_session()?;
    let Some(id) = listing::last_task(root, session.as_ref())? else {
        return Err(no_last_task_failure(session.as_ref()));
    };
    if !is_json {
        print_task_name(root, id)?;
    }
    Ok(id)
}

/// Returns the running task with a terminal that was started last, in the session of
/// `SIDING_SESSION` if that is set, and prints on standard error which task it is.
pub(crate) fn last_running_terminal(root: &StateDir) -> Result<TaskId, Failure> {
    let session = named_session()?;
    let Some(id) = listing::last_running_terminal(root, session.as_ref())? else {
        let message = match session {
            None => "no running task has a terminal".to_owned(),
            Some(session) => format!("no running task of the session `{session}` has a terminal"),
        };
        return Err(Failure::new(message).with_hint(
            "`siding ps` lists the tasks; `siding run --pty` starts a command with a terminal",
        ));
    };
    print_task_name(root, id)?;
    Ok(id)
}

/// Prints on standard error which task a call refers to that has not named one.
fn print_task_name(root: &StateDir, id: TaskId) -> Result<(), Failure> {
    let view = Task::read(root, id)?.view(root, ViewDetail::Brief);
    let line = format!("siding: {id}: {}", view.display_name());
    let columns = stderr::terminal_columns().unwrap_or(stdout::TEXT_COLUMNS);
    errln!("{}", one_line(&line, columns.min(stdout::TEXT_COLUMNS)));
    Ok(())
}

/// Returns the tasks that arguments refer to, each once, in the order of the arguments. An argument
/// that does not refer to exactly one task gives a failure.
pub(crate) fn resolve_distinct(
    root: &StateDir,
    texts: &[String],
    is_json: bool,
) -> impl Iterator<Item = Result<TaskId, Failure>> {
    let mut known = HashSet::new();
    texts.iter().map(move |text| resolve_task(root, text, is_json)).filter(move |found| match found
    {
        Ok(id) => known.insert(*id),
        Err(_) => true,
    })
}

fn no_last_task_failure(session: Option<&SessionId>) -> Failure {
    match session {
        None => {
            Failure::new("there is no task yet").with_hint("`siding run -- COMMAND` starts one")
        }
        Some(session) => Failure::new(format!("the session `{session}` has no task"))
            .with_hint("`siding ps` lists the tasks of all sessions"),
    }
}

/// Repairs a task: continues a stopped shim, replaces a killed one, or records the task's end. Sets
/// aside a task whose journal is damaged. Prints what was done.
pub(crate) fn recover(root: &StateDir, id: TaskId) -> Result<(), Failure> {
    let recovery = prepare_recovery(root)?;
    report_recovery(id, &recovery.recover_task(id)?);
    Ok(())
}

/// Repairs all live tasks, each as [`recover`] does. Returns whether no repair failed; a task on
/// another machine does not count as a failure.
pub(crate) fn recover_all(root: &StateDir) -> Result<bool, Failure> {
    let mut all_recovered = true;
    let mut other_machines = OtherMachineTasks::default();
    prepare_recovery(root)?.recover_all(|id, found| match found {
        Ok(RecoveryOutcome::OtherMachine { machine }) => other_machines.add(id, machine),
        Ok(found) => report_recovery(id, &found),
        Err(error) => {
            all_recovered = false;
            Failure::from(error).report();
        }
    })?;
    for line in other_machines.format_lines() {
        errln!("siding: {line}");
    }
    Ok(all_recovered)
}

/// Tasks that this machine cannot recover, because they run on another machine that shares the
/// state directory. Each hostname gets one line.
#[derive(Debug, Default)]
struct OtherMachineTasks(BTreeMap<String, Vec<TaskId>>);

impl OtherMachineTasks {
    fn add(&mut self, id: TaskId, machine: String) {
        self.0.entry(machine).or_default().push(id);
    }

    /// Returns one line for each hostname, with the id of a single task or the number of tasks.
    fn format_lines(self) -> Vec<String> {
        let line = |(machine, ids): (String, Vec<TaskId>)| {
            let machine = one_line(&machine, MACHINE_NAME_COLUMNS);
            match ids.as_slice() {
                [id] => {
                    format!("{id}: it runs on another machine, `{machine}`; run the command there")
                }
                ids => {
                    format!(
                        "{} tasks run on another machine, `{machine}`; run the command there",
                        ids.len()
                    )
                }
            }
        };
        self.0.into_iter().map(line).collect()
    }
}

/// Reads this boot's id and returns a [`Recovery`] whose new shims run this program.
pub(crate) fn prepare_recovery(root: &StateDir) -> Result<Recovery<'_>, Failure> {
    Recovery::new(root, SHIM_PROGRAM).map_err(|error| {
        Failure::new(format!("could not read this boot's id: {error}"))
            .with_hint("is `/proc` mounted? `siding doctor` checks this machine")
    })
}

/// Returns the requested session: `named`, otherwise the one in `SIDING_SESSION`, otherwise the
/// implicit session.
///
/// # Errors
///
/// `SIDING_SESSION` is not a valid name. Using another session would show or change the wrong
/// tasks.
pub(crate) fn resolve_session(named: Option<SessionId>) -> Result<SessionId, Failure> {
    if let Some(named) = named {
        return Ok(named);
    }
    Ok(named_session()?.unwrap_or_else(SessionId::implicit))
}

/// Returns the session in `SIDING_SESSION`, or `None` if that is unset or empty. Fails if it is not
/// a valid name.
fn named_session() -> Result<Option<SessionId>, Failure> {
    match std::env::var("SIDING_SESSION") {
        Ok(text) if !text.is_empty() => match text.parse::<SessionId>() {
            Ok(session) => Ok(Some(session)),
            Err(error) => Err(Failure::new(format!("SIDING_SESSION: {error}"))),
        },
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(Failure::new("SIDING_SESSION: the value is not UTF-8"))
        }
        Ok(_) | Err(std::env::VarError::NotPresent) => Ok(None),
    }
}

/// Fails for a session that was never opened, so that a misspelled name does not look like a
/// session without tasks.
pub(crate) fn ensure_session_exists(root: &StateDir, session: &SessionId) -> Result<(), Failure> {
    match session::read(root, session) {
        Ok(None) if !session.is_implicit() => {
            Err(SessionError::Unknown { id: session.clone() }.into())
        }
        // A session whose journal is damaged exists, and its tasks can be shown.
        Ok(_) | Err(SessionError::Damaged { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the session in `SIDING_SESSION`, or the implicit session if that is unset or invalid.
pub(crate) fn current_session() -> SessionId {
    std::env::var("SIDING_SESSION")
        .ok()
        .and_then(|name| name.parse().ok())
        .unwrap_or_else(SessionId::implicit)
}

/// Acknowledges the notices about a task that repeat what the caller was shown, so that the agent
/// of the task's session does not receive them. Has no effect unless the task's session and the
/// caller's session have an owner in common.
pub(crate) fn mark_consumed(root: &StateDir, state: &TaskState, shown: Coverage) {
    report_consume_error(notices::ack_shown(root, state, &current_session(), shown));
}

/// Acknowledges the notices of a task whose result was returned to the caller.
pub(crate) fn mark_returned(root: &StateDir, task: &Task) {
    report_consume_error(notices::ack_returned(
        root,
        &task.state.spec.session_id,
        &task.covered_notices,
    ));
}

fn report_consume_error(result: Result<(), notices::NoticesError>) {
    if let Err(error) = result {
        errln!(
            "siding: could not acknowledge these notices: {error}; `siding notices` shows them again"
        );
    }
}

/// Advances a consumer's read cursor to `offset`, and never moves the cursor back.
pub(crate) fn advance_read_cursor(dir: &TaskDir, consumer: &SessionId, offset: u64) {
    let noted = output::load_read_cursor(dir, consumer).and_then(|seen| {
        if offset > seen { output::advance_read_cursor(dir, consumer, offset) } else { Ok(()) }
    });
    if let Err(error) = noted {
        errln!(
            "siding: could not store the read position: {error}; this output will be shown again"
        );
    }
}

/// Prints what a recovery did to a task, or why it changed nothing. Prints nothing about a task
/// that needed no recovery, that has no record, or that another process is recovering.
pub(crate) fn report_recovery(id: TaskId, found: &RecoveryOutcome) {
    match found {
        RecoveryOutcome::Continued => {
            errln!("siding: {id}: its shim had been stopped by a signal; siding resumed it")
        }
        RecoveryOutcome::TakenOver => {
            errln!("siding: {id}: its shim had been killed; a new one supervises it")
        }
        RecoveryOutcome::EndRecorded => {
            errln!("siding: {id}: its shim had been killed, and no process of the task is left");
        }
        RecoveryOutcome::Quarantined { path, why } => {
            errln!("siding: {id}: {why}; moved to `{}`", path.display());
        }
        RecoveryOutcome::OtherMachine { machine } => {
            for line in
                OtherMachineTasks(BTreeMap::from([(machine.clone(), vec![id])])).format_lines()
            {
                errln!("siding: {line}");
            }
        }
        RecoveryOutcome::TooNew { why } => {
            errln!("siding: {id}: {why}; left alone, upgrade siding")
        }
        RecoveryOutcome::Supervised
        | RecoveryOutcome::Ended
        | RecoveryOutcome::NeverRecorded
        | RecoveryOutcome::Busy => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_that_cannot_be_used_is_named_with_the_reason() {
        let failure = |path: &str, at: &str, doing, kind: ErrorKind| {
            let source = kind.into();
            let error = StoreError::Io { doing, path: at.into(), source };
            state_dir_failure(Path::new(path), true, error).message()
        };
        let file = "/proc/self/stat";
        for (path, at, doing, kind, why) in [
            (file, file, "open", ErrorKind::NotADirectory, "it is not a directory"),
            (
                "/proc/self/stat/x",
                "/proc/self/stat/x",
                "open",
                ErrorKind::NotADirectory,
                "a part of its path is not a directory",
            ),
            (
                "/s",
                "/s",
                "create",
                ErrorKind::PermissionDenied,
                "could not create it: permission denied",
            ),
            (
                "/s",
                "/s/tasks",
                "create",
                ErrorKind::ReadOnlyFilesystem,
                "could not create `/s/tasks`: read-only filesystem or storage medium",
            ),
        ] {
            assert_eq!(
                failure(path, at, doing, kind),
                format!("the state directory `{path}` cannot be used: {why}")
            );
        }
    }

    #[test]
    fn one_line_names_each_machine_and_counts_its_tasks() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let mut elsewhere = OtherMachineTasks::default();
        for machine in ["far 1", "near\u{202e} 2", "far 1", "far 1"] {
            elsewhere.add(id, machine.to_owned());
        }
        assert_eq!(
            elsewhere.format_lines(),
            [
                "3 tasks run on another machine, `far 1`; run the command there",
                "b-4k7q0n2m8x5t: it runs on another machine, `near\\u{202e} 2`; run the command there",
            ]
        );
    }
}
