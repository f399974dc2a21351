//! Quiet tasks: why siding says that they are quiet, and the notices of their stalls.

mod prompt_corpus;
mod stall_records;
mod support;
mod verdicts;
mod why_command;
