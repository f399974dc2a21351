//! Formats results as text and JSON.
//!
//! Except for the timeline, text fits into 80 columns, and into a terminal with fewer columns,
//! where tables leave out columns. Only two things may be wider: a path or command, because it
//! could not be copied if it were cut, and a table with many columns that is read by a program.
//! Text from a task (its command, names, paths, command lines of processes) is printed through
//! `one_line`, so that it can neither move the cursor nor forge a line.

mod advice;
mod attention;
mod bar;
pub(crate) mod color;
pub(crate) mod local_time;
mod state;
mod table;
mod task;
pub(crate) mod timeline;
mod why;
mod wrap;

pub(crate) mod json;
pub(crate) mod out;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod schema;
pub(crate) mod table_layout;

pub(crate) use advice::advice;
pub(crate) use attention::attention_label;
pub(crate) use bar::sparkline;
pub(crate) use state::ended_line;
pub(crate) use table::{PersonCells, person_table, task_table};
pub(crate) use task::task_screen;
pub(crate) use why::{ended_why_screen, queued_why_screen, why_screen};
pub(crate) use wrap::{print_note, print_task_note, wrap_untrusted};

/// Maximum columns of a line of text.
const LINE_COLUMNS: usize = 80;
