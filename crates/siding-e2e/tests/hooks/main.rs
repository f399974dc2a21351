//! Tests of `siding hook` at the events of a conversation. The test program itself is the host;
//! tests that kill the host use another process instead, usually a renamed copy of bash.

mod budget;
mod codex;
mod daily_report;
mod guard_decisions;
mod idle_wake;
mod notices;
mod sandboxed_calls;
mod sandboxed_commands;
mod session_start;
mod status_line;
mod support;
mod tool_batch;
mod turn_end;
mod user_notices;
mod user_prompt;
