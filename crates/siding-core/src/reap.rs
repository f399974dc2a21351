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

mod dry_run;
mod expired;
mod hosts;
mod leftovers;
mod orphan_processes;
mod reap_log;
mod recovery;
mod session_shims;
mod sockets;
mod step;
#[cfg(test)]
mod tests;
mod unowned;

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

use crate::cgroup::TaskGroup;
use crate::journal_file::JournalReadError;
use crate::session;
use crate::store::{StateDir, StoreError};
use crate::sys::procfs;
use crate::tree::BirthmarkScan;

pub(crate) use leftovers::stored_bytes;
pub(crate) use reap_log::LOG_FILES;

pub use hosts::{end_host, plan_hosts, reap_hosts};
pub use session_shims::await_stopping;
pub use sockets::reap_sockets;
pub use step::{ReapStep, count_by_kind};
pub use unowned::{
    UnownedRules, is_unowned_report_unseen, reap_unowned, reap_unowned_unattended,
    record_unowned_report,
};

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
/// fails for one task is a [`ReapStep::SandboxFailure`] and stops nothing else.
///
/// # Errors
///
/// [`ReapError`].
pub fn reap_all(
    root: &StateDir,
    program: &CStr,
    limits: &RetentionLimits,
    before_removal: impl FnOnce(),
) -> Result<Vec<ReapStep>, ReapError> {
    let mut steps = reap_hosts(root);
    steps.extend(recovery::recover_live_marked(root, program)?);
    let mut survey = survey_all(root)?;
    let unmarked = recovery::recover_unmarked(root, program, &survey)?;
    if !unmarked.is_empty() {
        survey = survey_all(root)?;
    }
    steps.extend(unmarked);
    steps.extend(tasks_being_stopped(root, &survey, |_| false));
    let (ended, kept) = orphan_processes::end_orphans(root, &survey);
    steps.extend(ended);
    steps.extend(leftovers::remove_leftover_groups(root, &survey));
    steps.extend(leftovers::remove_expired_tasks(root, &survey, &kept, limits, before_removal));
    steps.extend(leftovers::remove_unrecorded(root, &survey));
    steps.extend(leftovers::remove_stale_claims(root)?);
    steps.extend(expired::remove_expired_sessions(root, &survey, limits));
    steps.extend(expired::remove_expired_aside(root, &kept, limits));
    Ok(steps)
}

/// Clears what concerns somebody who begins now and cannot wait for [`reap_all`], and returns what was
/// done: dead shims of tasks that run get another, and processes whose task has ended are ended. Only
/// tasks are read that are marked as live or whose mark a process carries, so that it takes as long
/// as there are of those, however many have ended.
///
/// # Errors
///
/// [`ReapError`].
pub fn reap_urgent(root: &StateDir, program: &CStr) -> Result<Vec<ReapStep>, ReapError> {
    let mut steps = reap_hosts(root);
    steps.extend(recovery::recover_live_marked(root, program)?);
    let mut wanted: BTreeSet<TaskId> = root.live_tasks()?.into_iter().collect();
    wanted.extend(BirthmarkScan::scan(|_, _| true).tasks_with_processes());
    let survey = survey_tasks(root, wanted)?;
    steps.extend(tasks_being_stopped(root, &survey, |_| false));
    steps.extend(orphan_processes::end_orphans(root, &survey).0);
    Ok(steps)
}

/// Returns what [`reap_all`] would do. Changes nothing, and takes no lock: what somebody else is about
/// to do is foretold as if the reaper had to.
///
/// # Errors
///
/// [`ReapError`].
pub fn plan_all(root: &StateDir, limits: &RetentionLimits) -> Result<Vec<ReapStep>, ReapError> {
    let mut steps = plan_hosts(root);
    steps.extend(dry_run::plan_steps(root, limits)?);
    Ok(steps)
}

