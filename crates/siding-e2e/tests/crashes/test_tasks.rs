//! The tasks of these tests.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use siding_e2e::{Invocation, Process, Sandbox, words};

use crate::state;

/// What every task here writes first.
pub(crate) const TASK_OUTPUT: &str = "one\ntwo\n";
/// What a brief task exits with.
pub(crate) const EXIT_CODE: u8 = 7;
/// Grace of the stops here: long enough to see a signal, short enough to wait for the kill.
pub(crate) const STOP_GRACE: &str = "50ms";

/// Tells tasks apart, whose commands would be duplicates else.
fn next_number() -> u32 {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// What a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Writes its lines and exits with [`CODE`].
    Brief,
    /// Writes its lines, ignores SIGTERM, and lives for ever, with a child that has left its
    /// session, its parent, its directory, its name, its environment and its descriptors.
    Stubborn,
}

/// One task to be.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) kind: TaskKind,
    number: u32,
}

impl Task {
    pub(crate) fn new(kind: TaskKind) -> Self {
        Self { kind, number: next_number() }
    }

    /// The words after `siding run … --`.
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

    /// A call that starts it.
    pub(crate) fn run(&self, sandbox: &Sandbox, flags: &[&str]) -> Invocation {
        let mut args: Vec<String> =
            ["run", "--json", "--grace", STOP_GRACE].map(str::to_owned).into();
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        args.push("--".to_owned());
        args.extend(self.command(sandbox));
        sandbox.siding(&args)
    }

    /// Starts it in the background and returns its id.
    #[track_caller]
    pub(crate) fn start(&self, sandbox: &Sandbox, flags: &[&str]) -> String {
        let flags = [&["--background"], flags].concat();
        let done = self.run(sandbox, &flags).run();
        assert!(matches!(done.code, Some(0 | 7)), "{done}");
        done.json()["task_id"].as_str().expect("every task has an id").to_owned()
    }

    /// Waits until both processes of a stubborn one stand as they are meant to.
    #[track_caller]
    pub(crate) fn wait_until_running(&self, sandbox: &Sandbox) -> [Process; 2] {
        let leader = sandbox.wait_for_mark(&format!("leader-{}", self.number));
        let stray = sandbox.wait_for_mark(&format!("stray-{}", self.number));
        [leader, stray]
    }

    /// Whether anything of it ever ran.
    pub(crate) fn has_run(&self, sandbox: &Sandbox, id: &str) -> bool {
        let has_own_number = |name: &String| name.ends_with(&format!("-{}", self.number));
        !state::output(sandbox, id).is_empty()
            || sandbox.announcements().iter().any(|step| {
                step.verb == "mark" && step.fields.get("text").is_some_and(has_own_number)
            })
    }
}

/// Starts a call and waits until its shim stands at a pause point.
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
