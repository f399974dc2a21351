//! Waits until an adopted process has ended or must be recorded, and creates the record of its
//! task.

use std::os::fd::{AsFd, OwnedFd};

use siding_core::processes::tree::BirthmarkScan;
use siding_core::store::journal_file::JournalFile;
use siding_core::store::{StateDir, TaskDir, task_files};
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, poll, procfs, unix_socket};
use siding_core::task::launch::{Adoption, ShimFds};
use siding_core::task::run::discard_unstarted;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TaskEvent;
use siding_model::record::{AcceptedTask, AdoptionInfo, NEWEST_FORMAT, Record};

use crate::adopted_output::AdoptedOutput;
use crate::clients::Clients;
use crate::journal_writer::JournalWriter;
use crate::lease::Lease;
use crate::output_pump::OutputPump;
use crate::process_tree::{ProcessTree, current_pid};
use crate::start::{PreparedShim, Shim, StartError, failed_to};
use crate::task_record::TaskRecord;
use crate::task_supervisor::TaskSupervisor;

/// An adopted process that is not recorded yet. The process carries its task's birthmark, and the
/// shim holds its pidfd.
#[derive(Debug)]
pub(crate) struct PendingAdoption {
    pub(crate) root: StateDir,
    pub(crate) adoption: Adoption,
    pub(crate) leader: PidFd,
    /// The host's output file, if the process writes to a file.
    pub(crate) host_output: Option<OwnedFd>,
    adopted: AdoptionInfo,
    shim: Shim,
}

/// The open files and the state of a task that has just been recorded.
#[derive(Debug)]
pub(crate) struct RecordedAdoption {
    dir: TaskDir,
    output: OutputPump,
    listener: OwnedFd,
    journal: JournalWriter,
    state: TaskState,
}

impl PendingAdoption {
    /// Reads the adoption in `handed`, and prepares this process to be its shim.
    pub(crate) fn receive(
        id: TaskId,
        prepared: PreparedShim,
        handed: ShimFds,
    ) -> Result<Self, StartError> {
        let shim = Shim::for_task(id, prepared)?;
        let (memory, leader, host_output) = handed.into_adoption();
        let mut adoption = Adoption::read(memory).map_err(failed_to("read the adoption"))?;
        let leader = PidFd::from_fd(leader, adoption.process);
        // The state directory is opened by its path, because this shim itself will create the
        // task's directories in it.
        let root = StateDir::open(&adoption.root)
            .map_err(|error| failed_to("open the state directory")(std::io::Error::other(error)))?;
        let adopted = AdoptionInfo {
            output: adoption.output.take(),
            sandbox: adoption.sandbox.take(),
            process_session: procfs::stat(adoption.process.pid).map(|stat| stat.session),
            spare_programs: std::mem::take(&mut adoption.spare_programs),
        };
        Ok(Self { root, adoption, leader, host_output, adopted, shim })
    }

    /// Waits until the shim can decide whether the process must be recorded. Returns false if the
    /// process has ended and left no other process.
    pub(crate) fn wait_needs_record(&self, lease: &Lease) -> bool {
        let Adoption { spec, keep_after_ms, at, .. } = &self.adoption;
        let until = at.plus_ms((*keep_after_ms).min(spec.deadline_ms));
        loop {
            let mut fds = vec![self.leader.as_fd(), self.shim.signals.as_fd()];
            fds.extend(lease.source());
            // No descriptor reports the end of a host that ended before the lease was acquired.
            let is_lost = lease.is_lost();
            let left = if is_lost { 0 } else { until.ms_since(clock::monotonic_now()) };
            let ready = poll::wait_readable_or_pause(&fds, Some(left)).unwrap_or_default();
            if self.leader.is_dead() {
                return self.has_other_processes();
            }
            // Signals to this shim and the end of the host are handled by the supervisor of the
            // recorded task.
            if ready.contains(&true) || is_lost || clock::monotonic_now() >= until {
                return true;
            }
        }
    }

