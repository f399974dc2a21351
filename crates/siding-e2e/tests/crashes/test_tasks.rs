//! The tasks that the crash tests start.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use siding_e2e::{Invocation, Process, Sandbox, words};

use crate::state;

/// The output that the command of every test task writes. siding may append its own lines.
pub(crate) const TASK_OUTPUT: &str = "one\ntwo\n";
/// The exit code of a brief task.
pub(crate) const EXIT_CODE: u8 = 7;
/// The grace of the stops in these tests: long enough for a signal to be delivered, and short,
/// because each stop of a stubborn task takes this long.
pub(crate) const STOP_GRACE: &str = "50ms";

/// Returns a number that makes a command unique, because siding does not start a command that
/// already runs.
fn next_number() -> u32 {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Writes [`TASK_OUTPUT`] and exits with [`EXIT_CODE`].
    Brief,
    /// Writes [`TASK_OUTPUT`], ignores SIGTERM and never exits. The command also starts a daemon
    /// with another session, parent, directory and name, an empty environment, and no open
    /// descriptors.
    Stubborn,
}

/// A command that a test starts as a task, with a number that makes the command unique.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) kind: TaskKind,
    number: u32,
}

impl Task {
    pub(crate) fn new(kind: TaskKind) -> Self {
        Self { kind, number: next_number() }
    }

    /// Returns the words after `siding run … --`.
    pub(crate) fn command(&self, sandbox: &Sandbox) -> Vec<String> {
        match self.kind {
            TaskKind::Brief => {
                vec![format!("echo one; echo two; : {}; exit {EXIT_CODE}", self.number)]
            }
            TaskKind::Stubborn => sandbox.puppet_argv(&words(&format!(
                "--quiet ignore TERM say one say two \
                 fork daemon mark stray-{0} hang -- mark leader-{0} hang",
                self.number
            ))),
        }
    }

    /// Prepares a `siding run --json` of the task with `flags`.
    pub(crate) fn run(&self, sandbox: &Sandbox, flags: &[&str]) -> Invocation {
        let mut args: Vec<String> =
            ["run", "--json", "--grace", STOP_GRACE].map(str::to_owned).into();
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        args.push("--".to_owned());
        args.extend(self.command(sandbox));
        sandbox.siding(&args)
    }

    /// Starts the task in the background and returns its id.
    #[track_caller]
    pub(crate) fn start(&self, sandbox: &Sandbox, flags: &[&str]) -> String {
        let flags = [&["--background"], flags].concat();
        let done = self.run(sandbox, &flags).run();
        assert!(matches!(done.code, Some(0 | 7)), "{done}");
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    }

    /// Waits until both processes of a stubborn task have announced themselves, and returns the
    /// leader and the daemon.
    #[track_caller]
    pub(crate) fn wait_until_running(&self, sandbox: &Sandbox) -> [Process; 2] {
        let leader = sandbox.wait_for_mark(&format!("leader-{}", self.number));
        let stray = sandbox.wait_for_mark(&format!("stray-{}", self.number));
        [leader, stray]
    }

    /// Returns whether any process of the task has written output or announced itself.
    pub(crate) fn has_run(&self, sandbox: &Sandbox, id: &str) -> bool {
        let has_own_number = |name: &String| name.ends_with(&format!("-{}", self.number));
        !state::output(sandbox, id).is_empty()
            || sandbox.announcements().iter().any(|step| {
                step.verb == "mark" && step.fields.get("text").is_some_and(has_own_number)
            })
    }
}

/// Starts a call and waits until its shim stops at the failpoint `point`. Returns the call, the
/// task's id and the shim.
#[track_caller]
pub(crate) fn spawn_until_paused(
    sandbox: &Sandbox,
    call: Invocation,
    point: &str,
) -> (siding_e2e::RunningProgram, String, Process) {
    let before: BTreeSet<String> = state::task_ids(sandbox);
    let client = call.pause_at(point).spawn();
    let (id, shim) = state::wait_for_paused_shim(sandbox, &before, point);
    (client, id, shim)
}
