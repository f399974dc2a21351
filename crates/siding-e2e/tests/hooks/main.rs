//! What `siding hook` does at the events of a conversation. The host is the test itself, or a copy
//! of bash under another name where it is to be killed.

mod answers;
mod news;
mod prompt;
mod sandboxed;
mod start;
mod stop;
mod support;
mod waiter;
