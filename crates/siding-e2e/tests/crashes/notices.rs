//! Whoever is killed, every end is told: at least once to the session, and never twice to a
//! consumer that acknowledges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{Process, ProgramOutput, RunningProgram, Sandbox, eventually, processes};

use crate::points::{TABLE, Truth, Way};
use crate::state;
use crate::tasks::{GRACE, Kind, Task};

/// The names of notices and their tasks, as a consumer that came to its end was told.
#[track_caller]
fn told(done: &ProgramOutput) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let ended = |one: &&Value| one["kind"] == "ended";
    let view = done.json();
    let notices = view.as_array().expect("a list").iter().filter(ended);
    notices.map(|one| (text(&one["notice_id"]), text(&one["task_id"]))).collect()
}

fn consumer(sandbox: &Sandbox) -> siding_e2e::Invocation {
    sandbox.siding(&["notices", "--json", "--ack"])
}

/// A command of somebody else: what he reads is not told to the agent by it.
fn stranger(sandbox: &Sandbox, args: &[&str]) -> siding_e2e::Invocation {
    sandbox.siding(args).env("SIDING_SESSION", "other")
}

#[test]
fn an_end_is_told_once_wherever_its_shim_was_killed() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (point, way, truth) in TABLE {
        let task = Task::new(if way == Way::Stop { Kind::Stubborn } else { Kind::Brief });
        let before = state::tasks(&sandbox);
        let client = task.run(&sandbox, &["--background"]).pause_at(point).spawn();
        let mut stopper = None;
        if way == Way::Stop {
            task.stands(&sandbox);
            let stop = ["stop", "--all", "--grace", GRACE];
            stopper = Some(stranger(&sandbox, &stop).spawn());
        }
        let (id, shim) = state::paused(&sandbox, &before, point);
        // One that is to end comes back to its caller, perhaps with the end.
        let is_known = match way {
            Way::End => client.wait().json()["phase"] == "ended",
            Way::Start | Way::Stop => {
                drop(client);
                false
            }
        };
        drop(stopper);
        state::kill(shim);
        let mut names = Vec::new();
        if is_known {
            names.extend(told(&consumer(&sandbox).run().expect_code(0)));
            assert_eq!(names, [], "{point}: its caller was told");
            state::assert_over(&sandbox, &id);
            continue;
        }
        if truth == Truth::NeverWas {
            names.extend(told(&consumer(&sandbox).run().expect_code(0)));
            assert_eq!(names, [], "{point}: nothing ever was");
            continue;
        }
        eventually(&format!("the end is told ({point})"), || {
            names.extend(told(&consumer(&sandbox).run().expect_code(0)));
            !names.is_empty()
        });
        names.extend(told(&consumer(&sandbox).run().expect_code(0)));
        let tasks: Vec<_> = names.iter().map(|(_, task)| task).collect();
        assert_eq!(tasks, [&id], "{point}");
        state::assert_over(&sandbox, &id);
    }
}

/// `CRASHES_TASKS` and `CRASHES_SEED` choose another number of tasks and another history.
#[test]
fn every_end_is_told_and_never_twice() {
    let tasks = crate::number_from("CRASHES_TASKS", 30);
    let seed = crate::number_from("CRASHES_SEED", u64::from(std::process::id()));
    eprintln!("CRASHES_SEED={seed}");
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let (dice, told) = (SplitMix64(seed), BTreeMap::new());
    let mut history =
        History { sandbox, dice, callers: vec![], others: vec![], consumers: vec![], told };
    for _ in 0..tasks {
        history.start();
        for _ in 0..history.dice.next_below(6) {
            history.step();
        }
    }
    history.end();
}

struct History {
    sandbox: Sandbox,
    dice: SplitMix64,
    callers: Vec<RunningProgram>,
    others: Vec<RunningProgram>,
    consumers: Vec<RunningProgram>,
    /// How often each end was told by a consumer that came to its own end.
    told: BTreeMap<String, u32>,
}

