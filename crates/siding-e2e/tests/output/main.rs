//! The output of a task: stored, bounded, described and shown.

mod byte_exact;
mod schema;
mod shell_idioms;
mod size_limits;
mod support;
mod text;

use support::{Task, assert_same, gate, perform, shell};
