//! What a shell text says, without running it: which programs it runs, and whether somebody should
//! look first.
//!
//! ```text
//! text → parse → unwrap → rules → verdict
//! ```
//! Owns the parser of shell texts, of which nothing shows outside, what siding knows of programs
//! that run others, and the rules. Pure: it reads no file, no clock, and starts nothing. It is no
//! sandbox: a command that means harm and takes care passes.

#![forbid(unsafe_code)]

mod ast;
mod commands;
mod parse;
mod resolve;
mod rules;
mod task_words;
mod verdict;

pub use ast::Span;
pub use commands::simple_commands;
pub use parse::MAX_SCRIPT_BYTES;
pub use rules::{
    ExampleResults, Examples, FailedExample, Layer, Rule, RuleError, RuleSource, RuleWarning, Rules,
};
pub use task_words::parse_task_command;
pub use verdict::{
    ExecMode, Finding, GuardReport, GuardVerdict, ParseCompleteness, judge, resolve_commands,
};
