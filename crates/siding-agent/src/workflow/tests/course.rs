//! What is decided, over random graphs and histories.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use proptest::prelude::*;
use siding_model::process::UnixMs;

use super::{began, course, ended, failed, plan, starts, task};
use crate::workflow::{Course, OnFailure, Record, Rules, State, StepEnd, Verdict};

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

fn after(text: &str, records: &[Record]) -> Course {
    let mut course = course(text);
    for record in records {
        course.apply(record).expect("fits");
    }
    course
}

#[test]
fn steps_run_when_what_they_need_is_over() {
    assert_eq!(starts(&course(DIAMOND)), ["a"]);
    let mut done = vec![began("a", 1), ended("a", 1, StepEnd::Ok)];
    assert_eq!(starts(&after(DIAMOND, &done)), ["b", "c"]);
    done.extend([began("b", 1), began("c", 1), ended("c", 1, StepEnd::Ok)]);
    assert!(starts(&after(DIAMOND, &done)).is_empty());
    done.push(ended("b", 1, failed(true)));
    let again = after(DIAMOND, &done).decide();
    assert_eq!(again.start.iter().map(|start| start.attempt).collect::<Vec<_>>(), [2]);
    done.extend([began("b", 2), ended("b", 2, StepEnd::Ok)]);
    assert_eq!(starts(&after(DIAMOND, &done)), ["d"]);
}

#[test]
fn a_failure_stops_the_rest_but_not_what_is_there_for_it() {
    let done = [
        began("a", 1),
        ended("a", 1, StepEnd::Ok),
        began("b", 1),
        began("c", 1),
        ended("c", 1, failed(true)),
    ];
    let mut failing = after(DIAMOND, &done);
    let next = failing.decide();
    assert_eq!((next.start.len(), next.stop.as_slice(), next.verdict), (0, &[1][..], None));
    failing.apply(&ended("b", 1, StepEnd::Stopped)).expect("fits");
    let states = failing.states();
    assert_eq!(states[1..4], [State::Stopped, State::Failed, State::NotRun]);
    assert_eq!(starts(&failing), ["tidy"]);
    failing.apply(&began("tidy", 1)).expect("fits");
    assert!(failing.decide().stop.is_empty());
    failing.apply(&ended("tidy", 1, StepEnd::Ok)).expect("fits");
    assert_eq!(failing.decide().verdict, Some(Verdict::Failed));
}

#[test]
fn what_was_stopped_goes_on_when_it_is_resumed() {
    let stopped = [
        began("a", 1),
        ended("a", 1, StepEnd::Ok),
        began("b", 1),
        Record::Stopping { at: UnixMs(0), by: "SIGTERM".to_owned() },
    ];
    let mut course = after(DIAMOND, &stopped);
    assert_eq!((course.decide().stop, starts(&course).len()), (vec![1], 0));
    course.apply(&ended("b", 1, StepEnd::Stopped)).expect("fits");
    assert_eq!(course.decide().verdict, Some(Verdict::Stopped));
    course.apply(&Record::Over { at: UnixMs(0), verdict: Verdict::Stopped }).expect("fits");
    assert!(course.apply(&began("b", 2)).is_err(), "it is over");
    course.apply(&Record::Resumed { at: UnixMs(0), task: task(3) }).expect("fits");
    assert_eq!(starts(&course), ["b", "c"]);
    assert!(course.apply(&began("a", 2)).is_err(), "it went well");
}

/// What a random step is like: which of those before it it needs, its condition, its retries.
type Shape = (u16, u8, u32);

fn text_of(shapes: &[Shape]) -> String {
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
        let _never_fails = writeln!(
            text,
            "[[step]]\nid = \"s{at}\"\nrun = \"x\"\nneeds = [{}]\nif = \"{condition}\"\nretries = {retries}",
            names.join(",")
        );
    }
    text
}

/// A workflow that is carried out by chance.
struct World {
    text: String,
    rules: Rules,
    course: Course,
    records: Vec<Record>,
    live: BTreeMap<usize, u32>,
    well: BTreeSet<usize>,
    is_wished: bool,
}

impl World {
    fn add(&mut self, record: Record) {
        self.course.apply(&record).expect("what is decided fits");
        self.records.push(record);
    }

    fn id(&self, at: usize) -> String {
        self.course.plan().steps()[at].id.clone()
    }

