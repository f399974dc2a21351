//! Taking on a process that somebody else has started.
//!
//! At first the shim holds it in memory alone: most commands end at once, leave nothing, and are to
//! leave no trace here either. What lasts, leaves something behind, or loses its host is put on
//! record, and from then on kept as any task is after a rescue: by its mark.

use std::os::fd::{AsFd, OwnedFd};

use siding_core::journal_file::JournalFile;
use siding_core::launch::{Adoption, ShimFds};
use siding_core::run::discard_unstarted;
use siding_core::shim_client;
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, poll, procfs, unix_socket};
use siding_core::tree::BirthmarkScan;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::TaskEvent;
use siding_model::protocol::ShimMessage;
use siding_model::record::{AcceptedTask, AdoptionInfo, Record, format_for};

use crate::callers::{Caller, Callers};
use crate::deadline::DeadlineNotice;
use crate::egress::Egress;
use crate::ending::Ending;
use crate::hosted::Hosted;
use crate::keeper::Keeper;
use crate::kin::{Kin, own_pid};
use crate::lease::Lease;
use crate::log::Log;
use crate::meter::Meter;
use crate::pause;
use crate::pump::Pump;
use crate::ready::Awaited;
use crate::rounds::Kept;
use crate::script::Reporter;
use crate::stall::Stall;
use crate::start::{CannotStart, Ready, Shim, when};
use crate::unrecorded;

/// Takes a process on. `None` when it has ended and has left nothing.
pub(crate) fn run(
    id: TaskId,
    ready: Ready,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Option<Kept>, CannotStart> {
    let mut starter = Caller::starter(starter);
    let held = match Held::take(id, ready, handed) {
        Ok(held) => held,
        Err(error) => {
            starter.tell(&error.message());
            return Err(error);
        }
    };
    starter.tell(&ShimMessage::Done);
    drop(starter);
    pause::plan_adoption();
    pause::at(pause::ADOPTED);
    let mut lease = Lease::take(&held.root, &held.adoption.spec);
    if !held.lasts(&lease) {
        return Ok(None);
    }
    let recorded = loop {
        match held.record() {
            Ok(recorded) => break recorded,
            // A full disk, say. Nobody else keeps it: it stays in memory until there is room.
            Err(_) if unrecorded::keep(&held, &mut lease) => {}
            Err(_) => return Ok(None),
        }
    };
    let (keeper, shim) = held.keep(recorded, lease);
    Ok(Some(Kept::new(vec![keeper], shim.signals).spent()))
}

/// A process that is marked and held, and nowhere on record.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) root: StateDir,
    pub(crate) adoption: Adoption,
    pub(crate) leader: PidFd,
    /// The host's output file, where there is one.
    pub(crate) file: Option<OwnedFd>,
    adopted: AdoptionInfo,
    shim: Shim,
}

/// What there is of a task on the disk, and through it.
#[derive(Debug)]
struct Recorded {
    dir: TaskDir,
    pump: Pump,
    listener: OwnedFd,
    log: Log,
    state: TaskState,
}

impl Held {
    fn take(id: TaskId, ready: Ready, handed: ShimFds) -> Result<Self, CannotStart> {
        let shim = Shim::of(id, ready)?;
        let (memory, leader, file) = handed.into_adoption();
        let mut adoption = Adoption::read(memory).map_err(when("read what it is to take on"))?;
        let leader = PidFd::from_fd(leader, adoption.process);
        // By its path: it is to make the task's directory, and perhaps its place, itself.
        let root = StateDir::open(&adoption.root)
            .map_err(|error| when("open the state directory")(std::io::Error::other(error)))?;
        let adopted = AdoptionInfo {
            output: adoption.output.take(),
            sandbox: adoption.sandbox.take(),
            process_session: procfs::stat(adoption.process.pid).map(|stat| stat.session),
            spare_programs: std::mem::take(&mut adoption.spare_programs),
        };
        Ok(Self { root, adoption, leader, file, adopted, shim })
    }

