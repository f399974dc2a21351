//! Where an agent works.

use super::ground::Ground;
use super::seen::Seen;
use super::todo::{Holder, TodoList};

/// Where one agent works, and what its tools remember of it.
#[derive(Debug)]
pub struct Scene {
    /// Where files may be.
    pub(super) ground: Ground,
    /// What it has seen of them.
    pub(super) seen: Seen,
    /// The to-do list of the project.
    pub(super) todo: TodoList,
    /// As whom it works on that.
    pub(super) holder: Holder,
}

impl Scene {
    /// Sets a scene for an agent that has seen nothing yet.
    #[must_use]
    pub fn new(ground: Ground, todo: TodoList, holder: Holder) -> Self {
        Self { ground, seen: Seen::default(), todo, holder }
    }
}
