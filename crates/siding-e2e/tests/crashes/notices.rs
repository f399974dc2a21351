//! Delivery of `ended` notices when any process may be killed: each end is reported at least once,
//! by a notice or in the answer to the task's caller, and no notice is delivered again after it has
//! been acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{ProgramOutput, RunningProgram, Sandbox, eventually};

use crate::failpoints::{ExpectedRecord, FAILPOINT_TABLE, Trigger};
use crate::random_kills::kill_random_process;
use crate::state;
use crate::test_tasks::{STOP_GRACE, Task, TaskKind};

/// Returns the notice id and the task id of each `ended` notice in a consumer's output.
#[track_caller]
fn end_notices(done: &ProgramOutput) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let ended = |one: &&Value| one["kind"] == "ended";
    let view = done.json();
    let notices = view.as_array().expect("a list").iter().filter(ended);
    notices.map(|one| (text(&one["notice_id"]), text(&one["task_id"]))).collect()
}

fn notice_consumer(sandbox: &Sandbox) -> siding_e2e::Invocation {
    sandbox.siding(&["notices", "--json", "--ack"])
}

/// Prepares a command in another session, so that the command acknowledges no notices of the
/// session under test.
fn other_session_call(sandbox: &Sandbox, args: &[&str]) -> siding_e2e::Invocation {
    sandbox.siding(args).env("SIDING_SESSION", "other")
}

#[test]
fn end_is_reported_once_at_whichever_failpoint_the_shim_dies() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, trigger, expected) in FAILPOINT_TABLE {
        let task =
            Task::new(if trigger == Trigger::Stop { TaskKind::Stubborn } else { TaskKind::Brief });
        let before = state::task_ids(&sandbox);
        let client = task.run(&sandbox, &["--background"]).pause_at(point).spawn();
        let mut stopper = None;
        if trigger == Trigger::Stop {
            task.wait_until_running(&sandbox);
            let stop = ["stop", "--all", "--grace", STOP_GRACE];
            stopper = Some(other_session_call(&sandbox, &stop).spawn());
        }
        let (id, shim) = state::wait_for_paused_shim(&sandbox, &before, point);
        // At a failpoint after the command's exit, the caller can still receive an answer, and this
        // answer may report the end.
        let is_reported = match trigger {
            Trigger::End => client.wait().json()["phase"] == "ended",
            Trigger::Start | Trigger::Stop => {
                drop(client);
                false
            }
        };
        drop(stopper);
        state::kill_and_wait(shim);
        let mut names = Vec::new();
        if is_reported {
            names.extend(end_notices(&notice_consumer(&sandbox).run().expect_code(0)));
            assert_eq!(names, [], "{point}: its caller already received the end");
            state::assert_ended_cleanly(&sandbox, &id);
            continue;
        }
        if expected == ExpectedRecord::NothingRecorded {
            names.extend(end_notices(&notice_consumer(&sandbox).run().expect_code(0)));
            assert_eq!(names, [], "{point}: nothing was ever recorded");
            continue;
        }
        eventually(&format!("the end is reported ({point})"), || {
            names.extend(end_notices(&notice_consumer(&sandbox).run().expect_code(0)));
            !names.is_empty()
        });
        names.extend(end_notices(&notice_consumer(&sandbox).run().expect_code(0)));
        let tasks: Vec<_> = names.iter().map(|(_, task)| task).collect();
        assert_eq!(tasks, [&id], "{point}");
        state::assert_ended_cleanly(&sandbox, &id);
    }
}

/// Promise P59 holds under random kills. `CRASHES_TASKS` sets the number of tasks (default 30), and
/// `CRASHES_SEED` the seed of the random events (default: the test's pid).
#[test]
fn every_end_is_reported_once_under_random_kills() {
    let tasks = crate::env_number("CRASHES_TASKS", 30);
    let seed = crate::env_number("CRASHES_SEED", u64::from(std::process::id()));
    eprintln!("CRASHES_SEED={seed}");
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let (dice, end_counts) = (SplitMix64(seed), BTreeMap::new());
    let mut history = RandomRun {
        sandbox,
        dice,
        callers: vec![],
        other_calls: vec![],
        consumers: vec![],
        end_counts,
    };
    for _ in 0..tasks {
        history.start_task();
        for _ in 0..history.dice.next_below(6) {
            history.step();
        }
    }
    history.stop_and_check();
}

struct RandomRun {
    sandbox: Sandbox,
    dice: SplitMix64,
    callers: Vec<RunningProgram>,
    other_calls: Vec<RunningProgram>,
    consumers: Vec<RunningProgram>,
    /// The number of times that completed consumers have printed each `ended` notice, by notice id.
    end_counts: BTreeMap<String, u32>,
}

