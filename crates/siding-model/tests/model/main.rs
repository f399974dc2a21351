//! Tests of the model through its public interface.
//!
//! - `lifecycle`, `rules`, `mutants`: rules over random histories, and mutants that prove that each
//!   rule detects a fault;
//! - `journal`, `damaged_journals`: replay of complete, truncated, damaged and forged journals;
//! - `fixtures`, `fixture_records`: journals of released formats, which must always load;
//! - `wait`, `ready`, `monitor`: the end of waits, and the reporting of lines;
//! - `evidence`: the diagnosis from two samples;
//! - `limits`, `watchdog`: the evaluation of a series of samples;
//! - `prompts`: the detection of prompts in the last lines of output;
//! - `notices`, `notice_views`, `reminder`: the notices of a task, and that no output of a task can
//!   imitate them;
//! - `unowned`: the selection of orphans of other programs;
//! - `wire`, `activity`, `task_view`, `schema`: the formats that leave the program.

mod activity;
mod damaged_journals;
mod evidence;
mod fixture_records;
mod fixtures;
mod journal;
mod lifecycle;
mod limits;
mod monitor;
mod mutants;
mod notice_views;
mod notices;
mod prompts;
mod random_histories;
mod ready;
mod reminder;
mod rules;
mod sample_records;
mod task_view;
mod traced_lifecycle;
mod unowned;
#[path = "../../../siding-e2e/tests/output/schema/validator.rs"]
mod validator;
mod wait;
mod watchdog;
mod wire;
