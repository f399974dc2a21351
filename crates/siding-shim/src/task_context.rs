//! Read access to a task for the components that measure it.

use siding_core::processes::probe::{self, KnownFds, UsageFields};
use siding_core::processes::tree;
use siding_core::store::{StateDir, TaskDir};
use siding_model::evidence::TaskSample;
use siding_model::evidence::prompt::{MAX_TAIL_BYTES, OutputTail};
use siding_model::journal::TaskState;
use siding_model::limits::ProcessUsage;
use siding_model::process::LeaderRef;
use siding_model::terminal::TerminalInput;

use crate::output_pump::OutputPump;
use crate::process_tree::{ProcessTree, current_pid};
use crate::sandboxed_command::command_processes;
use crate::task_record::TaskRecord;

/// A task with its output and its processes.
#[derive(Debug)]
pub(crate) struct TaskContext<'t> {
    root: &'t StateDir,
    pub(crate) dir: &'t TaskDir,
    pub(crate) state: &'t TaskState,
    pub(crate) output: &'t OutputPump,
    pub(crate) tree: &'t ProcessTree,
}

impl<'t> TaskContext<'t> {
    pub(crate) const fn new(
        task: &'t TaskRecord,
        output: &'t OutputPump,
        tree: &'t ProcessTree,
    ) -> Self {
        Self { root: task.root(), dir: task.dir(), state: task.state(), output, tree }
    }

    /// Returns the pids of the task's processes.
    pub(crate) fn member_pids(&self) -> Vec<i32> {
        self.tree.member_pids(self.root, self.state)
    }

    /// Returns whether [`Self::sample`] may leave out processes that [`Self::sample_usage`]
    /// measures: those of a host's sandbox itself, and those in the sandbox that are no longer
    /// descendants of the command.
    pub(crate) fn samples_only_the_command(&self) -> bool {
        self.state.adopted.as_ref().is_some_and(|adopted| adopted.sandbox.is_some())
    }

    /// Samples what the processes wait for, and the resources that they use. For an adopted command
    /// in a host's sandbox, leaves out the sandbox's own processes.
    pub(crate) fn sample(&self, known_fds: &KnownFds) -> TaskSample {
        let id = self.state.spec.task_id;
        if self.tree.is_discovered() {
            let mut members = self.member_pids();
            if self.samples_only_the_command() {
                members = command_processes(members);
            }
            return probe::sample_processes(known_fds, &members);
        }
        probe::sample_descendants(known_fds, current_pid(), |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    /// Samples only the resources that the processes use. Includes every process, because a limit
    /// counts all of them.
    pub(crate) fn sample_usage(&self, wanted: UsageFields) -> Vec<ProcessUsage> {
        let id = self.state.spec.task_id;
        if self.tree.is_discovered() {
            return probe::usage_of_processes(&self.member_pids(), wanted);
        }
        probe::usage_of_descendants(current_pid(), wanted, |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    /// Returns the end of the output, where a prompt would be, with the state of the terminal.
    pub(crate) fn read_tail(&self) -> OutputTail {
        let tail = OutputTail::from_bytes(&self.output.tail(MAX_TAIL_BYTES));
        let Some(modes) = self.output.echo_modes() else { return tail };
        let input =
            TerminalInput { echo: modes.echoes, canonical: modes.is_canonical, reader: None };
        // Programs that read whole lines do not use the alternate screen.
        let is_alternate_screen = !modes.is_canonical && self.output.is_alternate_screen();
        tail.with_terminal(input, is_alternate_screen)
    }

    fn live_leader(&self) -> Option<i32> {
        let lives = self.state.leader_end.is_none();
        self.state.leader.filter(|_| lives).map(LeaderRef::pid)
    }

    /// Returns the command line of a process in one line; for a live leader that is still the
    /// requested program, the task's command.
    pub(crate) fn command_of(&self, pid: i32) -> String {
        if self.live_leader() == Some(pid) {
            tree::leader_command_for_report(pid, self.state)
        } else {
            tree::command_for_report(pid)
        }
    }
}