    /// Begins a step, if that is decided, and checks that it may be.
    fn begin(&mut self) -> bool {
        let next = self.course.decide();
        let Some(start) = next.start.first().copied() else { return false };
        assert!(next.start.len() + self.live.len() <= self.rules.max_parallel);
        let states = self.course.states();
        let step = &self.course.plan().steps()[start.step];
        // However far back: what is there for failures does not run beside what is being stopped.
        let mut before = step.needs.clone();
        while let Some(need) = before.pop() {
            assert!(states[need].is_over(), "before its needs");
            before.extend(&self.course.plan().steps()[need].needs);
        }
        assert!(!self.well.contains(&start.step), "again after it went well");
        assert!(!self.is_wished, "after somebody wanted it stopped");
        let has_failed = states.contains(&State::Failed);
        assert!(
            self.rules.keep_going || !has_failed || step.condition.is_for_failures(),
            "after a failure"
        );
        self.live.insert(start.step, start.attempt);
        self.add(began(&self.id(start.step), start.attempt));
        true
    }

    /// Ends one of the steps that run.
    fn end(&mut self, choice: u8) {
        let stop = self.course.decide().stop;
        let at = usize::from(choice) % self.live.len();
        let (at, attempt) =
            self.live.iter().nth(at).map(|(at, attempt)| (*at, *attempt)).expect("one");
        let end = match choice >> 5 {
            0 | 1 => failed(true),
            2 => failed(false),
            _ if stop.contains(&at) => StepEnd::Stopped,
            _ => StepEnd::Ok,
        };
        if end == StepEnd::Ok {
            self.well.insert(at);
        }
        self.live.remove(&at);
        self.add(ended(&self.id(at), attempt, end));
    }

    /// Has everything but the records forgotten, as a crash does, and goes on.
    fn crash(&mut self, choice: u8) {
        let mut again = Course::new(plan(&self.text), self.rules);
        self.records.iter().for_each(|record| again.apply(record).expect("fits"));
        assert_eq!(again.states(), self.course.states());
        assert_eq!(again.decide(), self.course.decide());
        self.course = again;
        self.add(Record::Resumed { at: UnixMs(0), task: task(9) });
        self.is_wished = false;
        if choice & 1 == 1 {
            for (at, attempt) in std::mem::take(&mut self.live) {
                let end = StepEnd::Lost { why: "alone".to_owned() };
                self.add(ended(&self.id(at), attempt, end));
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_rules_hold_and_it_ends(
        shapes in prop::collection::vec((any::<u16>(), 0_u8..5, 0_u32..3), 1..12),
        keep_going in any::<bool>(),
        max_parallel in 1_usize..5,
        choices in prop::collection::vec(any::<(u8, u8)>(), 0..60),
    ) {
        let text = text_of(&shapes);
        let rules = Rules { keep_going, max_parallel };
        let course = Course::new(plan(&text), rules);
        let mut world = World {
            text, rules, course,
            records: vec![],
            live: BTreeMap::new(),
            well: BTreeSet::new(),
            is_wished: false,
        };
        // When chance has run out everything goes well, so it must end.
        let mut choices = choices.into_iter().chain(std::iter::repeat((200, 255)));
        let mut rounds = 0;
        let verdict = loop {
            rounds += 1;
            prop_assert!(rounds < 1_000, "it does not end");
            let (what, how) = choices.next().expect("endless");
            if let Some(verdict) = world.course.decide().verdict {
                break verdict;
            }
            match what {
                0..10 => world.crash(how),
                10..14 if !world.is_wished => {
                    world.is_wished = true;
                    world.add(Record::Stopping { at: UnixMs(0), by: "SIGTERM".to_owned() });
                }
                14..110 if !world.live.is_empty() => world.end(how),
                _ => if !world.begin() {
                    prop_assert!(!world.live.is_empty(), "nothing runs and nothing begins");
                    world.end(how);
                },
            }
        };
        let states = world.course.states();
        prop_assert!(world.live.is_empty());
        prop_assert!(states.iter().all(|state| state.is_over()));
        let is_all_well = states.iter().all(|state| matches!(state, State::Ok | State::Skipped));
        prop_assert_eq!(verdict == Verdict::Ok, is_all_well);
        for (at, state) in states.iter().enumerate() {
            prop_assert_eq!(*state == State::Ok, world.well.contains(&at));
            let track = &world.course.tracks()[at];
            prop_assert!(track.failures <= world.course.plan().steps()[at].retries + 1);
        }
    }
}

#[test]
fn keep_going_is_what_the_file_or_the_call_says() {
    let text = format!("on_failure = \"continue\"\n{DIAMOND}");
    assert_eq!(plan(&text).on_failure, OnFailure::Continue);
    let mut going = Course::new(plan(&text), Rules { keep_going: true, max_parallel: 1 });
    for record in
        [began("a", 1), ended("a", 1, StepEnd::Ok), began("b", 1), ended("b", 1, failed(false))]
    {
        going.apply(&record).expect("fits");
    }
    assert_eq!(starts(&going), ["c"]);
}
