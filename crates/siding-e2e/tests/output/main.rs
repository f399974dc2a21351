//! Tests of a task's output: its storage, its size limits, its JSON and its text.

mod byte_exact;
mod schema;
mod shell_idioms;
mod size_limits;
mod support;
mod text;

use support::{Task, assert_same, gate, perform, shell};
