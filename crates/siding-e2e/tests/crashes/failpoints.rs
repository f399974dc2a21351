//! Crashes at every failpoint of the shim. When the shim has stopped at the failpoint, the test
//! kills the shim alone, or together with the client or the session's owner.

use siding_e2e::{Process, RunningProgram, Sandbox, eventually, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::test_tasks::{self, EXIT_CODE, STOP_GRACE, TASK_OUTPUT, Task, TaskKind};

/// Source file of the shim that lists all failpoints.
const FAILPOINT_SOURCE: &str = include_str!("../../../siding-shim/src/failpoints.rs");

/// The event that makes the shim reach a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// `siding run` of a task of one of the two kinds.
    Start,
    /// The exit of a task's command, which no stop has caused.
    End,
    /// `siding stop` of a task that ignores SIGTERM.
    Stop,
}

/// The state of the journal that is required after a crash at a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedRecord {
    /// Nothing was recorded, so no process may run and no file may be left.
    NothingRecorded,
    /// The task was recorded, but its command never ran.
    NeverRan,
    /// The command ran. Whether a shim observed its end depends on timing.
    Ran,
    /// The exit of the command was recorded.
    Ended,
    /// A stop request was recorded.
    Stopped,
}

pub(crate) const FAILPOINT_TABLE: [(&str, Trigger, ExpectedRecord); 12] = [
    ("begun", Trigger::Start, ExpectedRecord::NothingRecorded),
    ("accepted", Trigger::Start, ExpectedRecord::NeverRan),
    ("ready", Trigger::Start, ExpectedRecord::NeverRan),
    ("spawned", Trigger::Start, ExpectedRecord::Ran),
    ("running", Trigger::Start, ExpectedRecord::Ran),
    ("leader_ended", Trigger::End, ExpectedRecord::Ran),
    ("intent", Trigger::Stop, ExpectedRecord::Stopped),
    ("signalled", Trigger::Stop, ExpectedRecord::Stopped),
    ("killing", Trigger::Stop, ExpectedRecord::Stopped),
    ("swept", Trigger::Stop, ExpectedRecord::Stopped),
    ("ended", Trigger::End, ExpectedRecord::Ended),
    ("notified", Trigger::End, ExpectedRecord::Ended),
];

/// The processes that are killed while the shim is at the failpoint. A variant names them in the
/// order of the kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victims {
    Shim,
    ClientThenShim,
    ShimThenClient,
    OwnerThenShim,
}

#[test]
fn table_lists_every_failpoint() {
    let list = FAILPOINT_SOURCE.split_once("POINTS").and_then(|(_, rest)| rest.split_once("];"));
    let (list, _) = list.expect("a list of failpoints");
    // After a split at quotation marks, every second part is a name.
    let points: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert_eq!(points, FAILPOINT_TABLE.map(|(point, ..)| point));
}

#[test]
fn task_is_recovered_after_the_shim_is_killed() {
    run_all_cases(Victims::Shim);
}

#[test]
fn task_is_recovered_after_client_then_shim_are_killed() {
    run_all_cases(Victims::ClientThenShim);
}

#[test]
fn task_is_recovered_after_shim_then_client_are_killed() {
    run_all_cases(Victims::ShimThenClient);
}

#[test]
fn task_is_recovered_after_owner_then_shim_are_killed() {
    run_all_cases(Victims::OwnerThenShim);
}

#[test]
fn foreground_client_returns_the_recorded_outcome() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, trigger, expected) in FAILPOINT_TABLE {
        let kind = if trigger == Trigger::Stop { TaskKind::Stubborn } else { TaskKind::Brief };
        let case =
            CrashCase { point, trigger, expected, victims: Victims::Shim, task: Task::new(kind) };
        case.run_in_foreground(&sandbox);
    }
}

/// After a start that was never recorded, a start of the same command is not rejected as a
/// duplicate.
#[test]
fn unrecorded_command_can_be_run_again() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let run = || sandbox.siding(&["run", "--", "echo again"]);
    let (client, _, shim) = test_tasks::spawn_until_paused(&sandbox, run(), "begun");
    kill_client_and_shim(client, shim);
    assert_eq!(run().run().expect_code(0).stdout_text(), "again\n");
    let _cleared = sandbox.siding(&["reap"]).run().expect_code(0);
}

fn kill_client_and_shim(client: RunningProgram, shim: Process) {
    // The client is killed first, because a client that sees its shim die removes an unrecorded
    // task.
    drop(client);
    state::kill_and_wait(shim);
}

