//! Every pause point of the shim, and everybody who can be killed there.

use siding_e2e::{Process, RunningProgram, Sandbox, eventually, words};
use siding_model::outcome::Outcome;

use crate::state;
use crate::tasks::{self, CODE, GRACE, Kind, LINES, Task};

/// The list of the points, as the shim has it.
const SOURCE: &str = include_str!("../../../siding-shim/src/failpoints.rs");

/// What leads a shim to a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Any task comes by while it is started.
    Start,
    /// A task comes by that ends by itself.
    End,
    /// A task comes by that is stopped.
    Stop,
}

/// What must be true after a crash at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truth {
    /// Nothing was recorded, so nothing runs and nothing is left.
    NeverWas,
    /// Recorded, but nothing ever ran.
    NeverRan,
    /// It ran; whether its end was seen is a matter of luck.
    Ran,
    /// It ended and that was recorded.
    Ended,
    /// Somebody's wish to end it was recorded.
    Stopped,
}

pub(crate) const TABLE: [(&str, Way, Truth); 12] = [
    ("begun", Way::Start, Truth::NeverWas),
    ("accepted", Way::Start, Truth::NeverRan),
    ("ready", Way::Start, Truth::NeverRan),
    ("spawned", Way::Start, Truth::Ran),
    ("running", Way::Start, Truth::Ran),
    ("leader_ended", Way::End, Truth::Ran),
    ("intent", Way::Stop, Truth::Stopped),
    ("signalled", Way::Stop, Truth::Stopped),
    ("killing", Way::Stop, Truth::Stopped),
    ("swept", Way::Stop, Truth::Stopped),
    ("ended", Way::End, Truth::Ended),
    ("told", Way::End, Truth::Ended),
];

/// Who is killed at the point, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victims {
    Shim,
    ClientThenShim,
    ShimThenClient,
    OwnerThenShim,
}

#[test]
fn the_table_has_every_point() {
    let list = SOURCE.split_once("POINTS").and_then(|(_, rest)| rest.split_once("];"));
    let (list, _) = list.expect("the shim has a list of its points");
    // Every second piece between quotation marks is a name.
    let points: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    assert_eq!(points, TABLE.map(|(point, ..)| point));
}

#[test]
fn the_shim_is_killed() {
    visit_all(Victims::Shim);
}

#[test]
fn the_client_is_killed_and_then_the_shim() {
    visit_all(Victims::ClientThenShim);
}

#[test]
fn the_shim_is_killed_and_then_the_client() {
    visit_all(Victims::ShimThenClient);
}

#[test]
fn the_owner_of_the_session_is_killed_and_then_the_shim() {
    visit_all(Victims::OwnerThenShim);
}

#[test]
fn whoever_waits_in_the_foreground_returns_with_the_truth() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, way, truth) in TABLE {
        let kind = if way == Way::Stop { Kind::Stubborn } else { Kind::Brief };
        let visit = Visit { point, way, truth, victims: Victims::Shim, task: Task::new(kind) };
        visit.wait_in_the_foreground(&sandbox);
    }
}

/// A task that was never put on record is no first launch of the same command.
#[test]
fn a_command_whose_shim_left_no_record_runs_again() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let run = || sandbox.siding(&["run", "--", "echo again"]);
    let (client, _, shim) = tasks::pause(&sandbox, run(), "begun");
    shim_and_client_die(client, shim);
    assert_eq!(run().run().expect_code(0).stdout_text(), "again\n");
    let _cleared = sandbox.siding(&["reap"]).run().expect_code(0);
}

fn shim_and_client_die(client: RunningProgram, shim: Process) {
    // Dropped first: a client that sees its shim die takes the task back.
    drop(client);
    state::kill(shim);
}

fn visit_all(victims: Victims) {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, way, truth) in TABLE {
        let kinds: &[Kind] = match way {
            Way::Start => &[Kind::Brief, Kind::Stubborn],
            Way::End => &[Kind::Brief],
            Way::Stop => &[Kind::Stubborn],
        };
        for kind in kinds {
            let visit = Visit { point, way, truth, victims, task: Task::new(*kind) };
            visit.go(&sandbox);
        }
    }
}

#[derive(Debug)]
struct Visit {
    point: &'static str,
    way: Way,
    truth: Truth,
    victims: Victims,
    task: Task,
}

impl Visit {
    fn go(&self, sandbox: &Sandbox) {
        let owner = (self.victims == Victims::OwnerThenShim).then(|| self.session(sandbox));
        let (client, id, shim) = self.lead(sandbox, owner.is_some());
        if self.task.kind == Kind::Stubborn && matches!(self.truth, Truth::Ran | Truth::Stopped) {
            self.task.stands(sandbox);
        }
        self.kill(client, owner, shim);
        self.go_on(sandbox, &id);
        self.check(sandbox, &id);
        state::assert_accounted(sandbox);
    }

