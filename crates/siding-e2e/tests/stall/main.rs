//! Quiet tasks: the reasons that siding finds, and the notices that follow.

mod prompt_corpus;
mod stall_records;
mod support;
mod verdicts;
mod why_command;
