//! A quiet task: why it is, who is told, and who is not.

mod prompt_corpus;
mod stall_records;
mod support;
mod verdicts;
mod why_command;
