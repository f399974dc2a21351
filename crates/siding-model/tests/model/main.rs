//! What the model promises, tested from outside the crate.
//!
//! - `lifecycle`: rules over random histories, and mutants that show each rule bites;
//! - `journal`, `damage`: what a journal tells, whole, cut, damaged or forged;
//! - `fixtures`: journals of released formats, which must load for ever;
//! - `evidence`: what two samples of the kernel prove;
//! - `limits`: what a row of looks proves, and what it does not;
//! - `prompts`: what is told from the last lines of output;
//! - `wire`, `report`, `schema`: what leaves the program.

mod damage;
mod evidence;
mod fixtures;
mod history;
mod journal;
mod lifecycle;
mod limits;
mod machine;
mod mutants;
mod prompts;
mod report;
mod rules;
mod sample;
#[cfg(feature = "schema")]
mod schema;
mod wire;