    fn wait_in_the_foreground(&self, sandbox: &Sandbox) {
        let before = state::tasks(sandbox);
        let run = self.task.run(sandbox, &["--budget", "none"]).pause_at(self.point);
        let client = run.spawn();
        let mut stopper = None;
        if self.way == Way::Stop {
            self.task.stands(sandbox);
            let stop = ["stop", "--all", "--json", "--grace", GRACE];
            stopper = Some(sandbox.siding(&stop).spawn());
        }
        let (id, shim) = state::paused(sandbox, &before, self.point);
        state::kill(shim);
        let done = client.wait();
        if let Some(stopper) = stopper {
            let _stopped = stopper.wait().expect_code(0);
        }
        if self.truth == Truth::NeverWas {
            assert_eq!(done.code, Some(125), "{self:?}: {done}");
            assert!(done.stderr_text().contains("could not start"), "{self:?}: {done}");
            self.check(sandbox, &id);
            return;
        }
        if self.truth == Truth::Ended {
            // The client had all it wanted before the shim was killed.
            self.go_on(sandbox, &id);
        }
        self.check(sandbox, &id);
        let outcome = state::ended(sandbox, &id);
        let code = if let Outcome::Exited { code } = &outcome {
            i32::from(*code)
        } else if matches!(outcome, Outcome::Stopped { .. }) {
            128 + 15
        } else {
            125
        };
        // The polite signal was ignored, so it took the other.
        let killed = (code == 128 + 15).then_some(128 + 9);
        assert!(done.code == Some(code) || done.code == killed, "{self:?}: {outcome}, {done}");
        let told = serde_json::from_value(done.json()["outcome"].clone());
        assert_eq!(told.ok(), Some(outcome), "{self:?}: {done}");
    }

    /// Opens a session with an owner of its own.
    fn session(&self, sandbox: &Sandbox) -> RunningProgram {
        let owner = sandbox.puppet(&words("--quiet hang")).spawn();
        let pid = owner.process().pid.to_string();
        let args = ["session", "open", self.point, "--owner-pid", &pid];
        let _opened = sandbox.siding(&args).run().expect_code(0);
        owner
    }

    /// Leads a shim to the point. Returns whoever waits for it there.
    fn lead(&self, sandbox: &Sandbox, owned: bool) -> (RunningProgram, String, Process) {
        let session: &[&str] = if owned { &["--session", self.point] } else { &[] };
        let flags = [&["--background"], session].concat();
        let run = self.task.run(sandbox, &flags).env("SIDING_SESSION_GRACE", "100ms");
        if self.way != Way::Stop {
            return tasks::pause(sandbox, run, self.point);
        }
        let done = run.pause_at(self.point).run().expect_code(0);
        let id = done.json()["task_id"].as_str().expect("every task has an id").to_owned();
        self.task.stands(sandbox);
        let stopper = sandbox.siding(&["stop", "--json", "--grace", GRACE, &id]).spawn();
        let mut others = state::tasks(sandbox);
        others.remove(&id);
        let (id, shim) = state::paused(sandbox, &others, self.point);
        (stopper, id, shim)
    }

    fn kill(&self, client: RunningProgram, owner: Option<RunningProgram>, shim: Process) {
        match self.victims {
            Victims::ClientThenShim => {
                shim_and_client_die(client, shim);
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
        state::kill(shim);
        // It waited for the task when its shim was killed, and must not wait for ever.
        let done = client.wait();
        let is_told = match self.truth {
            Truth::NeverWas => done.code == Some(125),
            Truth::NeverRan | Truth::Ran | Truth::Ended | Truth::Stopped => {
                done.code.is_some_and(|code| [0, 7, 75, 125].contains(&code))
                    && done.json()["task_id"].is_string()
            }
        };
        assert!(is_told, "{self:?}: {done}");
    }

    /// The next command, whichever it is, and then the one that sees the task to its end.
    fn go_on(&self, sandbox: &Sandbox, id: &str) {
        let first: &[&str] = match self.victims {
            Victims::ClientThenShim => &["ps", "--json"],
            Victims::ShimThenClient => &["reap", "--json"],
            Victims::Shim | Victims::OwnerThenShim => &[],
        };
        if !first.is_empty() {
            // A client that outlived the shim may have been about to put another in its place. What
            // it had started then has the lock for a moment more, and who comes then leaves it be.
            eventually("the next command has found the task", || {
                let _done = sandbox.siding(first).run().expect_code(0);
                state::is_accounted(sandbox, id)
            });
            state::assert_accounted(sandbox);
        }
        let next = match self.task.kind {
            Kind::Brief => sandbox.siding(&["wait", "--json", "--timeout", "20s", id]),
            Kind::Stubborn => sandbox.siding(&["stop", "--json", "--grace", GRACE, id]),
        };
        let done = next.run();
        let expected = if self.truth == Truth::NeverWas { 125 } else { 0 };
        assert_eq!(done.code, Some(expected), "{self:?}: {done}");
    }

    fn check(&self, sandbox: &Sandbox, id: &str) {
        if self.truth == Truth::NeverWas {
            state::assert_never_was(sandbox, id);
            assert!(!self.task.ran(sandbox, id), "{self:?}: it was never recorded and ran");
            return;
        }
        let outcome = state::assert_over(sandbox, id);
        let lost = matches!(outcome, Outcome::Lost { .. });
        let by_owner = self.victims == Victims::OwnerThenShim;
        let stopped = matches!(&outcome, Outcome::Stopped { by } if by == "user" || by_owner);
        let holds = match (self.truth, self.task.kind) {
            (Truth::NeverWas | Truth::NeverRan, _) => lost && !self.task.ran(sandbox, id),
            (Truth::Ran, Kind::Brief) => state::is_true_or_lost(&outcome, CODE),
            (Truth::Ended, _) => outcome == Outcome::Exited { code: CODE },
            (Truth::Ran, Kind::Stubborn) | (Truth::Stopped, _) => stopped,
        };
        assert!(holds, "{self:?}: {outcome}");
        let output = state::own_output(sandbox, id);
        let whole = match (self.truth, self.task.kind) {
            (Truth::NeverWas | Truth::NeverRan, _) => output.is_empty(),
            // When nobody but the shim was left, what it had not read went with it.
            (Truth::Ran, Kind::Brief) => LINES.starts_with(&output),
            (Truth::Ran | Truth::Ended | Truth::Stopped, _) => output == LINES,
        };
        assert!(whole, "{self:?}: {output:?}");
    }
}
