//! What the puppets of a sandbox tell a test.

use crate::announced::Announced;
use crate::eventually::eventually_some;
use crate::processes::Process;
use crate::sandbox::Sandbox;

impl Sandbox {
    /// Everything the puppets of this sandbox have announced so far, in order.
    pub fn announcements(&self) -> Vec<Announced> {
        let log = std::fs::read(self.log()).unwrap_or_default();
        Announced::all_in(&String::from_utf8_lossy(&log))
    }

    /// Waits for the first announcement of `verb`.
    ///
    /// # Panics
    ///
    /// When it has not come within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn announced(&self, verb: &str) -> Announced {
        self.all_announced(verb, 1).swap_remove(0)
    }

    /// Waits until at least `count` steps of `verb` are announced, and returns all there are.
    ///
    /// # Panics
    ///
    /// When they have not come within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn all_announced(&self, verb: &str, count: usize) -> Vec<Announced> {
        eventually_some(&format!("puppets announced {count} × `{verb}`"), || {
            let mut steps = self.announcements();
            steps.retain(|step| step.verb == verb);
            (steps.len() >= count).then_some(steps)
        })
    }

    /// Waits for the process that says `mark NAME`.
    ///
    /// # Panics
    ///
    /// When none has within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn marked(&self, name: &str) -> Process {
        eventually_some(&format!("a puppet marked itself `{name}`"), || {
            let mut steps = self.announcements().into_iter();
            let step = steps.find(|step| {
                step.verb == "mark" && step.fields.get("text").is_some_and(|text| text == name)
            })?;
            Some(step.process)
        })
    }
}
