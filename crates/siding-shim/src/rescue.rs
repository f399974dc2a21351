//! Taking over from a shim that was killed.
//!
//! The lock came with the task's directory. The processes are found by their mark and their control
//! group, the output goes on through the same FIFO, which the task kept alive itself, and the
//! journal goes on where it stopped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use siding_core::journal_file::{self, JournalFile};
use siding_core::launch::{BatchTakeover, ShimCommand, ShimFds};
use siding_core::proxy::PROXY_NAME;
use siding_core::sys::pidfd::PidFd;
use siding_core::sys::{clock, file, poll, procfs, unix_socket};
use siding_core::tree::{COMMAND_FD_PREFIX, RateLimitedScan};
use siding_core::{output, shim_client};
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::{Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::LeaderEnd;
use siding_model::process::ProcRef;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;
use siding_model::spec::TaskCommand;

use crate::callers::{Caller, Callers};
use crate::deadline::DeadlineNotice;
use crate::egress::Egress;
use crate::ending::Ending;
use crate::flood;
use crate::hosted::Hosted;
use crate::keeper::Keeper;
use crate::kin::{Kin, Stranger};
use crate::lease::Lease;
use crate::log::Log;
use crate::meter::Meter;
use crate::monitor::Told;
use crate::pump::Pump;
use crate::ready::Awaited;
use crate::rounds::Kept;
use crate::script::Reporter;
use crate::stall::Stall;
use crate::start::{CannotStart, Ready, Setting, Shim, when};

/// How long the next of several errands may take, in milliseconds. The starter has them all at hand.
const NEXT_WAIT_MS: u64 = 500;

/// Takes over a task whose shim is dead.
pub(crate) fn run(
    id: TaskId,
    ready: Ready,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Kept, CannotStart> {
    let mut starter = Caller::starter(starter);
    // A rescuer's caller goes on with its own work; its leaving says nothing about the task.
    starter.is_starter = false;
    let taken = Shim::of(id, ready).and_then(|shim| {
        let keeper = take_over(shim.settle(id, handed), None, |message| starter.tell(&message))?;
        Ok((shim, keeper))
    });
    let (shim, mut keeper) = taken.inspect_err(|error| starter.tell(&error.message()))?;
    keeper.callers = Callers::new(starter);
    resume(&mut keeper);
    Ok(Kept::new(vec![keeper], shim.signals))
}

/// Takes over tasks whose shims are dead and whose session is over: this one, and those that follow.
///
/// They are gathered first. That takes milliseconds, and a look that all of them need is then taken
/// once.
pub(crate) fn run_several(
    id: TaskId,
    ready: Ready,
    handed: ShimFds,
    starter: OwnedFd,
) -> Result<Kept, CannotStart> {
    let shim = Shim::of(id, ready)?;
    let looks = Rc::new(RateLimitedScan::default());
    let mut keepers = Vec::new();
    let mut next = Some((id, handed));
    while let Some((id, handed)) = next {
        let tell = |message| {
            let packet = serde_json::to_vec(&message).unwrap_or_default();
            // Who does not wait for the answer reads the journal.
            let _gone = unix_socket::send(&starter, &packet, false);
        };
        looks.add_task(id);
        match take_over(shim.settle(id, handed), Some(&looks), tell) {
            Ok(keeper) => keepers.push(keeper),
            Err(error) => tell(error.message()),
        }
        next = if keepers.len() < BatchTakeover::MAX_BATCH_TASKS {
            next_errand(&starter)
        } else {
            None
        };
    }
    drop(starter);
    keepers.iter_mut().for_each(resume);
    Ok(Kept::new(keepers, shim.signals))
}

/// Waits a moment for the next of several errands. `None` when there are no more.
fn next_errand(starter: &OwnedFd) -> Option<(TaskId, ShimFds)> {
    let came = poll::wait_readable(&[starter.as_fd()], Some(NEXT_WAIT_MS)).ok()?;
    match came.contains(&true).then(|| ShimFds::receive(starter))? {
        Ok(Some((ShimCommand::RescueAmong(id), handed))) => Some((id, handed)),
        Ok(
            Some((
                ShimCommand::Start(_)
                | ShimCommand::StartBehind(_)
                | ShimCommand::Rescue(_)
                | ShimCommand::Adopt(_),
                _,
            ))
            | None,
        )
        | Err(_) => None,
    }
}

/// Takes over a task, and tells when that is on record.
fn take_over(
    setting: Setting,
    looks: Option<&Rc<RateLimitedScan>>,
    tell: impl FnOnce(ShimMessage),
) -> Result<Keeper, CannotStart> {
    let known = known_processes(&setting.memory);
    let dir = setting.dir.as_fd();
    let folded = journal_file::read(dir)
        .map_err(|error| when("read the journal")(io::Error::other(error)))?;
    let mut journal = JournalFile::resume(dir, &folded).map_err(when("open the journal"))?;
    let mut state = folded.state;
    let pump = reopen_output(&setting.dir, &state).map_err(when("reopen the output"))?;
    let place = setting.dir.endpoint_dir().map_err(when("find its place"))?;
    let _stale = file::remove(place, shim_client::SOCKET_NAME);
    // Before the record: who reads there that this shim keeps the task must be able to reach it.
    let listener =
        unix_socket::listen(place, shim_client::SOCKET_NAME).map_err(when("listen for callers"))?;
    let leader = state.leader.filter(|_| state.leader_end.is_none());
    let stranger = leader
        .map_or(Ok(Stranger::Gone), |leader| Stranger::of_record(&setting.root, &state, leader));
    let stranger = stranger.map_err(when("hold its leader"))?;
    let seq = state.next_seq;
    let rescued = Record::Rescued { at: clock::monotonic_now(), shim: setting.own };
    state.apply(rescued.clone()).map_err(|why| when("fold the journal")(io::Error::other(why)))?;
    journal.append(std::slice::from_ref(&rescued)).map_err(when("write the journal"))?;
    tell(ShimMessage::Record { seq, record: Some(Box::new(rescued)) });
    // Before the strays, which may take all descriptors but one.
    let lease = Lease::take(&setting.root, &state.spec);
    let kin = Kin::strays(&setting.root, &state, stranger, &known, looks.cloned());
    let stall = Stall::new(&state, pump.bytes(), clock::monotonic_now());
    let meter = Meter::new(&state, pump.bytes(), clock::monotonic_now());
    let awaited = Awaited::new(&state).map_err(when("read what it waits for"))?;
    Ok(Keeper {
        root: setting.root,
        dir: setting.dir,
        state,
        log: Log::new(journal),
        pump,
        kin,
        callers: Callers::default(),
        listener,
        lease,
        reporter: Reporter::Silent,
        input: None,
        // A proxy ends with its shim, and what it let through is not let through again.
        egress: Egress::default(),
        ending: Ending::default(),
        stall,
        meter,
        awaited,
        deadline_notice: DeadlineNotice::default(),
    })
}

/// Returns the processes that whoever started this shim has found. Without them it looks itself.
fn known_processes(memory: &OwnedFd) -> Vec<ProcRef> {
    const MOST: usize = 1 << 20;
    file::read_to_end(memory.as_fd(), MOST)
        .and_then(|json| serde_json::from_slice(&json).map_err(io::Error::other))
        .unwrap_or_default()
}

/// Opens the task's output again. A task may have removed its FIFO; its file goes on all the same.
fn reopen_output(dir: &siding_core::store::TaskDir, state: &TaskState) -> io::Result<Pump> {
    if let Some(adopted) = &state.adopted {
        return Ok(Pump::Hosted(Hosted::resume(dir, adopted)));
    }
    let place = dir.endpoint_dir()?;
    let fifo = match file::open_at(place, output::OUTPUT_FIFO, file::OpenMode::FifoReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            file::create_fifo(place, output::OUTPUT_FIFO)?;
            file::open_at(place, output::OUTPUT_FIFO, file::OpenMode::FifoReadWrite)
        }
        result => result,
    }?;
    let file = match file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::ReadWrite) {
        // The first shim died before it made one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            file::open_at(dir, output::OUTPUT_FILE, file::OpenMode::CreateNew)
        }
        result => result,
    }?;
    // A task may have put anything in the mark's place. Then it has those bytes twice, and is kept.
    let _settled = flood::settle(place, &fifo, &file);
    let mut pump = Pump::new(fifo, file, state.spec.keep_head, state.spec.keep_tail)?;
    pump.tell(Told::resume(dir, state)?);
    Ok(pump)
}

