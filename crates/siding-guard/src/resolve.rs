//! From a text to every command that it runs, however wrapped.
//!
//! Owns what siding knows of programs that run others: `sudo`, `env`, `xargs`, `find -exec`,
//! `bash -c`, `eval`, `ssh`, shells that read a pipe or a heredoc. Values are followed as far as
//! they are fixed in the text; what only the running shell knows becomes [`UNKNOWN_MARKER`] in a word. Nothing
//! is judged here: the outcome is a list of [`Observation`].

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
