//! What a task writes is kept, bounded, told and shown.

mod bounds;
mod exact;
mod idioms;
mod schema;
mod task;
mod text;

use task::{Task, assert_same, gate, perform, shell};
