//! What a task writes is kept, bounded, told and shown.

mod byte_exact;
mod schema;
mod shell_idioms;
mod size_limits;
mod support;
mod text;

use support::{Task, assert_same, gate, perform, shell};
