//! Silent tasks: the reasons that `siding why` reports, and the stalls that the shim records.

mod prompt_corpus;
mod stall_records;
mod support;
mod verdicts;
mod why_command;
