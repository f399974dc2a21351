//! Files, decisions and journals of workflows, without a clock, a file or a process.

mod course;
mod files;
mod story;

use std::path::Path;

use siding_model::id::{TaskId, TaskKind};
use siding_model::process::UnixMs;

use super::{Course, Plan, Record, Rules, StepEnd};

fn plan(text: &str) -> Plan {
    Plan::parse(Path::new("flow.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn wrong(text: &str) -> String {
    Plan::parse(Path::new("flow.toml"), text).expect_err(text).to_string()
}

fn course(text: &str) -> Course {
    Course::new(plan(text), Rules { keep_going: false, max_parallel: 8 })
}

fn task(number: u64) -> TaskId {
    TaskId::from_random(TaskKind::LocalWorkflow, number << 12, u64::MAX).expect("there is room")
}

fn began(step: &str, attempt: u32) -> Record {
    Record::Began { at: UnixMs(0), step: step.to_owned(), attempt, task: Some(task(7)) }
}

fn ended(step: &str, attempt: u32, end: StepEnd) -> Record {
    Record::Ended { at: UnixMs(0), step: step.to_owned(), attempt, end }
}

fn failed(again: bool) -> StepEnd {
    StepEnd::Failed { why: "exited 1".to_owned(), again }
}

/// Returns the ids of the steps that are to begin.
fn starts(course: &Course) -> Vec<String> {
    let next = course.decide();
    next.start.iter().map(|start| course.plan().steps()[start.step].id.clone()).collect()
}
