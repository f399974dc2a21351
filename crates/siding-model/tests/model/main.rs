//! Tests of the model through its public interface.
//!
//! - `lifecycle`, `rules`, `mutants`: rules over random histories, and mutants that prove that each
//!   rule detects a fault;
//! - `journal`, `damaged_journals`: replay of complete, truncated, damaged and forged journals;
//! - `fixtures`, `fixture_records`: journals of released formats, which must always load;
//! - `wait`, `ready`, `monitor`: when waits end, when a task is ready, and how matching lines are
//!   reported;
//! - `evidence`: the diagnosis of a quiet task from two samples;
//! - `limits`, `watchdog`: the breaches that a series of samples shows;
//! - `metrics`: the counts of journals, and the text of the metrics;
//! - `mirror`: a remote task and its mirror, with a network that breaks at any point;
//! - `job_mirror`: a job in a cluster and its mirror, with interruptions of both at any point;
//! - `queue_time`: the time of a job in the queue, which does not count as run time of its command;
//! - `remote_input`: the standard input of a remote task, over such a network;
//! - `otlp`: the spans of tasks, and the entries for the journal of systemd;
//! - `prompts`: the detection of prompts in the last lines of output;
//! - `notices`, `notice_views`, `reminder`: the notices of a task, and that no output of a task can
//!   imitate them;
//! - `unowned`: the selection of unowned processes that the reaper terminates;
//! - `wire`, `activity`, `task_view`: the JSON and text formats that other programs read;
//! - `sample_records`, `random_histories`, `traced_lifecycle`, `validator`: the test data and tools
//!   of these modules.

mod activity;
mod damaged_journals;
mod evidence;
mod fixture_records;
mod fixtures;
mod job_mirror;
mod journal;
mod lifecycle;
mod limits;
mod metrics;
mod mirror;
mod monitor;
mod mutants;
mod notice_views;
mod notices;
mod otlp;
mod prompts;
mod queue_time;
mod random_histories;
mod ready;
mod reminder;
mod remote_input;
mod rules;
mod sample_records;
mod task_view;
mod timeline;
mod traced_lifecycle;
mod unowned;
#[path = "../../../siding-e2e/tests/output/schema/validator.rs"]
mod validator;
mod wait;
mod watchdog;
mod wire;
