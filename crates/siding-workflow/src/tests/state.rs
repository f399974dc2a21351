//! Tests the decisions on the next actions, with examples, random graphs and random events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use proptest::prelude::*;
use siding_model::process::UnixMs;

use super::{began_record, ended_record, failed_end, next_starts, plan, task, workflow_state};
use crate::{
    OnFailure, RunOptions, StepEnd, StepStatus, WorkflowRecord, WorkflowState, WorkflowVerdict,
};

const DIAMOND: &str = r#"
[[step]]
id = "a"
run = "x"
[[step]]
id = "b"
run = "x"
needs = ["a"]
retries = 1
[[step]]
id = "c"
run = "x"
needs = ["a"]
[[step]]
id = "d"
run = "x"
needs = ["b", "c"]
[[step]]
id = "tidy"
run = "x"
needs = ["d"]
if = "always()"
"#;

fn state_after(text: &str, records: &[WorkflowRecord]) -> WorkflowState {
    let mut course = workflow_state(text);
    for record in records {
        course.apply(record).expect("the record is valid");
    }
    course
}

#[test]
fn steps_run_once_their_needs_are_finished() {
    assert_eq!(next_starts(&workflow_state(DIAMOND)), ["a"]);
    let mut done = vec![began_record("a", 1), ended_record("a", 1, StepEnd::Ok)];
    assert_eq!(next_starts(&state_after(DIAMOND, &done)), ["b", "c"]);
    done.extend([began_record("b", 1), began_record("c", 1), ended_record("c", 1, StepEnd::Ok)]);
    assert!(next_starts(&state_after(DIAMOND, &done)).is_empty());
    done.push(ended_record("b", 1, failed_end(true)));
    let again = state_after(DIAMOND, &done).next_actions();
    assert_eq!(again.start.iter().map(|start| start.attempt).collect::<Vec<_>>(), [2]);
    done.extend([began_record("b", 2), ended_record("b", 2, StepEnd::Ok)]);
    assert_eq!(next_starts(&state_after(DIAMOND, &done)), ["d"]);
}

#[test]
fn a_failure_stops_all_steps_except_failure_handlers() {
    let done = [
        began_record("a", 1),
        ended_record("a", 1, StepEnd::Ok),
        began_record("b", 1),
        began_record("c", 1),
        ended_record("c", 1, failed_end(true)),
    ];
    let mut failing = state_after(DIAMOND, &done);
    let next = failing.next_actions();
    assert_eq!((next.start.len(), next.stop.as_slice(), next.verdict), (0, &[1][..], None));
    failing.apply(&ended_record("b", 1, StepEnd::Stopped)).expect("the record is valid");
    let states = failing.step_statuses();
    assert_eq!(states[1..4], [StepStatus::Stopped, StepStatus::Failed, StepStatus::NotRun]);
    assert_eq!(next_starts(&failing), ["tidy"]);
    failing.apply(&began_record("tidy", 1)).expect("the record is valid");
    assert!(failing.next_actions().stop.is_empty());
    failing.apply(&ended_record("tidy", 1, StepEnd::Ok)).expect("the record is valid");
    assert_eq!(failing.next_actions().verdict, Some(WorkflowVerdict::Failed));
}

#[test]
fn stopped_steps_run_again_after_resume() {
    let stopped = [
        began_record("a", 1),
        ended_record("a", 1, StepEnd::Ok),
        began_record("b", 1),
        WorkflowRecord::Stopping { at: UnixMs(0), by: "SIGTERM".to_owned() },
    ];
    let mut course = state_after(DIAMOND, &stopped);
    assert_eq!((course.next_actions().stop, next_starts(&course).len()), (vec![1], 0));
    course.apply(&ended_record("b", 1, StepEnd::Stopped)).expect("the record is valid");
    assert_eq!(course.next_actions().verdict, Some(WorkflowVerdict::Stopped));
    course
        .apply(&WorkflowRecord::Over { at: UnixMs(0), verdict: WorkflowVerdict::Stopped })
        .expect("the record is valid");
    assert!(course.apply(&began_record("b", 2)).is_err(), "the run has ended");
    course
        .apply(&WorkflowRecord::Resumed { at: UnixMs(0), task: task(3) })
        .expect("the record is valid");
    assert_eq!(next_starts(&course), ["b", "c"]);
    assert!(course.apply(&began_record("a", 2)).is_err(), "the step has succeeded");
}