fn run_all_cases(victims: Victims) {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, trigger, expected) in FAILPOINT_TABLE {
        let kinds: &[TaskKind] = match trigger {
            Trigger::Start => &[TaskKind::Brief, TaskKind::Stubborn],
            Trigger::End => &[TaskKind::Brief],
            Trigger::Stop => &[TaskKind::Stubborn],
        };
        for kind in kinds {
            let case = CrashCase { point, trigger, expected, victims, task: Task::new(*kind) };
            case.run(&sandbox);
        }
    }
}

#[derive(Debug)]
struct CrashCase {
    point: &'static str,
    trigger: Trigger,
    expected: ExpectedRecord,
    victims: Victims,
    task: Task,
}

impl CrashCase {
    fn run(&self, sandbox: &Sandbox) {
        let owner =
            (self.victims == Victims::OwnerThenShim).then(|| self.open_session_with_owner(sandbox));
        let (client, id, shim) = self.drive_to_failpoint(sandbox, owner.is_some());
        if self.task.kind == TaskKind::Stubborn
            && matches!(self.expected, ExpectedRecord::Ran | ExpectedRecord::Stopped)
        {
            self.task.wait_until_running(sandbox);
        }
        self.kill_victims(client, owner, shim);
        self.run_next_commands(sandbox, &id);
        self.assert_expected(sandbox, &id);
        state::assert_all_processes_recorded(sandbox);
    }

    fn run_in_foreground(&self, sandbox: &Sandbox) {
        let before = state::task_ids(sandbox);
        let run = self.task.run(sandbox, &["--budget", "none"]).pause_at(self.point);
        let client = run.spawn();
        let mut stopper = None;
        if self.trigger == Trigger::Stop {
            self.task.wait_until_running(sandbox);
            let stop = ["stop", "--all", "--json", "--grace", STOP_GRACE];
            stopper = Some(sandbox.siding(&stop).spawn());
        }
        let (id, shim) = state::wait_for_paused_shim(sandbox, &before, self.point);
        state::kill_and_wait(shim);
        let done = client.wait();
        if let Some(stopper) = stopper {
            let _stopped = stopper.wait().expect_code(0);
        }
        if self.expected == ExpectedRecord::NothingRecorded {
            assert_eq!(done.code, Some(125), "{self:?}: {done}");
            assert!(done.stderr_text().contains("could not start"), "{self:?}: {done}");
            self.assert_expected(sandbox, &id);
            return;
        }
        if self.expected == ExpectedRecord::Ended {
            // The client had received the outcome before the shim was killed, so the task is
            // repaired only by the next commands.
            self.run_next_commands(sandbox, &id);
        }
        self.assert_expected(sandbox, &id);
        let outcome = state::wait_for_outcome(sandbox, &id);
        let code = if let Outcome::Exited { code } = &outcome {
            i32::from(*code)
        } else if matches!(outcome, Outcome::Stopped { .. }) {
            128 + 15
        } else {
            125
        };
        // The task ignores SIGTERM, so the stop may have ended it with SIGKILL, for which the exit
        // code is different.
        let killed = (code == 128 + 15).then_some(128 + 9);
        assert!(done.code == Some(code) || done.code == killed, "{self:?}: {outcome}, {done}");
        let reported = serde_json::from_value(done.json()["outcome"].clone());
        assert_eq!(reported.ok(), Some(outcome), "{self:?}: {done}");
    }

    /// Starts a process and opens a session that is owned by that process and named after the
    /// failpoint.
    fn open_session_with_owner(&self, sandbox: &Sandbox) -> RunningProgram {
        let owner = sandbox.puppet(&words("--quiet hang")).spawn();
        let pid = owner.process().pid.to_string();
        let args = ["session", "open", self.point, "--owner-pid", &pid];
        let _opened = sandbox.siding(&args).run().expect_code(0);
        owner
    }

    /// Makes a shim reach the failpoint and stop there. Returns the client that waits for the shim,
    /// the task's id, and the shim.
    fn drive_to_failpoint(
        &self,
        sandbox: &Sandbox,
        owned: bool,
    ) -> (RunningProgram, String, Process) {
        let session: &[&str] = if owned { &["--session", self.point] } else { &[] };
        let flags = [&["--background"], session].concat();
        let run = self.task.run(sandbox, &flags).env("SIDING_SESSION_GRACE", "100ms");
        if self.trigger != Trigger::Stop {
            return test_tasks::spawn_until_paused(sandbox, run, self.point);
        }
        let done = run.pause_at(self.point).run().expect_code(0);
        let id = done.json()["task_id"].as_str().expect("a task id").to_owned();
        self.task.wait_until_running(sandbox);
        let stopper = sandbox.siding(&["stop", "--json", "--grace", STOP_GRACE, &id]).spawn();
        let mut others = state::task_ids(sandbox);
        others.remove(&id);
        let (id, shim) = state::wait_for_paused_shim(sandbox, &others, self.point);
        (stopper, id, shim)
    }

