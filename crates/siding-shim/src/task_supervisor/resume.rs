//! Resumes a task whose shim died.

use siding_core::net::proxy::PROXY_NAME;
use siding_core::processes::tree::COMMAND_FD_PREFIX;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::procfs;
use siding_model::lifecycle::{Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;
use siding_model::spec::TaskCommand;

use super::TaskSupervisor;
use crate::process_tree::LeaderHandle;

impl TaskSupervisor {
    /// Continues in the phase with which the journal of the dead shim ends.
    pub(crate) fn resume_phase(&mut self) {
        match self.task.state().lifecycle.phase() {
            Phase::Starting { .. } => self.find_leader(),
            // The intent is recorded, but not whether the signal was sent: the signal is sent
            // again.
            Phase::Stopping { intent, .. } => {
                let signal = intent.signal;
                self.tree_kill.signal(&self.tree, self.task.root(), self.task.state(), signal);
            }
            Phase::Killing { .. } => self.kill_tree(),
            Phase::Running { .. } | Phase::Lingering { .. } | Phase::Ended { .. } => {}
        }
    }

    /// Finds and records the leader of a task whose shim died before it recorded the leader. The
    /// leader is the oldest process that leads a session of its own (setsid(2)), as every leader of
    /// a task does until it exits. The task's proxy, which is older, also leads a session and is
    /// skipped. If no such process is left, but others are, records that the leader has ended in an
    /// unknown way. If no process at all is left, the check that follows records this.
    fn find_leader(&mut self) {
        let is_proxy = |pid| {
            procfs::process_name(pid).is_some_and(|name| name.as_bytes() == PROXY_NAME.to_bytes())
        };
        let leads_session = |process: &ProcRef| {
            procfs::stat(process.pid).is_some_and(|stat| {
                stat.session == process.pid
                    && stat.start_ticks == process.start_ticks
                    && !is_proxy(process.pid)
            })
        };
        let members = self.tree.members(self.task.root(), self.task.state());
        let is_empty = members.is_empty();
        let leaders = members.into_iter().filter(leads_session);
        if let Some(leader) = leaders.min_by_key(|process| process.start_ticks) {
            let held = match PidFd::open_if_present(leader) {
                Ok(Some(held)) if self.runs_siding_text(leader) => LeaderHandle::Held(held),
                Ok(Some(held)) => LeaderHandle::Guessed(held),
                Ok(None) => LeaderHandle::EndMissed,
                // The leader may live, but no pidfd of it can be opened. Without a known leader the
                // task ends when its tree is empty.
                Err(_) => return,
            };
            self.tree.set_leader(held);
            self.handle_event(&TaskEvent::Spawned { leader: leader.into() });
        } else if !is_empty {
            let why = "its first shim was killed before it recorded the task's leader";
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

    /// Returns whether a session leader is certainly the task's leader: a shell that runs siding's
    /// own text. A shell that runs this text cannot start another session without executing another
    /// program. Any other program can do this in a forked child, which looks like the program
    /// itself, and the exit status of such a daemon is not that of the command.
    fn runs_siding_text(&self, leader: ProcRef) -> bool {
        const COMMAND_LINE_BYTES: usize = 4096;
        matches!(self.task.spec().command, TaskCommand::Shell { .. })
            && procfs::command_line(leader.pid, COMMAND_LINE_BYTES)
                .is_some_and(|line| line.contains(" -c ") && line.contains(COMMAND_FD_PREFIX))
    }

    /// Checks a discovered tree at the start of this shim, because processes of the tree may have
    /// ended while no shim supervised the task.
    #[inline(never)]
    pub(crate) fn on_takeover(&mut self) {
        if self.tree.is_discovered() {
            self.check_tree();
            // The awaited output may already be complete, and no further output may follow.
            self.readiness.scan_output(self.task.dir());
            // The holder may have been killed after it handed over the terminal.
            self.on_terminal_holder_exited();
        }
    }
}