#[test]
fn only_a_running_attempt_can_be_started() {
    let started =
        |attempt| WorkflowRecord::Started { at: UnixMs(0), step: "a".to_owned(), attempt };
    let mut state = state_after(DIAMOND, &[]);
    assert!(state.apply(&started(1)).is_err(), "no attempt has begun");
    state.apply(&began_record("a", 1)).expect("the record is valid");
    assert!(state.apply(&started(2)).is_err(), "another attempt is running");
    let is_started =
        |state: &WorkflowState| state.step_progress()[0].running.map(|live| live.is_started);
    assert_eq!(is_started(&state), Some(false));
    state.apply(&started(1)).expect("the record is valid");
    assert_eq!(is_started(&state), Some(true));
    state.apply(&ended_record("a", 1, failed_end(true))).expect("the record is valid");
    assert!(state.apply(&started(1)).is_err(), "the attempt has ended");
}

/// A random step: the bit set of its needs among the earlier steps, a number for its condition, and
/// its retries.
type StepShape = (u16, u8, u32);

fn workflow_text(shapes: &[StepShape]) -> String {
    let mut text = String::new();
    for (at, (needs, condition, retries)) in shapes.iter().enumerate() {
        let needs: Vec<usize> = (0..at).filter(|need| needs & (1 << need) != 0).collect();
        let names: Vec<String> = needs.iter().map(|need| format!("\"s{need}\"")).collect();
        let condition = match (condition, needs.first()) {
            (1, Some(_)) => "failure()".to_owned(),
            (2, _) => "always()".to_owned(),
            (3, Some(need)) => format!("failure(s{need})"),
            (4, Some(need)) => format!("success(s{need})"),
            _ => "success()".to_owned(),
        };
        let _writing_to_string = writeln!(
            text,
            "[[step]]\nid = \"s{at}\"\nrun = \"x\"\nneeds = [{}]\nif = \"{condition}\"\nretries = {retries}",
            names.join(",")
        );
    }
    text
}

/// A simulated run of a random workflow. It checks each decision.
struct Simulation {
    text: String,
    rules: RunOptions,
    course: WorkflowState,
    records: Vec<WorkflowRecord>,
    live: BTreeMap<usize, u32>,
    succeeded: BTreeSet<usize>,
    stop_requested: bool,
}

impl Simulation {
    fn add_record(&mut self, record: WorkflowRecord) {
        self.course.apply(&record).expect("a decided action is valid");
        self.records.push(record);
    }

    fn step_id(&self, at: usize) -> String {
        self.course.plan().steps()[at].id.clone()
    }

    /// Checks that the next step may start, and starts it. Returns false if no step can start.
    fn start_step(&mut self) -> bool {
        let next = self.course.next_actions();
        let Some(start) = next.start.first().copied() else { return false };
        assert!(next.start.len() + self.live.len() <= self.rules.max_parallel);
        let states = self.course.step_statuses();
        let step = &self.course.plan().steps()[start.step];
        // Indirect needs must also be finished, because a failure handler must not run while other
        // steps are being stopped.
        let mut before = step.needs.clone();
        while let Some(need) = before.pop() {
            assert!(states[need].is_finished(), "a step starts before its needs");
            before.extend(&self.course.plan().steps()[need].needs);
        }
        assert!(!self.succeeded.contains(&start.step), "a step starts again after its success");
        assert!(!self.stop_requested, "a step starts after a stop request");
        let has_failed = states.contains(&StepStatus::Failed);
        assert!(
            self.rules.keep_going || !has_failed || step.condition.runs_after_failure(),
            "a step starts after a failure"
        );
        self.live.insert(start.step, start.attempt);
        self.add_record(began_record(&self.step_id(start.step), start.attempt));
        true
    }

