//! What `siding hook` does at the events of a conversation. The host is the test itself, or a copy
//! of bash under another name where it is to be killed.

mod answers;
mod batch;
mod budget;
mod codex;
mod daily;
mod news;
mod person;
mod prompt;
mod sandboxed;
mod start;
mod status_line;
mod stop;
mod support;
mod waiter;
