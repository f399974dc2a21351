//! Clearing what crashes left: dead shims, strays, leftovers, and what has outlived its retention.
//!
//! Everything here judges by records and locks. A process is a stray only when it carries the mark
//! of a task that has ended on record, or whose record was set aside; a file goes only when nobody
//! holds the task it belongs to. What belongs to another state directory is never touched: its
//! tasks are not on record here.
//!
//! What a host has left carries the mark of that host, which is on record here ([`hosts()`]).
//!
//! Two things are judged without a record: socket files in watched places that nobody holds
//! ([`sockets()`]), and, only when asked for, what other programs left behind, by rules
//! ([`foreign()`]).

mod foreign;
mod foresee;
mod forgotten;
mod hosts;
mod leases;
mod leftovers;
mod log;
mod recovery;
mod sockets;
mod step;
mod strays;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CStr;
use std::io;

use siding_model::id::{SessionId, TaskId};
use siding_model::journal::JournalError;
use siding_model::lifecycle::Phase;
use siding_model::notice::{NoticeId, TaskNotices};
use siding_model::outcome::Outcome;
use siding_model::process::{BootId, ProcRef, UnixMs};
use siding_model::retention::RetentionLimits;

use crate::cgroup::Group;
use crate::journal_file::ReadError;
use crate::session;
use crate::store::{Root, StoreError};
use crate::sys::procfs;
use crate::tree::Marks;

pub(crate) use leftovers::stored_bytes;
pub(crate) use log::LOGS;

pub use foreign::{
    Orphans, foreign, foreign_unattended, is_foreign_report_unseen, note_foreign_report,
};
pub use hosts::{end_host, hosts, hosts_foreseen};
pub use leases::await_leaving;
pub use sockets::sockets;
pub use step::{Step, counts};

/// Why nothing could be reaped at all.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// The state directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `/proc` does not tell which boot this is.
    #[error("could not read this boot's id: {0}; is `/proc` mounted?")]
    Boot(#[from] io::Error),
}

/// Clears what crashes left and what is too old, and returns what was done, in order.
///
/// `program` becomes the shims of tasks whose own was killed. `before_removal` is called once, just
/// before ended tasks that have outlived their retention are removed, where there are any. What
/// fails for one task is a [`Step::Failed`] and stops nothing else.
///
/// # Errors
///
/// [`ReapError`].
pub fn act(
    root: &Root,
    program: &CStr,
    limits: &RetentionLimits,
    before_removal: impl FnOnce(),
) -> Result<Vec<Step>, ReapError> {
    let mut steps = hosts(root);
    steps.extend(recovery::live_marked(root, program)?);
    let mut survey = look(root)?;
    let unmarked = recovery::unmarked(root, program, &survey)?;
    if !unmarked.is_empty() {
        survey = look(root)?;
    }
    steps.extend(unmarked);
    steps.extend(leaving(root, &survey, |_| false));
    let (ended, kept) = strays::end(root, &survey);
    steps.extend(ended);
    steps.extend(leftovers::groups(root, &survey));
    steps.extend(leftovers::expired(root, &survey, &kept, limits, before_removal));
    steps.extend(leftovers::unborn(root, &survey));
    steps.extend(leftovers::unclaimed(root)?);
    steps.extend(forgotten::sessions(root, &survey, limits));
    steps.extend(forgotten::aside(root, &kept, limits));
    Ok(steps)
}

/// Clears what concerns somebody who begins now and cannot wait for [`act`], and returns what was
/// done: dead shims of tasks that run get another, and processes whose task has ended are ended. Only
/// tasks are read that are marked as live or whose mark a process carries, so that it takes as long
/// as there are of those, however many have ended.
///
/// # Errors
///
/// [`ReapError`].
pub fn act_at_once(root: &Root, program: &CStr) -> Result<Vec<Step>, ReapError> {
    let mut steps = hosts(root);
    steps.extend(recovery::live_marked(root, program)?);
    let mut wanted: BTreeSet<TaskId> = root.live_tasks()?.into_iter().collect();
    wanted.extend(Marks::scan(|_, _| true).tasks());
    let survey = look_at(root, wanted)?;
    steps.extend(leaving(root, &survey, |_| false));
    steps.extend(strays::end(root, &survey).0);
    Ok(steps)
}

/// Returns what [`act`] would do. Changes nothing, and takes no lock: what somebody else is about
/// to do is foretold as if the reaper had to.
///
/// # Errors
///
/// [`ReapError`].
pub fn foresee(root: &Root, limits: &RetentionLimits) -> Result<Vec<Step>, ReapError> {
    let mut steps = hosts_foreseen(root);
    steps.extend(foresee::steps(root, limits)?);
    Ok(steps)
}

