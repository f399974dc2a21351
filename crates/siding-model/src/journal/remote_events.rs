//! The records of the connection to a remote machine.

use super::TaskState;
use crate::mirror::RemoteEvent;

impl TaskState {
    /// Updates the state of a mirror with an event of its connection.
    pub(super) fn apply_remote(&mut self, event: &RemoteEvent) -> Result<(), String> {
        let Some(remote) = &mut self.remote else {
            return Err("`remote` in the journal of a local task".to_owned());
        };
        if self.lifecycle.is_ended() {
            return Err("`remote` after the end".to_owned());
        }
        remote.apply(event);
        match event {
            RemoteEvent::Rebooted { boot, .. } => self.boot = boot.clone(),
            &RemoteEvent::Accepted { at, wall, .. } => {
                self.lifecycle = self.lifecycle.with_start(&self.spec, at);
                (self.started, self.started_wall, self.last_event_at) = (at, wall, at);
            }
            &RemoteEvent::DeadlineCounted { at } => {
                self.lifecycle = self.lifecycle.with_deadline_from(at);
            }
            &RemoteEvent::Requeued { at, output_bytes, .. } => {
                if let Some(terminal) = &mut self.terminal {
                    terminal.restart(at, output_bytes);
                }
                self.lifecycle = self.lifecycle.restarted(&self.spec, at);
                (self.leader, self.leader_end, self.spawn_errno) = (None, None, None);
                (self.final_cwd, self.ran_until, self.stall) = (None, None, None);
                self.pipeline = None;
                self.last_event_at = at;
            }
            RemoteEvent::Sent { .. }
            | RemoteEvent::Queued { .. }
            | RemoteEvent::Unreachable { .. }
            | RemoteEvent::Reachable { .. }
            | RemoteEvent::StopPending { .. }
            | RemoteEvent::InputLost { .. }
            | RemoteEvent::Fetched { .. } => {}
        }
        Ok(())
    }
}
