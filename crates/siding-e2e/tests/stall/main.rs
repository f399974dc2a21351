//! Quiet tasks: the reasons that `siding why` gives, and the stalls that the shim records and
//! reports.

mod prompt_corpus;
mod stall_records;
mod support;
mod verdicts;
mod why_command;
