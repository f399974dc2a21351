//! What the model promises, tested from outside the crate.
//!
//! - `lifecycle`: rules over random histories, and mutants that show each rule bites;
//! - `journal`, `damage`: what a journal tells, whole, cut, damaged or forged;
//! - `fixtures`: journals of released formats, which must load for ever;
//! - `foreign`: who is taken for an orphan of another program, and who never is;
//! - `wire`, `report`, `schema`: what leaves the program.

mod damage;
mod fixtures;
mod foreign;
mod history;
mod journal;
mod lifecycle;
mod machine;
mod mutants;
mod report;
mod rules;
mod sample;
#[cfg(feature = "schema")]
mod schema;
mod wire;
