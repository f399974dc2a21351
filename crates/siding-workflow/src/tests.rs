//! Tests of files, decisions and journals of workflows, without a clock, file I/O or processes.

mod files;
mod job_arrays;
mod journal;
mod state;

use std::path::Path;

use siding_model::id::{TaskId, TaskKind};
use siding_model::process::UnixMs;

use super::{Plan, RunOptions, StepEnd, WorkflowRecord, WorkflowState};

fn plan(text: &str) -> Plan {
    Plan::parse(Path::new("flow.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn plan_error(text: &str) -> String {
    Plan::parse(Path::new("flow.toml"), text).expect_err(text).to_string()
}

fn workflow_state(text: &str) -> WorkflowState {
    WorkflowState::new(plan(text), RunOptions { keep_going: false, max_parallel: 8 })
}

fn task(number: u64) -> TaskId {
    TaskId::from_random(TaskKind::LocalWorkflow, number << 12, u64::MAX).expect("valid task id")
}

fn began_record(step: &str, attempt: u32) -> WorkflowRecord {
    WorkflowRecord::Began { at: UnixMs(0), step: step.to_owned(), attempt, task: Some(task(7)) }
}

fn ended_record(step: &str, attempt: u32, end: StepEnd) -> WorkflowRecord {
    WorkflowRecord::Ended { at: UnixMs(0), step: step.to_owned(), attempt, end }
}

fn failed_end(again: bool) -> StepEnd {
    StepEnd::Failed { why: "exited 1".to_owned(), again }
}

/// Returns the ids of the steps to start.
fn next_starts(state: &WorkflowState) -> Vec<String> {
    let next = state.next_actions();
    next.start.iter().map(|start| state.plan().steps()[start.step].id.clone()).collect()
}