    /// Waits until it is clear whether this is to be recorded. False when everything has ended.
    fn lasts(&self, lease: &Lease) -> bool {
        let Adoption { spec, keep_after_ms, at, .. } = &self.adoption;
        let until = at.plus_ms((*keep_after_ms).min(spec.deadline_ms));
        loop {
            let mut fds = vec![self.leader.as_fd(), self.shim.signals.as_fd()];
            fds.extend(lease.source());
            // A host that ended before anybody held it is seen by no descriptor.
            let is_lost = lease.is_lost();
            let left = if is_lost { 0 } else { until.ms_since(clock::monotonic_now()) };
            let ready = poll::wait_readable(&fds, Some(left)).unwrap_or_default();
            if self.leader.is_dead() {
                return self.has_left_any();
            }
            // Whoever asks this shim to end, and the end of the host, are the keeper's to deal with.
            if ready.contains(&true) || is_lost || clock::monotonic_now() >= until {
                return true;
            }
        }
    }

    /// Whether anything is left of it beside its leader.
    pub(crate) fn has_left_any(&self) -> bool {
        let id = self.adoption.spec.task_id;
        let marks = BirthmarkScan::scan_for(&self.root, id, own_pid());
        !(marks.is_complete() && marks.processes_of(id).is_empty())
    }

    /// Writes down that it is a task. What a failure leaves half made is taken back.
    fn record(&self) -> Result<Recorded, CannotStart> {
        let spec = &self.adoption.spec;
        let broken = |error| when("make its directory")(std::io::Error::other(error));
        let dir = self.root.create_task(spec.task_id).map_err(broken)?;
        match self.fill(&dir) {
            Ok((pump, listener, log, state)) => Ok(Recorded { dir, pump, listener, log, state }),
            Err(error) => {
                discard_unstarted(&self.root, dir, spec);
                Err(error)
            }
        }
    }

    /// Makes what is in a task's directory.
    fn fill(&self, dir: &TaskDir) -> Result<(Pump, OwnedFd, Log, TaskState), CannotStart> {
        let spec = &self.adoption.spec;
        let broken = |error| when("mark it live")(std::io::Error::other(error));
        self.root.mark_live(spec.task_id).map_err(broken)?;
        let hosted = Hosted::create(dir, self.file.as_ref(), &self.adopted)
            .map_err(when("make its output"))?;
        let listener = listen(dir)?;
        let accepted = self.accepted();
        let state = TaskState::new(accepted.clone());
        let mut journal = JournalFile::create(dir.as_fd()).map_err(when("create the journal"))?;
        journal
            .append(&[Record::Accepted(Box::new(accepted))])
            .map_err(when("write the journal"))?;
        Ok((Pump::Hosted(hosted), listener, Log::new(journal), state))
    }

    /// Returns its first record.
    pub(crate) fn accepted(&self) -> AcceptedTask {
        let Adoption { spec, at, wall, .. } = &self.adoption;
        AcceptedTask {
            format: format_for(spec, Some(&self.adopted)),
            boot: self.shim.boot.clone(),
            at: *at,
            wall: *wall,
            shim: self.shim.own,
            cgroup: None,
            adopted: Some(self.adopted.clone()),
            spec: spec.clone(),
        }
    }

    /// Becomes the keeper of what is on record now.
    fn keep(self, recorded: Recorded, lease: Lease) -> (Keeper, Shim) {
        let Self { root, leader, shim, .. } = self;
        let Recorded { dir, pump, listener, log, state } = recorded;
        // Whoever has closed the session meanwhile has stopped what was on record.
        let lease = match lease {
            Lease::Held(_) => Lease::take(&root, &state.spec),
            Lease::Free | Lease::Lost { .. } => lease,
        };
        let now = clock::monotonic_now();
        let stall = Stall::new(&state, pump.bytes(), now);
        let meter = Meter::new(&state, pump.bytes(), now);
        let process = leader.process;
        let mut keeper = Keeper {
            root,
            dir,
            state,
            log,
            pump,
            kin: Kin::adopted(leader),
            callers: Callers::default(),
            listener,
            lease,
            reporter: Reporter::Silent,
            input: None,
            egress: Egress::default(),
            ending: Ending::default(),
            stall,
            meter,
            awaited: Awaited::default(),
            deadline_notice: DeadlineNotice::default(),
        };
        keeper.happen(&TaskEvent::Spawned { leader: process.into() });
        (keeper, shim)
    }
}

fn listen(dir: &TaskDir) -> Result<OwnedFd, CannotStart> {
    let place = dir.endpoint_dir().map_err(when("find its place"))?;
    unix_socket::listen(place, shim_client::SOCKET_NAME).map_err(when("listen for callers"))
}