/// Goes on in the phase in which the journal stopped.
fn resume(keeper: &mut Keeper) {
    match keeper.state.lifecycle.phase() {
        Phase::Starting { .. } => find_leader(keeper),
        // The intent is on record; whether the signal went out is not.
        Phase::Stopping { intent, .. } => {
            let signal = intent.signal;
            keeper.ending.signal(&keeper.kin, &keeper.root, &keeper.state, signal);
        }
        Phase::Killing { .. } => keeper.finish_killing(),
        Phase::Running { .. } | Phase::Lingering { .. } | Phase::Ended { .. } => {}
    }
}

/// Finds the leader of a task whose shim died between starting the command and saying so: the
/// oldest process that leads a session of its own, as every leader does all its life. The proxy of the
/// task does so too, and is older.
fn find_leader(keeper: &mut Keeper) {
    let is_proxy = |pid| {
        procfs::process_name(pid).is_some_and(|name| name.as_bytes() == PROXY_NAME.to_bytes())
    };
    let leads = |one: &ProcRef| {
        procfs::stat(one.pid).is_some_and(|stat| {
            stat.session == one.pid && stat.start_ticks == one.start_ticks && !is_proxy(one.pid)
        })
    };
    let members = keeper.kin.members(&keeper.root, &keeper.state);
    let is_empty = members.is_empty();
    let leaders = members.into_iter().filter(leads);
    if let Some(leader) = leaders.min_by_key(|process| process.start_ticks) {
        let held = match PidFd::open_if_present(leader) {
            Ok(Some(held)) if runs_our_text(keeper, leader) => Stranger::Held(held),
            Ok(Some(held)) => Stranger::Guessed(held),
            Ok(None) => Stranger::Missed,
            // It may live. Without a leader the task is over when nothing of it is left.
            Err(_) => return,
        };
        keeper.kin.led_by(held);
        keeper.happen(&TaskEvent::Spawned { leader: leader.into() });
    } else if !is_empty {
        let why = "its first shim was killed before it had noted who its leader is";
        let end = LeaderEnd::Unknown { why: why.to_owned() };
        let tree = TreeLiveness::Alive;
        keeper.happen(&TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None });
    }
}

/// Whether a session's leader is beyond doubt the task's: a shell with siding's own text. A shell
/// cannot begin a session without executing something else. A program can, in a child that looks
/// like itself, and what such a daemon ends with is not the command's end.
fn runs_our_text(keeper: &Keeper, leader: ProcRef) -> bool {
    const ENOUGH: usize = 4096;
    matches!(keeper.state.spec.command, TaskCommand::Shell { .. })
        && procfs::command_line(leader.pid, ENOUGH)
            .is_some_and(|line| line.contains(" -c ") && line.contains(COMMAND_FD_PREFIX))
}
