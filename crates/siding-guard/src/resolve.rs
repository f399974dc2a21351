//! Resolves a shell text to every command that it runs, including commands in wrappers and nested
//! texts.
//!
//! Owns siding's knowledge of programs that run other programs: `sudo`, `env`, `xargs`, `find
//! -exec`, `bash -c`, `eval`, `ssh`, shells that read a pipe or a heredoc. Values of variables are
//! tracked as far as the text determines them; a value that only the running shell knows becomes
//! [`UNKNOWN_MARKER`] in a word. The result is a list of [`Observation`]s, which the rules judge.

mod assignments;
mod code_arguments;
mod commands;
mod cwd;
mod decode;
mod embedded_shells;
mod expand;
mod fan_out;
mod file_listing;
mod file_writes;
mod interpreter_code;
mod loops;
mod observation;
mod output;
mod programs;
mod shared_stdin;
mod simple_command;
mod subscripts;
mod variables;
mod walk;
mod wrappers;

pub(crate) use expand::{FIELD_SEPARATOR, NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER};
pub(crate) use observation::{Call, Construct, Observation};
pub(crate) use programs::{is_known, runs_arguments};
pub(crate) use walk::walk;
