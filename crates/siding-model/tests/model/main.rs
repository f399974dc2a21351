//! What the model promises, tested from outside the crate.
//!
//! - `lifecycle`: rules over random histories, and mutants that show each rule bites;
//! - `journal`, `damage`: what a journal tells, whole, cut, damaged or forged;
//! - `fixtures`: journals of released formats, which must load for ever;
//! - `wait`, `monitor`: when a wait is over, and which lines are told when;
//! - `evidence`: what two samples of the kernel prove;
//! - `limits`, `watchdog`: what a row of looks proves, and what it does not;
//! - `prompts`: what is told from the last lines of output;
//! - `notices`: what is told, and that nothing a task writes can pass for it;
//! - `foreign`: who is taken for an orphan of another program, and who never is;
//! - `wire`, `report`, `schema`: what leaves the program.

mod activity;
mod damaged_journals;
mod evidence;
mod fixtures;
mod journal;
mod lifecycle;
mod limits;
mod monitor;
mod mutants;
mod notices;
mod prompts;
mod random_histories;
mod ready;
mod reminder;
mod rules;
mod sample_records;
#[cfg(feature = "schema")]
mod schema;
mod task_view;
mod traced_lifecycle;
mod unowned;
mod wait;
mod watchdog;
mod wire;