    /// Returns whether a process of the task besides its leader lives, or may live.
    pub(crate) fn has_other_processes(&self) -> bool {
        let id = self.adoption.spec.task_id;
        let scan = BirthmarkScan::scan_for(&self.root, id, current_pid());
        !(scan.is_complete() && scan.processes_of(id).is_empty())
    }

    /// Records the task. After a failure, removes the files that were created.
    pub(crate) fn record(&self) -> Result<RecordedAdoption, StartError> {
        let spec = &self.adoption.spec;
        let dir_error =
            |error| failed_to("create the task's directory")(std::io::Error::other(error));
        let dir = self.root.create_task(spec.task_id).map_err(dir_error)?;
        match self.create_files(&dir) {
            Ok((output, listener, journal, state)) => {
                Ok(RecordedAdoption { dir, output, listener, journal, state })
            }
            Err(error) => {
                discard_unstarted(&self.root, dir, spec);
                Err(error)
            }
        }
    }

    /// Marks the task live, creates the files in its directory, and writes the first record to the
    /// journal.
    fn create_files(
        &self,
        dir: &TaskDir,
    ) -> Result<(OutputPump, OwnedFd, JournalWriter, TaskState), StartError> {
        let spec = &self.adoption.spec;
        let mark_error = |error| failed_to("mark the task live")(std::io::Error::other(error));
        self.root.mark_live(spec.task_id).map_err(mark_error)?;
        let adopted_output = AdoptedOutput::create(dir, self.host_output.as_ref(), &self.adopted)
            .map_err(failed_to("create the output"))?;
        let listener = listen_for_clients(dir)?;
        let accepted = self.accepted_record();
        let state = TaskState::new(accepted.clone());
        let mut journal =
            JournalFile::create(dir.as_fd()).map_err(failed_to("create the journal"))?;
        journal
            .append(&[Record::Accepted(Box::new(accepted))])
            .map_err(failed_to("write the journal"))?;
        Ok((OutputPump::Adopted(adopted_output), listener, JournalWriter::new(journal), state))
    }

    /// Returns the first record of the task.
    pub(crate) fn accepted_record(&self) -> AcceptedTask {
        let Adoption { spec, at, wall, .. } = &self.adoption;
        AcceptedTask {
            format: NEWEST_FORMAT,
            boot: self.shim.boot.clone(),
            at: *at,
            wall: *wall,
            shim: self.shim.self_process,
            cgroup: None,
            adopted: Some(self.adopted.clone()),
            spec: spec.clone(),
        }
    }

    /// Returns the supervisor of the task that is now recorded.
    pub(crate) fn into_supervisor(
        self,
        recorded: RecordedAdoption,
        lease: Lease,
    ) -> (TaskSupervisor, Shim) {
        let Self { root, leader, shim, .. } = self;
        let RecordedAdoption { dir, output, listener, journal, state } = recorded;
        // The lease is acquired again, because a command that closed the session in the meantime
        // stopped only the recorded tasks.
        let lease = match lease {
            Lease::Held(_) => Lease::acquire(&root, &state.spec),
            Lease::Free | Lease::Lost { .. } => lease,
        };
        let process = leader.process;
        let record = TaskRecord::new(root, dir, state, journal);
        let (tree, clients) = (ProcessTree::adopted(leader), Clients::new(listener));
        let mut supervisor = TaskSupervisor::new(record, output, tree, clients, lease);
        supervisor.handle_event(&TaskEvent::Spawned { leader: process.into() });
        (supervisor, shim)
    }
}

fn listen_for_clients(dir: &TaskDir) -> Result<OwnedFd, StartError> {
    let runtime_dir = dir.endpoint_dir().map_err(failed_to("find the task's runtime directory"))?;
    unix_socket::listen(runtime_dir, task_files::SOCKET_NAME)
        .map_err(failed_to("listen for clients"))
}