impl RandomRun {
    fn start_task(&mut self) {
        let kind = self
            .dice
            .pick(&[TaskKind::Brief, TaskKind::Brief, TaskKind::Stubborn])
            .expect("the list is not empty");
        let flags: &[&str] =
            self.dice.pick(&[&["--background"][..], &[]]).expect("the list is not empty");
        self.callers.push(Task::new(kind).run(&self.sandbox, flags).spawn());
    }

    fn step(&mut self) {
        match self.dice.next_below(8) {
            0 | 1 => {
                let ids: Vec<String> = state::task_ids(&self.sandbox).into_iter().collect();
                let Some(id) = self.dice.pick(&ids) else { return };
                kill_random_process(&mut self.dice, &id);
            }
            2 if !self.callers.is_empty() => {
                let index = self.dice.next_below(self.callers.len() as u64) as usize;
                drop(self.callers.swap_remove(index));
            }
            3 | 4 => self.consumers.push(notice_consumer(&self.sandbox).spawn()),
            5 if !self.consumers.is_empty() => {
                let index = self.dice.next_below(self.consumers.len() as u64) as usize;
                // The output of this consumer is not counted, because each notice in this output
                // either was acknowledged before the kill or will be delivered again.
                drop(self.consumers.swap_remove(index));
            }
            6 => {
                for consumer in std::mem::take(&mut self.consumers) {
                    self.record_notices(consumer);
                }
            }
            _ => {
                // Dropping a call kills its process if the call has not completed.
                self.other_calls.clear();
                let commands: [&[&str]; 3] =
                    [&["ps", "--json"], &["reap", "--json"], &["stop", "--all", "--grace", "0s"]];
                let command = self.dice.pick(&commands).expect("the list is not empty");
                self.other_calls.push(other_session_call(&self.sandbox, command).spawn());
            }
        }
    }

    fn record_notices(&mut self, consumer: RunningProgram) {
        let done = consumer.wait();
        assert!(matches!(done.code, Some(0 | 125)), "{done}");
        for (name, _) in end_notices(&done) {
            *self.end_counts.entry(name).or_default() += 1;
        }
    }

    fn stop_and_check(mut self) {
        // Kill the callers, because the callers of stubborn tasks would wait forever.
        self.callers.clear();
        let stop = ["stop", "--all", "--grace", STOP_GRACE];
        let _first = other_session_call(&self.sandbox, &stop).run();
        let _again = other_session_call(&self.sandbox, &stop).run().expect_code(0);
        self.other_calls.clear();
        for consumer in std::mem::take(&mut self.consumers) {
            self.record_notices(consumer);
        }
        let ended: BTreeSet<String> = state::task_ids(&self.sandbox)
            .into_iter()
            .filter(|id| state::journal(&self.sandbox, id).is_some())
            .collect();
        eventually("every end was reported, or returned to its caller", || {
            let consumer = notice_consumer(&self.sandbox).spawn();
            self.record_notices(consumer);
            let acks = self.ack_counts();
            // Wait only for the acknowledgement of each task's `ended` notice, which may have been
            // withheld until the task's caller exits.
            let is_acked = |id: &String| {
                state::end_notice_id(&self.sandbox, id).is_some_and(|end| acks.contains_key(&end))
            };
            ended.iter().all(is_acked)
        });
        let remaining = self.sandbox.siding(&["notices", "--json"]).run().expect_code(0);
        assert_eq!(remaining.json(), Value::Array(vec![]), "{remaining}");
        let acks = self.ack_counts();
        for (name, (agents, callers)) in &acks {
            // A consumer holds the delivery lock from the delivery to the acknowledgement, so a
            // second acknowledgement proves a second delivery.
            assert!(
                *agents <= 1 && *callers <= 1,
                "{name} was delivered again: {agents}, {callers}"
            );
        }
        for (name, times) in &self.end_counts {
            assert_eq!((*times, acks[name].0), (1, 1), "{name} was delivered again");
        }
        let returned = acks.values().filter(|(_, callers)| *callers > 0).count();
        let delivered = acks.values().filter(|(agents, _)| *agents > 0).count();
        eprintln!("{} ends: {delivered} told, {returned} returned to callers", ended.len());
        ended.iter().for_each(|id| drop(state::assert_ended_cleanly(&self.sandbox, id)));
    }

    /// Returns, by notice id, how often the agent and how often the task's caller have acknowledged
    /// the notice.
    fn ack_counts(&self) -> BTreeMap<String, (u32, u32)> {
        let path = self.sandbox.state_dir().join("sessions/cli/acks");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut acks: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for line in text.lines() {
            let json = line.splitn(3, ' ').nth(2).expect("a framed record");
            let line: Value = serde_json::from_str(json).expect("a complete line");
            let Some(names) = line["notices"].as_array() else { continue };
            for name in names {
                let entry = acks.entry(name.as_str().expect("a name").to_owned()).or_default();
                if line["consumer"].is_string() { entry.0 += 1 } else { entry.1 += 1 }
            }
        }
        acks
    }
}
