//! Resuming a task whose shim died.

use siding_core::proxy::PROXY_NAME;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::procfs;
use siding_core::tree::COMMAND_FD_PREFIX;
use siding_model::lifecycle::{Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;
use siding_model::spec::TaskCommand;

use super::TaskSupervisor;
use crate::process_tree::LeaderHandle;

impl TaskSupervisor {
    /// Goes on in the phase in which the journal stopped.
    pub(crate) fn resume_phase(&mut self) {
        match self.task.state().lifecycle.phase() {
            Phase::Starting { .. } => self.find_leader(),
            // The intent is on record; whether the signal went out is not.
            Phase::Stopping { intent, .. } => {
                let signal = intent.signal;
                self.tree_kill.signal(&self.tree, self.task.root(), self.task.state(), signal);
            }
            Phase::Killing { .. } => self.kill_tree(),
            Phase::Running { .. } | Phase::Lingering { .. } | Phase::Ended { .. } => {}
        }
    }

    /// Finds the leader of a task whose shim died between starting the command and saying so: the
    /// oldest process that leads a session of its own, as every leader does all its life. The proxy of the
    /// task does so too, and is older.
    fn find_leader(&mut self) {
        let is_proxy = |pid| {
            procfs::process_name(pid).is_some_and(|name| name.as_bytes() == PROXY_NAME.to_bytes())
        };
        let leads = |one: &ProcRef| {
            procfs::stat(one.pid).is_some_and(|stat| {
                stat.session == one.pid && stat.start_ticks == one.start_ticks && !is_proxy(one.pid)
            })
        };
        let members = self.tree.members(self.task.root(), self.task.state());
        let is_empty = members.is_empty();
        let leaders = members.into_iter().filter(leads);
        if let Some(leader) = leaders.min_by_key(|process| process.start_ticks) {
            let held = match PidFd::open_if_present(leader) {
                Ok(Some(held)) if self.runs_siding_text(leader) => LeaderHandle::Held(held),
                Ok(Some(held)) => LeaderHandle::Guessed(held),
                Ok(None) => LeaderHandle::EndMissed,
                // It may live. Without a leader the task is over when nothing of it is left.
                Err(_) => return,
            };
            self.tree.set_leader(held);
            self.handle_event(&TaskEvent::Spawned { leader: leader.into() });
        } else if !is_empty {
            let why = "its first shim was killed before it had noted who its leader is";
            let end = LeaderEnd::Unknown { why: why.to_owned() };
            let tree = TreeLiveness::Alive;
            self.handle_event(&TaskEvent::LeaderEnded {
                end,
                tree,
                final_cwd: None,
                pipeline: None,
            });
        }
    }

    /// Whether a session's leader is beyond doubt the task's: a shell with siding's own text. A shell
    /// cannot begin a session without executing something else. A program can, in a child that looks
    /// like itself, and what such a daemon ends with is not the command's end.
    fn runs_siding_text(&self, leader: ProcRef) -> bool {
        const COMMAND_LINE_BYTES: usize = 4096;
        matches!(self.task.spec().command, TaskCommand::Shell { .. })
            && procfs::command_line(leader.pid, COMMAND_LINE_BYTES)
                .is_some_and(|line| line.contains(" -c ") && line.contains(COMMAND_FD_PREFIX))
    }

    /// Finds out what happened before this shim came. A rescuer may find that the deadline passed,
    /// or the tree ended, while nobody kept the task.
    #[inline(never)]
    pub(crate) fn on_takeover(&mut self) {
        if self.tree.is_discovered() {
            self.check_tree();
            // What it waits for may have been written already, and nothing may follow.
            self.readiness.scan_output(self.task.dir());
        }
    }
}
