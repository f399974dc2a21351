//! Random kills at random moments, and then the one promise: nothing lives, nothing lies.

use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{Process, RunningProgram, Sandbox, processes};

use crate::state;
use crate::tasks::{GRACE, Kind, Task};

/// Commands of a person who looks around while everything dies; `ID` stands for a task.
const COMMANDS: [&[&str]; 6] = [
    &["ps", "--json"],
    &["reap", "--json"],
    &["wait", "--timeout", "20ms", "ID"],
    &["stop", "--grace", "0s", "ID"],
    &["extend", "ID", "1m"],
    &["show", "ID"],
];

/// `CRASHES_TASKS` and `CRASHES_SEED` choose another number of tasks and another history.
#[test]
fn whatever_was_killed_a_last_stop_ends_everything() {
    let tasks = crate::number_from("CRASHES_TASKS", 30);
    let seed = crate::number_from("CRASHES_SEED", u64::from(std::process::id()));
    eprintln!("CRASHES_SEED={seed}");
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut history = History { sandbox, dice: SplitMix64(seed), calls: vec![] };
    for _ in 0..tasks {
        history.start();
        for _ in 0..history.dice.next_below(5) {
            history.step();
        }
    }
    history.end();
}

struct History {
    sandbox: Sandbox,
    dice: SplitMix64,
    calls: Vec<RunningProgram>,
}

impl History {
    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        from.get(self.dice.next_below(from.len() as u64) as usize).cloned()
    }

    fn start(&mut self) {
        let kind = self.pick(&[Kind::Brief, Kind::Stubborn]).expect("there are kinds");
        let flags: &[&str] = self.pick(&[&["--background"][..], &[]]).expect("there are flags");
        self.calls.push(Task::new(kind).run(&self.sandbox, flags).spawn());
    }

    fn step(&mut self) {
        let ids: Vec<String> = state::tasks(&self.sandbox).into_iter().collect();
        match self.dice.next_below(4) {
            // Somebody of a task, its shim more often than others.
            0 | 1 => {
                let Some(id) = self.pick(&ids) else { return };
                let shims = state::shims(&id);
                let members = processes::with_birthmark(&id);
                let among: &[Process] = if self.dice.next_below(4) > 0 { &shims } else { &members };
                if let Some(victim) = self.pick(among) {
                    victim.kill();
                }
            }
            2 if !self.calls.is_empty() => {
                let index = self.dice.next_below(self.calls.len() as u64) as usize;
                drop(self.calls.swap_remove(index));
            }
            _ => {
                let command = self.pick(&COMMANDS).expect("there are commands");
                let Some(id) = self.pick(&ids) else { return };
                let words: Vec<&str> =
                    command.iter().map(|word| if *word == "ID" { &id } else { *word }).collect();
                self.calls.push(self.sandbox.siding(&words).spawn());
            }
        }
    }

    /// Ends everything and checks that it is true.
    fn end(mut self) {
        self.calls.clear();
        let stop = ["stop", "--all", "--grace", GRACE];
        let done = self.sandbox.siding(&stop).run();
        // The only thing that may go wrong: a task whose client and shim were killed before
        // anything was on record cannot be stopped.
        let failures =
            done.stderr_text().lines().filter(|line| line.starts_with("siding: task")).count();
        let never_was = done.stderr_text().matches("could not start").count();
        assert!(done.code == Some(0) || failures == never_was, "{done}");
        let _again = self.sandbox.siding(&stop).run().expect_code(0);
        let mut rescues = 0;
        for id in state::tasks(&self.sandbox) {
            if let Some(folded) = state::journal(&self.sandbox, &id) {
                rescues += folded.state.takeovers;
                state::assert_over(&self.sandbox, &id);
            } else {
                assert_eq!(processes::with_birthmark(&id), [], "{id} runs without a record");
            }
        }
        eprintln!("{rescues} rescues");
        assert!(state::live_marks(&self.sandbox).is_empty());
        for step in self.sandbox.announcements() {
            assert!(!step.process.is_alive(), "it outlived everything: {step:?}");
        }
    }
}
