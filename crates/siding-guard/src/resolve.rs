//! Finds the commands that a shell text runs, including commands in wrappers and nested texts.
//!
//! Owns siding's knowledge of programs that run other programs, such as `sudo`, `env`, `xargs`,
//! `find -exec`, `bash -c`, `eval`, `ssh`, and shells that read a pipe or a heredoc. The values of
//! variables are tracked as far as the text determines them. A value that only the running shell
//! knows is represented by [`UNKNOWN_MARKER`] in a word. The result is a list of [`Observation`]s,
//! which the rules judge.

mod assignments;
mod braces;
mod code_arguments;
mod commands;
mod cwd;
mod decode;
mod embedded_shells;
mod env_program;
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
mod siding_commands;
mod simple_command;
mod subscripts;
mod variables;
mod walk;
mod wrappers;

pub(crate) use expand::{FIELD_SEPARATOR, NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER};
pub(crate) use observation::{Call, Construct, Observation};
pub(crate) use programs::{is_known, runs_arguments};
pub(crate) use walk::{text_with_environment, walk};
