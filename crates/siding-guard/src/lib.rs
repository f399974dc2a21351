//! Static analysis of shell texts: which programs a text runs, and whether a person should review
//! the text before it runs.
//!
//! ```text
//! text → parse → resolve → rules → verdict
//! ```
//! Owns the parser of shell texts, the knowledge of programs that run other programs, and the
//! rules. The parser is private. The crate is pure: it reads no file and no clock, and starts no
//! process. The guard is not a sandbox: a command that is written to evade it can be allowed.

#![forbid(unsafe_code)]

mod ast;
mod commands;
mod examples;
mod parse;
mod resolve;
mod rules;
mod task_words;
mod verdict;

pub use ast::Span;
pub use commands::simple_commands;
pub use examples::{ExampleResults, FailedExample};
pub use parse::MAX_SCRIPT_BYTES;
pub use rules::{Examples, GuardVerdict, Layer, Rule, RuleError, RuleSource, RuleWarning, Rules};
pub use task_words::parse_task_command;
pub use verdict::{
    ExecMode, Finding, GuardReport, ParseCompleteness, judge, judge_with_environment,
    resolve_commands,
};