    fn kill_victims(&self, client: RunningProgram, owner: Option<RunningProgram>, shim: Process) {
        match self.victims {
            Victims::ClientThenShim => {
                kill_client_and_shim(client, shim);
                return;
            }
            Victims::ShimThenClient => {
                shim.kill();
                drop(client);
                eventually("the shim is dead", || !shim.is_alive());
                return;
            }
            Victims::OwnerThenShim => drop(owner),
            Victims::Shim => {}
        }
        state::kill_and_wait(shim);
        // The client was waiting for the task when the shim was killed, and must return.
        let done = client.wait();
        let is_reported = match self.expected {
            ExpectedRecord::NothingRecorded => done.code == Some(125),
            ExpectedRecord::NeverRan
            | ExpectedRecord::Ran
            | ExpectedRecord::Ended
            | ExpectedRecord::Stopped => {
                done.code.is_some_and(|code| [0, 7, 75, 125].contains(&code))
                    && done.json()["task_id"].is_string()
            }
        };
        assert!(is_reported, "{self:?}: {done}");
    }

    /// Runs `ps` or `reap` if the client was also killed, then waits for the task's end or stops
    /// the task. The first of these commands must repair the task.
    fn run_next_commands(&self, sandbox: &Sandbox, id: &str) {
        let first: &[&str] = match self.victims {
            Victims::ClientThenShim => &["ps", "--json"],
            Victims::ShimThenClient => &["reap", "--json"],
            Victims::Shim | Victims::OwnerThenShim => &[],
        };
        if !first.is_empty() {
            // If the client was killed after the shim, the client may already have begun to start a
            // new shim. That shim still holds the task's lock for a moment, and other commands skip
            // a locked task.
            eventually("the next command has taken the task over", || {
                let _done = sandbox.siding(first).run().expect_code(0);
                state::is_supervised_or_empty(sandbox, id)
            });
            state::assert_all_processes_recorded(sandbox);
        }
        let next = match self.task.kind {
            TaskKind::Brief => sandbox.siding(&["wait", "--all", "--timeout", "20s", id]),
            TaskKind::Stubborn => sandbox.siding(&["stop", "--json", "--grace", STOP_GRACE, id]),
        };
        let done = next.run();
        let expected = if self.expected == ExpectedRecord::NothingRecorded { 125 } else { 0 };
        assert_eq!(done.code, Some(expected), "{self:?}: {done}");
    }

    fn assert_expected(&self, sandbox: &Sandbox, id: &str) {
        if self.expected == ExpectedRecord::NothingRecorded {
            state::assert_never_recorded(sandbox, id);
            assert!(!self.task.has_run(sandbox, id), "{self:?}: it ran without a record");
            return;
        }
        let outcome = state::assert_ended_cleanly(sandbox, id);
        let lost = matches!(outcome, Outcome::Lost { .. });
        let by_owner = self.victims == Victims::OwnerThenShim;
        let stopped = matches!(&outcome, Outcome::Stopped { by } if by == "user" || by_owner);
        let outcome_matches = match (self.expected, self.task.kind) {
            (ExpectedRecord::NothingRecorded | ExpectedRecord::NeverRan, _) => {
                lost && !self.task.has_run(sandbox, id)
            }
            (ExpectedRecord::Ran, TaskKind::Brief) => state::is_exit_or_lost(&outcome, EXIT_CODE),
            (ExpectedRecord::Ended, _) => outcome == Outcome::Exited { code: EXIT_CODE },
            (ExpectedRecord::Ran, TaskKind::Stubborn) | (ExpectedRecord::Stopped, _) => stopped,
        };
        assert!(outcome_matches, "{self:?}: {outcome}");
        let output = state::command_output(sandbox, id);
        let output_matches = match (self.expected, self.task.kind) {
            (ExpectedRecord::NothingRecorded | ExpectedRecord::NeverRan, _) => output.is_empty(),
            // A brief task may have ended before the shim was killed. In that case, output that was
            // still in the pipe is lost.
            (ExpectedRecord::Ran, TaskKind::Brief) => TASK_OUTPUT.starts_with(&output),
            (ExpectedRecord::Ran | ExpectedRecord::Ended | ExpectedRecord::Stopped, _) => {
                output == TASK_OUTPUT
            }
        };
        assert!(output_matches, "{self:?}: {output:?}");
    }
}