/// Returns how a task ended, `None` while it has not.
fn outcome_of(root: &Root, id: TaskId) -> Option<Outcome> {
    let folded = root.task(id).ok()?.read().ok()?;
    match folded.state.lifecycle.phase() {
        Phase::Ended { outcome, .. } => Some(outcome.clone()),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    }
}

/// Where a task stands, as far as the reaper must know. Specifications are not held on to: a
/// command may have megabytes.
#[derive(Debug)]
enum Standing {
    /// It has not ended.
    Live { shim: ProcRef, session: SessionId, keep: bool },
    /// It has ended. `group` is its control group if that is still there.
    /// When it was `released`, what carries its mark is nobody's to end.
    Ended {
        shim: ProcRef,
        at: UnixMs,
        session: SessionId,
        news: Vec<NoticeId>,
        group: Option<Group>,
        released: bool,
    },
    /// Nothing is recorded.
    Unborn,
    /// Its journal cannot be read.
    Damaged { why: JournalError },
    /// A newer siding wrote its journal.
    TooNew { why: JournalError },
    /// The operating system refused.
    Unreadable { source: io::Error },
}

/// Every task, and this boot.
#[derive(Debug)]
struct Survey {
    boot: BootId,
    tasks: BTreeMap<TaskId, Standing>,
}

impl Survey {
    /// Returns the control group that an ended task has left.
    fn left_group(&self, id: TaskId) -> Option<&Group> {
        match self.tasks.get(&id)? {
            Standing::Ended { group, .. } => group.as_ref(),
            Standing::Live { .. }
            | Standing::Unborn
            | Standing::Damaged { .. }
            | Standing::TooNew { .. }
            | Standing::Unreadable { .. } => None,
        }
    }

    /// Returns the shims that live and keep a task.
    fn shims(&self) -> impl Iterator<Item = ProcRef> {
        self.tasks.values().filter_map(|standing| match standing {
            Standing::Live { shim, .. } if procfs::is_running(*shim) => Some(*shim),
            Standing::Live { .. }
            | Standing::Ended { .. }
            | Standing::Unborn
            | Standing::Damaged { .. }
            | Standing::TooNew { .. }
            | Standing::Unreadable { .. } => None,
        })
    }
}

fn look(root: &Root) -> Result<Survey, ReapError> {
    look_at(root, root.all_tasks()?)
}

fn look_at(root: &Root, ids: impl IntoIterator<Item = TaskId>) -> Result<Survey, ReapError> {
    let boot = procfs::boot_id()?;
    let tasks = ids.into_iter().filter_map(|id| Some((id, standing(root, id)?)));
    Ok(Survey { boot, tasks: tasks.collect() })
}

/// Returns where a task stands, `None` when somebody has removed it.
fn standing(root: &Root, id: TaskId) -> Option<Standing> {
    let read = match root.task(id) {
        Err(StoreError::NoSuchTask { .. }) => return None,
        Err(StoreError::Io { source, .. }) => return Some(Standing::Unreadable { source }),
        Err(_) => return Some(Standing::Unreadable { source: io::ErrorKind::Other.into() }),
        Ok(dir) => dir.story(),
    };
    Some(match read {
        Ok(TaskNotices { state, .. }) if state.is_live() => Standing::Live {
            shim: state.shim,
            keep: state.spec.keep,
            session: state.spec.session_id,
        },
        Ok(TaskNotices { state, notices }) => Standing::Ended {
            shim: state.shim,
            at: state.ended_wall(),
            news: notices.iter().map(|notice| notice.id).collect(),
            group: Group::of(&state).filter(Group::exists),
            released: matches!(
                state.lifecycle.phase(),
                Phase::Ended { outcome: Outcome::Released { .. }, .. }
            ),
            session: state.spec.session_id,
        },
        Err(ReadError::Io(source)) => Standing::Unreadable { source },
        Err(ReadError::Content(JournalError::Empty)) => Standing::Unborn,
        Err(ReadError::Content(why @ JournalError::TooNew { .. })) => Standing::TooNew { why },
        Err(ReadError::Content(why @ JournalError::Corrupt { .. })) => Standing::Damaged { why },
    })
}

/// Returns the tasks whose session is over and whose shims are about to stop them. A shim that does
/// not run counts where `will_have_one`.
fn leaving(root: &Root, survey: &Survey, will_have_one: impl Fn(TaskId) -> bool) -> Vec<Step> {
    let mut over: HashMap<&SessionId, bool> = HashMap::new();
    let mut steps = Vec::new();
    for (id, standing) in &survey.tasks {
        let Standing::Live { shim, session, keep: false } = standing else { continue };
        if session.is_implicit() || !(procfs::is_running(*shim) || will_have_one(*id)) {
            continue;
        }
        // That is how its shims see it.
        let is_over =
            over.entry(session).or_insert_with(|| session::is_over(root, session, &survey.boot));
        if *is_over {
            steps.push(Step::Leaving { task_id: *id, session_id: session.clone(), outcome: None });
        }
    }
    steps
}
