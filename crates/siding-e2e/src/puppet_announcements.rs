//! Waits for the announcements of a sandbox's puppets.

use crate::announcement::Announcement;
use crate::eventually::eventually_some;
use crate::processes::Process;
use crate::sandbox::Sandbox;

impl Sandbox {
    /// Returns all announcements of this sandbox's puppets so far, in order.
    pub fn announcements(&self) -> Vec<Announcement> {
        let log = std::fs::read(self.puppet_log()).unwrap_or_default();
        Announcement::parse_all(&String::from_utf8_lossy(&log))
    }

    /// Waits for the first announcement of `verb`.
    ///
    /// # Panics
    ///
    /// When no puppet announces it within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_announcement(&self, verb: &str) -> Announcement {
        self.wait_for_announcements(verb, 1).swap_remove(0)
    }

    /// Waits until `verb` has been announced at least `count` times, and returns all its
    /// announcements.
    ///
    /// # Panics
    ///
    /// When there are fewer than `count` announcements after [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_announcements(&self, verb: &str, count: usize) -> Vec<Announcement> {
        eventually_some(&format!("puppets announced {count} × `{verb}`"), || {
            let mut steps = self.announcements();
            steps.retain(|step| step.verb == verb);
            (steps.len() >= count).then_some(steps)
        })
    }

    /// Waits until a process has announced `mark NAME`, and returns this process.
    ///
    /// # Panics
    ///
    /// When no process does so within [`crate::POLL_DEADLINE`].
    #[track_caller]
    pub fn wait_for_mark(&self, name: &str) -> Process {
        eventually_some(&format!("a puppet marked itself `{name}`"), || {
            let mut steps = self.announcements().into_iter();
            let step = steps.find(|step| {
                step.verb == "mark" && step.fields.get("text").is_some_and(|text| text == name)
            })?;
            Some(step.process)
        })
    }
}
