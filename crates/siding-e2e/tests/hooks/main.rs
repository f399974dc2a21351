//! What `siding hook` does at the events of a conversation. The host is the test itself, or a copy
//! of bash under another name where it is to be killed.

mod budget;
mod codex;
mod daily_report;
mod guard_decisions;
mod idle_wake;
mod notices;
mod sandboxed_commands;
mod session_start;
mod status_line;
mod support;
mod tool_batch;
mod turn_end;
mod user_notices;
mod user_prompt;
