//! Read access to a task for the components that measure it.

use siding_core::probe::{self, KnownFds, UsageFields};
use siding_core::store::{StateDir, TaskDir};
use siding_core::tree;
use siding_model::evidence::TaskSample;
use siding_model::evidence::prompt::{MAX_TAIL_BYTES, OutputTail};
use siding_model::journal::TaskState;
use siding_model::limits::ProcessUsage;
use siding_model::process::LeaderRef;
use siding_model::text;

use crate::output_pump::OutputPump;
use crate::process_tree::{ProcessTree, current_pid};
use crate::sandboxed_command::command_processes;
use crate::task_record::TaskRecord;

/// Columns of a command line.
const COMMAND_COLUMNS: usize = 160;

/// What there is to look at.
#[derive(Debug)]
pub(crate) struct TaskContext<'k> {
    pub(crate) root: &'k StateDir,
    pub(crate) dir: &'k TaskDir,
    pub(crate) state: &'k TaskState,
    pub(crate) pump: &'k OutputPump,
    pub(crate) tree: &'k ProcessTree,
}

impl<'k> TaskContext<'k> {
    /// Returns the context of a task with its output and its processes.
    pub(crate) const fn new(
        task: &'k TaskRecord,
        pump: &'k OutputPump,
        tree: &'k ProcessTree,
    ) -> Self {
        Self { root: task.root(), dir: task.dir(), state: task.state(), pump, tree }
    }

    /// Returns the task's processes.
    pub(crate) fn member_pids(&self) -> Vec<i32> {
        self.tree.member_pids(self.root, self.state)
    }

    pub(crate) fn sample(&self, known_fds: &KnownFds) -> TaskSample {
        let id = self.state.spec.task_id;
        if self.tree.is_discovered() {
            let mut members = self.member_pids();
            if self.state.adopted.as_ref().is_some_and(|adopted| adopted.sandbox.is_some()) {
                members = command_processes(members);
            }
            return probe::sample_processes(known_fds, &members);
        }
        probe::sample_descendants(known_fds, current_pid(), |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    /// Looks at what the processes use, and not at what they do.
    pub(crate) fn sample_usage(&self, wanted: UsageFields) -> Vec<ProcessUsage> {
        let id = self.state.spec.task_id;
        if self.tree.is_discovered() {
            return probe::usage_of_processes(&self.member_pids(), wanted);
        }
        probe::usage_of_descendants(current_pid(), wanted, |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    pub(crate) fn read_tail(&self) -> OutputTail {
        OutputTail::from_bytes(&self.pump.tail(MAX_TAIL_BYTES))
    }

    fn live_leader(&self) -> Option<i32> {
        let lives = self.state.leader_end.is_none();
        self.state.leader.filter(|_| lives).map(LeaderRef::pid)
    }

    pub(crate) fn command_of(&self, pid: i32) -> String {
        // The leader's own arguments are siding's constant text; it runs what was asked for.
        if self.live_leader() == Some(pid) {
            text::one_line(&self.state.spec.command_text(), COMMAND_COLUMNS)
        } else {
            tree::command_for_report(pid)
        }
    }
}
