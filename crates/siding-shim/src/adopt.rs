//! Taking on a process that somebody else has started.
//!
//! At first the shim holds it in memory alone: most commands end at once, leave nothing, and are to
//! leave no trace here either. What lasts, leaves something behind, or loses its host is put on
//! record, and from then on kept as any task is after a rescue: by its mark.

use std::os::fd::{AsFd, OwnedFd};

use siding_core::journal_file::JournalFile;
use siding_core::launch::{Adoption, Handed};
use siding_core::link;
use siding_core::store::{Root, TaskDir};
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, memory, poll, socket};
use siding_core::tree::Marks;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Event;
use siding_model::protocol::Message;
use siding_model::record::{Accepted, Adopted, Record, format_for};

use crate::callers::{Caller, Callers};
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
use crate::rounds;
use crate::script::Reporter;
use crate::stall::Stall;
use crate::start::{CannotStart, Ready, Shim, when};

/// Takes a process on and keeps it.
pub(crate) fn run(
    id: TaskId,
    ready: Ready,
    handed: Handed,
    starter: OwnedFd,
) -> Result<(), CannotStart> {
    let mut starter = Caller::starter(starter);
    let held = match Held::take(id, ready, handed) {
        Ok(held) => held,
        Err(error) => {
            starter.tell(&error.message());
            return Err(error);
        }
    };
    starter.tell(&Message::Done);
    drop(starter);
    pause::plan_adoption();
    pause::at(pause::ADOPTED);
    let lease = Lease::take(&held.root, &held.adoption.spec);
    if !held.lasts(&lease) {
        return Ok(());
    }
    let (keeper, shim) = held.put_on_record(lease)?;
    memory::give_back();
    rounds::keep(vec![keeper], &shim.signals);
    Ok(())
}

/// A process that is marked and held, and nowhere on record.
#[derive(Debug)]
struct Held {
    root: Root,
    adoption: Adoption,
    leader: PidFd,
    /// The host's output file, where there is one.
    file: Option<OwnedFd>,
    adopted: Adopted,
    shim: Shim,
}

impl Held {
    fn take(id: TaskId, ready: Ready, handed: Handed) -> Result<Self, CannotStart> {
        let shim = Shim::of(id, ready)?;
        let (memory, leader, file) = handed.adopted();
        let mut adoption = Adoption::read(memory).map_err(when("read what it is to take on"))?;
        let leader = PidFd::received(leader, adoption.process);
        // By its path: it is to make the task's directory, and perhaps its place, itself.
        let root = Root::open(&adoption.root)
            .map_err(|error| when("open the state directory")(std::io::Error::other(error)))?;
        let adopted = Adopted { output: adoption.output.take() };
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
            let left = if is_lost { 0 } else { until.ms_since(clock::mono()) };
            let ready = poll::wait(&fds, Some(left)).unwrap_or_default();
            if self.leader.is_dead() {
                let id = spec.task_id;
                return !Marks::scan_for(&self.root, id, own_pid()).of(id).is_empty();
            }
            // Whoever asks this shim to end, and the end of the host, are the keeper's to deal with.
            if ready.contains(&true) || is_lost || clock::mono() >= until {
                return true;
            }
        }
    }

    /// Writes down that it is a task.
    fn put_on_record(self, lease: Lease) -> Result<(Keeper, Shim), CannotStart> {
        let Self { root, adoption, leader, file, adopted, shim } = self;
        let Adoption { spec, at, wall, .. } = adoption;
        let id = spec.task_id;
        let broken = |doing| move |error| when(doing)(std::io::Error::other(error));
        let dir = root.create_task(id).map_err(broken("make its directory"))?;
        root.mark_live(id).map_err(broken("mark it live"))?;
        let hosted = Hosted::create(&dir, file, &adopted).map_err(when("make its output"))?;
        let listener = listen(&dir)?;
        let accepted = Accepted {
            format: format_for(&spec, Some(&adopted)),
            boot: shim.boot.clone(),
            at,
            wall,
            shim: shim.own,
            cgroup: None,
            adopted: Some(adopted),
            spec,
        };
        let state = TaskState::new(accepted.clone());
        let mut journal = JournalFile::create(dir.as_fd()).map_err(when("create the journal"))?;
        journal
            .append(&[Record::Accepted(Box::new(accepted))])
            .map_err(when("write the journal"))?;
        // Whoever has closed the session meanwhile has stopped what was on record.
        let lease = match lease {
            Lease::Held(_) => Lease::take(&root, &state.spec),
            Lease::Free | Lease::Lost { .. } => lease,
        };
        let now = clock::mono();
        let pump = Pump::Hosted(hosted);
        let stall = Stall::new(&state, pump.bytes(), now);
        let meter = Meter::new(&state, pump.bytes(), now);
        let process = leader.process;
        let mut keeper = Keeper {
            root,
            dir,
            state,
            log: Log::new(journal),
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
        };
        keeper.happen(&Event::Spawned { leader: process });
        Ok((keeper, shim))
    }
}

fn listen(dir: &TaskDir) -> Result<OwnedFd, CannotStart> {
    let place = dir.place().map_err(when("find its place"))?;
    socket::listen(place, link::NAME).map_err(when("listen for callers"))
}
