//! From a text to every command that it runs, however wrapped.
//!
//! Owns what siding knows of programs that run others: `sudo`, `env`, `xargs`, `find -exec`,
//! `bash -c`, `eval`, `ssh`, shells that read a pipe or a heredoc. Values are followed as far as
//! they are fixed in the text; what only the running shell knows becomes [`ANY`] in a word. Nothing
//! is judged here: the outcome is a list of [`Seen`].

mod call;
mod code;
mod encoded;
mod expand;
mod found;
mod input;
mod lists;
mod literals;
mod loops;
mod output;
mod places;
mod programs;
mod shells;
mod simple;
mod subscripts;
mod values;
mod variables;
mod walk;
mod within;
mod wrappers;
mod written;

pub(crate) use call::{Call, Seen, Shape};
pub(crate) use expand::{ANY, FOUND, NEXT, SURE};
pub(crate) use programs::{is_known, runs_words};
pub(crate) use walk::walk;
