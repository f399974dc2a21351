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
mod rules;
mod unwrap;
mod verdict;
mod words;

pub use ast::Span;
pub use commands::simple_commands;
pub use parse::TEXT_MAX;
pub use rules::{Examples, Failed, Layer, Rule, RuleError, RuleWarning, Rules, Source, Tried};
pub use verdict::{Finding, How, Judgement, Parse, Verdict, judge, seen_calls};
pub use words::words_of;
