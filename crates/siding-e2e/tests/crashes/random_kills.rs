//! Kills shims, clients and processes of tasks at random moments. Afterwards `siding stop --all`
//! leaves no process, and the end of each recorded task is in its journal (promise P75).

use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{Process, RunningProgram, Sandbox, processes};

use crate::state;
use crate::test_tasks::{STOP_GRACE, Task, TaskKind};

/// Commands that run concurrently with the kills; `ID` is replaced by the id of a task.
const RANDOM_COMMANDS: [&[&str]; 6] = [
    &["ps", "--json"],
    &["reap", "--json"],
    &["wait", "--timeout", "20ms", "ID"],
    &["stop", "--grace", "0s", "ID"],
    &["extend", "ID", "1m"],
    &["show", "ID"],
];

/// Kills a shim of a task or, less often, any process of the task.
pub(crate) fn kill_random_process(dice: &mut SplitMix64, id: &str) {
    let shims = state::shims(id);
    let members = processes::with_birthmark(id);
    let candidates: &[Process] = if dice.next_below(4) > 0 { &shims } else { &members };
    if let Some(victim) = dice.pick(candidates) {
        victim.kill();
    }
}

/// Promise P75 holds under random kills. `CRASHES_TASKS` sets the number of tasks (default 30), and
/// `CRASHES_SEED` the seed of the random events (default: the test's pid).
#[test]
fn stop_all_ends_everything_after_random_kills() {
    let tasks = crate::env_number("CRASHES_TASKS", 30);
    let seed = crate::env_number("CRASHES_SEED", u64::from(std::process::id()));
    eprintln!("CRASHES_SEED={seed}");
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut history = RandomRun { sandbox, dice: SplitMix64(seed), calls: vec![] };
    for _ in 0..tasks {
        history.start_task();
        for _ in 0..history.dice.next_below(5) {
            history.step();
        }
    }
    history.stop_and_check();
}

struct RandomRun {
    sandbox: Sandbox,
    dice: SplitMix64,
    calls: Vec<RunningProgram>,
}

impl RandomRun {
    fn start_task(&mut self) {
        let kind =
            self.dice.pick(&[TaskKind::Brief, TaskKind::Stubborn]).expect("the list is not empty");
        let flags: &[&str] =
            self.dice.pick(&[&["--background"][..], &[]]).expect("the list is not empty");
        self.calls.push(Task::new(kind).run(&self.sandbox, flags).spawn());
    }

    fn step(&mut self) {
        let ids: Vec<String> = state::task_ids(&self.sandbox).into_iter().collect();
        match self.dice.next_below(4) {
            0 | 1 => {
                let Some(id) = self.dice.pick(&ids) else { return };
                kill_random_process(&mut self.dice, &id);
            }
            2 if !self.calls.is_empty() => {
                let index = self.dice.next_below(self.calls.len() as u64) as usize;
                drop(self.calls.swap_remove(index));
            }
            _ => {
                let command = self.dice.pick(&RANDOM_COMMANDS).expect("the list is not empty");
                let Some(id) = self.dice.pick(&ids) else { return };
                let words: Vec<&str> =
                    command.iter().map(|word| if *word == "ID" { &id } else { *word }).collect();
                self.calls.push(self.sandbox.siding(&words).spawn());
            }
        }
    }

    /// Stops all tasks and asserts that no process is left and that every end is recorded.
    fn stop_and_check(mut self) {
        self.calls.clear();
        let stop = ["stop", "--all", "--grace", STOP_GRACE];
        let done = self.sandbox.siding(&stop).run();
        // Only one kind of failure is allowed: a task cannot be stopped if its client and shim were
        // killed before anything was recorded.
        let failures =
            done.stderr_text().lines().filter(|line| line.starts_with("siding: task")).count();
        let not_started = done.stderr_text().matches("could not start").count();
        assert!(done.code == Some(0) || failures == not_started, "{done}");
        let _again = self.sandbox.siding(&stop).run().expect_code(0);
        let mut rescues = 0;
        for id in state::task_ids(&self.sandbox) {
            if let Some(folded) = state::journal(&self.sandbox, &id) {
                rescues += folded.state.takeovers;
                state::assert_ended_cleanly(&self.sandbox, &id);
            } else {
                assert_eq!(processes::with_birthmark(&id), [], "{id} runs without a record");
            }
        }
        eprintln!("{rescues} rescues");
        assert!(state::live_task_ids(&self.sandbox).is_empty());
        for step in self.sandbox.announcements() {
            assert!(!step.process.is_alive(), "the process is still alive: {step:?}");
        }
    }
}