    /// Ends one of the running steps. `choice` selects the step and the outcome.
    fn end_step(&mut self, choice: u8) {
        let stop = self.course.next_actions().stop;
        let at = usize::from(choice) % self.live.len();
        let (at, attempt) = self
            .live
            .iter()
            .nth(at)
            .map(|(at, attempt)| (*at, *attempt))
            .expect("a step is running");
        let end = match choice >> 5 {
            0 | 1 => failed_end(true),
            2 => failed_end(false),
            _ if stop.contains(&at) => StepEnd::Stopped,
            _ => StepEnd::Ok,
        };
        if end == StepEnd::Ok {
            self.succeeded.insert(at);
        }
        self.live.remove(&at);
        self.add_record(ended_record(&self.step_id(at), attempt, end));
    }

    /// Simulates a crash: restores the state from the records and continues. An odd `choice` means
    /// that the running steps ended with the crash.
    fn crash_and_resume(&mut self, choice: u8) {
        let mut again = WorkflowState::new(plan(&self.text), self.rules);
        self.records.iter().for_each(|record| again.apply(record).expect("the record is valid"));
        assert_eq!(again.step_statuses(), self.course.step_statuses());
        assert_eq!(again.next_actions(), self.course.next_actions());
        self.course = again;
        self.add_record(WorkflowRecord::Resumed { at: UnixMs(0), task: task(9) });
        self.stop_requested = false;
        if choice & 1 == 1 {
            for (at, attempt) in std::mem::take(&mut self.live) {
                let end = StepEnd::Lost { why: "alone".to_owned() };
                self.add_record(ended_record(&self.step_id(at), attempt, end));
            }
        }
    }
}

proptest! {
    #[test]
    fn every_run_obeys_the_rules_and_terminates(
        shapes in prop::collection::vec((any::<u16>(), 0_u8..5, 0_u32..3), 1..12),
        keep_going in any::<bool>(),
        max_parallel in 1_usize..5,
        choices in prop::collection::vec(any::<(u8, u8)>(), 0..60),
    ) {
        let text = workflow_text(&shapes);
        let rules = RunOptions { keep_going, max_parallel };
        let course = WorkflowState::new(plan(&text), rules);
        let mut world = Simulation {
            text, rules, course,
            records: vec![],
            live: BTreeMap::new(),
            succeeded: BTreeSet::new(),
            stop_requested: false,
        };
        // After the random choices every step succeeds, so the run must end.
        let mut choices = choices.into_iter().chain(std::iter::repeat((200, 255)));
        let mut rounds = 0;
        let verdict = loop {
            rounds += 1;
            prop_assert!(rounds < 1_000, "the run does not end");
            let (what, how) = choices.next().expect("the choices are infinite");
            if let Some(verdict) = world.course.next_actions().verdict {
                break verdict;
            }
            match what {
                0..10 => world.crash_and_resume(how),
                10..14 if !world.stop_requested => {
                    world.stop_requested = true;
                    world.add_record(WorkflowRecord::Stopping { at: UnixMs(0), by: "SIGTERM".to_owned() });
                }
                14..110 if !world.live.is_empty() => world.end_step(how),
                _ => if !world.start_step() {
                    prop_assert!(!world.live.is_empty(), "no step runs and none can start");
                    world.end_step(how);
                },
            }
        };
        let states = world.course.step_statuses();
        prop_assert!(world.live.is_empty());
        prop_assert!(states.iter().all(|state| state.is_finished()));
        let is_all_well = states.iter().all(|state| matches!(state, StepStatus::Ok | StepStatus::Skipped));
        prop_assert_eq!(verdict == WorkflowVerdict::Ok, is_all_well);
        for (at, state) in states.iter().enumerate() {
            prop_assert_eq!(*state == StepStatus::Ok, world.succeeded.contains(&at));
            let track = &world.course.step_progress()[at];
            prop_assert!(track.failed_attempts <= world.course.plan().steps()[at].retries + 1);
        }
    }
}

#[test]
fn keep_going_follows_the_file_or_the_option() {
    let text = format!("on_failure = \"continue\"\n{DIAMOND}");
    assert_eq!(plan(&text).on_failure, OnFailure::Continue);
    let mut going =
        WorkflowState::new(plan(&text), RunOptions { keep_going: true, max_parallel: 1 });
    for record in [
        began_record("a", 1),
        ended_record("a", 1, StepEnd::Ok),
        began_record("b", 1),
        ended_record("b", 1, failed_end(false)),
    ] {
        going.apply(&record).expect("the record is valid");
    }
    assert_eq!(next_starts(&going), ["c"]);
}