impl History {
    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.dice.next_below(from.len() as u64) as usize).cloned()
    }

    fn start(&mut self) {
        let kind = self.pick(&[Kind::Brief, Kind::Brief, Kind::Stubborn]).expect("there are kinds");
        let flags: &[&str] = self.pick(&[&["--background"][..], &[]]).expect("there are flags");
        self.callers.push(Task::new(kind).run(&self.sandbox, flags).spawn());
    }

    fn step(&mut self) {
        match self.dice.next_below(8) {
            // Somebody of a task, its shim more often than others.
            0 | 1 => {
                let ids: Vec<String> = state::tasks(&self.sandbox).into_iter().collect();
                let Some(id) = self.pick(&ids) else { return };
                let shims = state::shims(&id);
                let members = processes::with_birthmark(&id);
                let among: &[Process] = if self.dice.next_below(4) > 0 { &shims } else { &members };
                if let Some(victim) = self.pick(among) {
                    victim.kill();
                }
            }
            2 if !self.callers.is_empty() => {
                let index = self.dice.next_below(self.callers.len() as u64) as usize;
                drop(self.callers.swap_remove(index));
            }
            3 | 4 => self.consumers.push(consumer(&self.sandbox).spawn()),
            5 if !self.consumers.is_empty() => {
                let index = self.dice.next_below(self.consumers.len() as u64) as usize;
                // What it told was acknowledged, or is told again.
                drop(self.consumers.swap_remove(index));
            }
            6 => {
                for consumer in std::mem::take(&mut self.consumers) {
                    self.hear(consumer);
                }
            }
            _ => {
                // Those who came to their end, or not.
                self.others.clear();
                let commands: [&[&str]; 3] =
                    [&["ps", "--json"], &["reap", "--json"], &["stop", "--all", "--grace", "0s"]];
                let command = self.pick(&commands).expect("there are commands");
                self.others.push(stranger(&self.sandbox, command).spawn());
            }
        }
    }

    fn hear(&mut self, consumer: RunningProgram) {
        let done = consumer.wait();
        assert!(matches!(done.code, Some(0 | 125)), "{done}");
        for (name, _) in told(&done) {
            *self.told.entry(name).or_default() += 1;
        }
    }

    fn end(mut self) {
        // Callers of stubborn tasks would wait for ever.
        self.callers.clear();
        let stop = ["stop", "--all", "--grace", GRACE];
        let _first = stranger(&self.sandbox, &stop).run();
        let _again = stranger(&self.sandbox, &stop).run().expect_code(0);
        self.others.clear();
        for consumer in std::mem::take(&mut self.consumers) {
            self.hear(consumer);
        }
        let ended: BTreeSet<String> = state::tasks(&self.sandbox)
            .into_iter()
            .filter(|id| state::journal(&self.sandbox, id).is_some())
            .collect();
        eventually("every end was told, or returned to its caller", || {
            let consumer = consumer(&self.sandbox).spawn();
            self.hear(consumer);
            let acks = self.acks();
            // Another notice of the task says nothing about its end, which waits for its caller.
            let is_told = |id: &String| {
                state::end(&self.sandbox, id).is_some_and(|end| acks.contains_key(&end))
            };
            ended.iter().all(is_told)
        });
        let rest = self.sandbox.siding(&["notices", "--json"]).run().expect_code(0);
        assert_eq!(rest.json(), Value::Array(vec![]), "{rest}");
        let acks = self.acks();
        for (name, (agents, callers)) in &acks {
            // Who tells holds the turn until it is acknowledged, so a second acknowledgement is a
            // second telling.
            assert!(*agents <= 1 && *callers <= 1, "{name} was told again: {agents}, {callers}");
        }
        for (name, times) in &self.told {
            assert_eq!((*times, acks[name].0), (1, 1), "{name} was told again");
        }
        let returned = acks.values().filter(|(_, callers)| *callers > 0).count();
        let told = acks.values().filter(|(agents, _)| *agents > 0).count();
        eprintln!("{} ends: {told} told, {returned} returned to callers", ended.len());
        ended.iter().for_each(|id| drop(state::assert_over(&self.sandbox, id)));
    }

    /// How often each notice was acknowledged by the agent, and by its task's own caller.
    fn acks(&self) -> BTreeMap<String, (u32, u32)> {
        let path = self.sandbox.state_dir().join("sessions/cli/acks");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut acks: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for line in text.lines() {
            let json = line.splitn(3, ' ').nth(2).expect("a frame");
            let line: Value = serde_json::from_str(json).expect("no kill tears a line");
            let Some(names) = line["notices"].as_array() else { continue };
            for name in names {
                let entry = acks.entry(name.as_str().expect("a name").to_owned()).or_default();
                if line["consumer"].is_string() { entry.0 += 1 } else { entry.1 += 1 }
            }
        }
        acks
    }
}