/// Returns how a task ended, `None` while it has not.
fn task_outcome(root: &StateDir, id: TaskId) -> Option<Outcome> {
    let folded = root.task_dir(id).ok()?.read().ok()?;
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
enum RecordedState {
    /// It has not ended.
    Live { shim: ProcRef, session: SessionId, keep: bool },
    /// It has ended. `group` is its control group if that is still there.
    /// When it was `released`, what carries its mark is nobody's to end.
    Ended {
        shim: ProcRef,
        at: UnixMs,
        session: SessionId,
        notices: Vec<NoticeId>,
        group: Option<TaskGroup>,
        released: bool,
    },
    /// Nothing is recorded.
    NeverRecorded,
    /// Its journal cannot be read.
    Damaged { why: JournalError },
    /// A newer siding wrote its journal.
    TooNew { why: JournalError },
    /// The operating system refused.
    Unreadable { source: io::Error },
}

/// Every task, and this boot.
#[derive(Debug)]
struct TaskSurvey {
    boot: BootId,
    tasks: BTreeMap<TaskId, RecordedState>,
}

impl TaskSurvey {
    /// Returns the control group that an ended task has left.
    fn leftover_group(&self, id: TaskId) -> Option<&TaskGroup> {
        match self.tasks.get(&id)? {
            RecordedState::Ended { group, .. } => group.as_ref(),
            RecordedState::Live { .. }
            | RecordedState::NeverRecorded
            | RecordedState::Damaged { .. }
            | RecordedState::TooNew { .. }
            | RecordedState::Unreadable { .. } => None,
        }
    }

    /// Returns the shims that live and keep a task.
    fn live_shims(&self) -> impl Iterator<Item = ProcRef> {
        self.tasks.values().filter_map(|standing| match standing {
            RecordedState::Live { shim, .. } if procfs::is_running(*shim) => Some(*shim),
            RecordedState::Live { .. }
            | RecordedState::Ended { .. }
            | RecordedState::NeverRecorded
            | RecordedState::Damaged { .. }
            | RecordedState::TooNew { .. }
            | RecordedState::Unreadable { .. } => None,
        })
    }
}

fn survey_all(root: &StateDir) -> Result<TaskSurvey, ReapError> {
    survey_tasks(root, root.all_tasks()?)
}

fn survey_tasks(
    root: &StateDir,
    ids: impl IntoIterator<Item = TaskId>,
) -> Result<TaskSurvey, ReapError> {
    let boot = procfs::boot_id()?;
    let tasks = ids.into_iter().filter_map(|id| Some((id, read_recorded_state(root, id)?)));
    Ok(TaskSurvey { boot, tasks: tasks.collect() })
}

/// Returns where a task stands, `None` when somebody has removed it.
fn read_recorded_state(root: &StateDir, id: TaskId) -> Option<RecordedState> {
    let read = match root.task_dir(id) {
        Err(StoreError::NoSuchTask { .. }) => return None,
        Err(StoreError::Io { source, .. }) => return Some(RecordedState::Unreadable { source }),
        Err(_) => return Some(RecordedState::Unreadable { source: io::ErrorKind::Other.into() }),
        Ok(dir) => dir.read_notices(),
    };
    Some(match read {
        Ok(TaskNotices { state, .. }) if state.is_live() => RecordedState::Live {
            shim: state.shim,
            keep: state.spec.keep,
            session: state.spec.session_id,
        },
        Ok(TaskNotices { state, notices }) => RecordedState::Ended {
            shim: state.shim,
            at: state.ended_wall(),
            notices: notices.iter().map(|notice| notice.id).collect(),
            group: TaskGroup::from_task(&state).filter(TaskGroup::exists),
            released: matches!(
                state.lifecycle.phase(),
                Phase::Ended { outcome: Outcome::Released { .. }, .. }
            ),
            session: state.spec.session_id,
        },
        Err(JournalReadError::Io(source)) => RecordedState::Unreadable { source },
        Err(JournalReadError::Content(JournalError::Empty)) => RecordedState::NeverRecorded,
        Err(JournalReadError::Content(why @ JournalError::TooNew { .. })) => {
            RecordedState::TooNew { why }
        }
        Err(JournalReadError::Content(why @ JournalError::Corrupt { .. })) => {
            RecordedState::Damaged { why }
        }
    })
}

/// Returns the tasks whose session is over and whose shims are about to stop them. A shim that does
/// not run counts where `will_have_one`.
fn tasks_being_stopped(
    root: &StateDir,
    survey: &TaskSurvey,
    will_have_one: impl Fn(TaskId) -> bool,
) -> Vec<ReapStep> {
    let mut over: HashMap<&SessionId, bool> = HashMap::new();
    let mut steps = Vec::new();
    for (id, standing) in &survey.tasks {
        let RecordedState::Live { shim, session, keep: false } = standing else { continue };
        if session.is_implicit() || !(procfs::is_running(*shim) || will_have_one(*id)) {
            continue;
        }
        // That is how its shims see it.
        let is_over =
            over.entry(session).or_insert_with(|| session::is_ended(root, session, &survey.boot));
        if *is_over {
            steps.push(ReapStep::Leaving {
                task_id: *id,
                session_id: session.clone(),
                outcome: None,
            });
        }
    }
    steps
}
