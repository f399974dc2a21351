//! Cleans up after crashes (tasks without a shim, stray processes, files), and removes data past
//! its retention.
//!
//! With the two exceptions below, all decisions are based on records and locks. A process is a
//! stray only if it belongs, by its mark or control group, to a task whose end is recorded or whose
//! record was set aside. The files of a task are removed only if no process holds the task's lock.
//! Processes and files that belong to another state directory are never touched, because the tasks
//! of that directory have no record here.
//!
//! A process that a host has left carries the mark of the host, which has a record here
//! ([`reap_hosts`]).
//!
//! Two kinds of leftovers are identified without a record. A socket file in a watched directory is
//! removed if no process holds it ([`reap_sockets`]). A process that another program has left is
//! terminated if one of the configured rules selects it ([`reap_unowned`]).

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

use crate::processes::cgroup::TaskGroup;
use crate::processes::tree::BirthmarkScan;
use crate::session;
use crate::store::journal_file::JournalReadError;
use crate::store::{StateDir, StoreError};
use crate::sys::procfs;

pub(crate) use leftovers::{stored_bytes, try_lock_task};
pub(crate) use reap_log::LOG_FILES;

pub use hosts::{end_host, plan_hosts, reap_hosts};
pub use session_shims::await_stopping;
pub use sockets::reap_sockets;
pub use step::{ReapStep, count_by_kind};
pub use unowned::{
    UnownedRules, is_unowned_report_unseen, reap_unowned, reap_unowned_unattended,
    record_unowned_report,
};

/// The reason why a run of the reaper could not be completed.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// The tasks or claims in the state directory could not be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The id of this boot could not be read from `/proc`.
    #[error("could not read this boot's id: {0}; is `/proc` mounted?")]
    Boot(#[from] io::Error),
}

/// Cleans up after crashes, removes data past its retention, and returns the steps in order.
///
/// `program` is executed as the new shim of a task whose shim was killed. If ended tasks are past
/// their retention, `before_removal` is called once, before the first of them is removed. A failure
/// that concerns one task is a [`ReapStep::Failed`] and does not stop the others.
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
    steps.extend(expired::remove_expired_quarantine(root, &kept, limits));
    Ok(steps)
}

/// Cleans up for a caller that cannot wait for [`reap_all`], and returns the steps. A task whose
/// shim is dead gets a new shim or, if none of its processes is left, a record of its end.
/// Terminates processes whose task or host has ended. Reads only tasks with an entry in `live/` and
/// tasks whose birthmark a process carries, so the duration does not depend on the number of ended
/// tasks.
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

/// Returns the steps that [`reap_all`] would take, and changes nothing. Tasks are not locked, so a
/// step that another process is about to take is included.
///
/// # Errors
///
/// [`ReapError`].
pub fn plan_all(root: &StateDir, limits: &RetentionLimits) -> Result<Vec<ReapStep>, ReapError> {
    let mut steps = plan_hosts(root);
    steps.extend(dry_run::plan_steps(root, limits)?);
    Ok(steps)
}

/// Returns the outcome of a task, or `None` if the task has not ended or is unreadable.
fn task_outcome(root: &StateDir, id: TaskId) -> Option<Outcome> {
    let folded = root.task_dir(id).ok()?.read().ok()?;
    folded.state.lifecycle.outcome().cloned()
}

/// The recorded state of a task, as far as the reaper needs it. Specifications are not retained,
/// because a command line may be several megabytes long.
#[derive(Debug)]
enum RecordedState {
    /// The task has not ended.
    Live { shim: ProcRef, session: SessionId, keep: bool },
    /// The task has ended. `group` is the task's control group, if the group still exists. If the
    /// task was `released`, or ran on another machine, the processes that carry its mark must not be
    /// terminated: in the second case they belong to the ssh connection that all tasks of the
    /// machine share.
    Ended {
        shim: ProcRef,
        at: UnixMs,
        session: SessionId,
        notices: Vec<NoticeId>,
        group: Option<TaskGroup>,
        keeps_marked_processes: bool,
    },
    /// The journal is missing or contains no record: the task is being started, or its command
    /// never ran.
    NeverRecorded,
    /// The journal contains an invalid record.
    Damaged { why: JournalError },
    /// A newer version of siding wrote the journal.
    TooNew { why: JournalError },
    /// The task's directory or journal could not be read, so the state is unknown.
    Unreadable { source: io::Error },
}

/// The recorded states of the surveyed tasks, and the id of this boot.
#[derive(Debug)]
struct TaskSurvey {
    boot: BootId,
    tasks: BTreeMap<TaskId, RecordedState>,
}

impl TaskSurvey {
    /// Returns the control group that an ended task has left behind.
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

    /// Returns the running shims of the tasks that have not ended.
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

/// Returns the recorded state of a task, or `None` if another process has removed the task.
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
            keeps_marked_processes: state.spec.is_remote()
                || matches!(
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

/// Returns the steps for the tasks whose session has ended and whose shims are about to stop them.
/// A task without a running shim is included if `will_have_one` returns true, which means that a
/// new shim is about to be started for the task.
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
        // The shim of each of these tasks checks the same condition before it stops the task.
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
