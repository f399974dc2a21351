//! Removes control groups of ended tasks, tasks past their retention, unrecorded tasks and stale
//! claims.

use std::collections::{HashMap, HashSet};

use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeId};
use siding_model::retention::{self, EndedTask, RetentionLimits, UnreadNotices};
use siding_model::size::Bytes;

use super::{ReapError, ReapStep, RecordedState, TaskSurvey};
use crate::notices::Acks;
use crate::processes::cgroup::TaskGroup;
use crate::session;
use crate::store::{
    DEDUP_DIR, LockedTask, OLD_DEDUP_DIR, OLD_QUARANTINE_DIR, QUARANTINE_DIR, StateDir, StoreError,
};
use crate::sys::{clock, file, procfs};
use crate::task::recover::is_being_created;

/// Maximum number of entries of a task's directory whose disk space is counted. siding creates about
/// ten.
const MAX_TASK_ENTRIES: usize = 10_000;

/// Removes the control groups that ended tasks have left.
pub(super) fn remove_leftover_groups(root: &StateDir, survey: &TaskSurvey) -> Vec<ReapStep> {
    let left = leftover_groups(root, survey).into_iter();
    let gone = left.filter(|(_, group)| group.remove());
    gone.map(|(task_id, _)| ReapStep::Cleared { task_id }).collect()
}

/// Returns the empty control groups of ended tasks. Two kinds are omitted. The group of a task with
/// a live marker is removed together with the marker, and a shim that is about to exit removes the
/// group of its task.
pub(super) fn leftover_groups<'s>(
    root: &StateDir,
    survey: &'s TaskSurvey,
) -> Vec<(TaskId, &'s TaskGroup)> {
    let left = |(id, standing): (&TaskId, &'s RecordedState)| match standing {
        RecordedState::Ended { shim, group: Some(group), .. } => {
            let is_left = !root.is_marked_live(*id) && !procfs::is_running(*shim);
            (is_left && !group.is_populated()).then_some((*id, group))
        }
        RecordedState::Ended { .. }
        | RecordedState::Live { .. }
        | RecordedState::NeverRecorded
        | RecordedState::Damaged { .. }
        | RecordedState::TooNew { .. }
        | RecordedState::Unreadable { .. } => None,
    };
    survey.tasks.iter().filter_map(left).collect()
}

/// Removes ended tasks that are past their retention, after calling `before` if there are any.
/// Tasks in `kept`, which may still have processes, are not removed.
pub(super) fn remove_expired_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    kept: &HashSet<TaskId>,
    limits: &RetentionLimits,
    before: impl FnOnce(),
) -> Vec<ReapStep> {
    let remove = |step: ReapStep| {
        let ReapStep::Expired { task_id, .. } = step else { return Some(step) };
        match remove_task_if(root, task_id, |_| true) {
            Ok(true) => Some(step),
            // The task's shim is about to exit, so the next run removes the task; or another
            // process has removed it.
            Ok(false) | Err(StoreError::NoSuchTask { .. }) => None,
            Err(error) => Some(failed_step(task_id, &error)),
        }
    };
    let expiring = plan_expired_tasks(root, survey, kept, limits);
    if !expiring.is_empty() {
        before();
    }
    expiring.into_iter().filter_map(remove).collect()
}

/// Returns the steps for the tasks that [`remove_expired_tasks`] would remove, the oldest task
/// first.
pub(super) fn plan_expired_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    kept: &HashSet<TaskId>,
    limits: &RetentionLimits,
) -> Vec<ReapStep> {
    let ended = ended_tasks(root, survey, kept);
    let by_id: HashMap<TaskId, &EndedTask<TaskId>> =
        ended.iter().map(|task| (task.id, task)).collect();
    let expired = retention::expired_tasks(&ended, limits, clock::unix_now());
    expired.iter().filter_map(|id| by_id.get(id)).map(|task| expired_step(task)).collect()
}

fn ended_tasks(
    root: &StateDir,
    survey: &TaskSurvey,
    kept: &HashSet<TaskId>,
) -> Vec<EndedTask<TaskId>> {
    let mut sessions = SessionCache { root, survey, known: HashMap::new() };
    let task = |(id, standing): (&TaskId, &RecordedState)| match standing {
        RecordedState::Ended { at, session, notices: news, .. } => Some(EndedTask {
            id: *id,
            ended_at: *at,
            bytes: Bytes(stored_bytes(root, *id)),
            must_be_kept: kept.contains(id),
            unread_notices: sessions.undelivered_to(session, news),
        }),
        RecordedState::Live { .. }
        | RecordedState::NeverRecorded
        | RecordedState::Damaged { .. }
        | RecordedState::TooNew { .. }
        | RecordedState::Unreadable { .. } => None,
    };
    survey.tasks.iter().filter_map(task).collect()
}

/// The acknowledgements of sessions, and whether each session lives. Each session is read only
/// once.
struct SessionCache<'s> {
    root: &'s StateDir,
    survey: &'s TaskSurvey,
    known: HashMap<SessionId, (Acks, bool)>,
}

impl SessionCache<'_> {
    /// Returns whether notices of a task are unread, and whether their session lives.
    fn undelivered_to(&mut self, session: &SessionId, news: &[NoticeId]) -> UnreadNotices {
        let (acks, lives) = self.known.entry(session.clone()).or_insert_with(|| {
            let read = session::read(self.root, session).ok().flatten();
            let boot = &self.survey.boot;
            let is_elsewhere = read.is_some_and(|it| it.may_live_elsewhere(boot));
            let lives = is_elsewhere || !session::is_ended(self.root, session, boot);
            // Without acknowledgements, all notices are treated as unread, which only keeps the
            // task longer.
            (Acks::read(self.root, session).unwrap_or_default(), lives)
        });
        let agent = Consumer::agent();
        match (news.iter().all(|id| acks.is_acknowledged(&agent, *id)), lives) {
            (true, _) => UnreadNotices::NoNotices,
            (false, true) => UnreadNotices::ForLiveSession,
            (false, false) => UnreadNotices::ForSession,
        }
    }
}

/// Returns the disk space of the content of a task's directory, in bytes. A task may also write
/// there; see [`file::allocated_below`] about the bounds. Zero if the task was removed or its
/// directory cannot be read.
pub(crate) fn stored_bytes(root: &StateDir, id: TaskId) -> u64 {
    root.task_dir(id).map_or(0, |dir| file::allocated_below(&dir, MAX_TASK_ENTRIES))
}

fn expired_step(task: &EndedTask<TaskId>) -> ReapStep {
    ReapStep::Expired { task_id: task.id, ended_at: task.ended_at.rfc3339(), bytes: task.bytes.0 }
}

/// Removes a task if its lock is free and `still` returns true while the task is locked. Returns
/// whether the task was removed.
fn remove_task_if(
    root: &StateDir,
    id: TaskId,
    still: impl Fn(&crate::store::TaskDir) -> bool,
) -> Result<bool, StoreError> {
    let Some(locked) = try_lock_task(root, id)? else { return Ok(false) };
    if !still(locked.dir()) {
        return Ok(false);
    }
    root.remove_task(&locked)?;
    Ok(true)
}

/// Acquires the lock of a task without waiting; `None` if the lock is not free.
pub(crate) fn try_lock_task(root: &StateDir, id: TaskId) -> Result<Option<LockedTask>, StoreError> {
    let dir = root.task_dir(id)?;
    let path = dir.path().to_owned();
    dir.try_lock().map_err(|source| StoreError::Io { doing: "lock", path, source })
}

/// Removes the directories of tasks that were never recorded.
pub(super) fn remove_unrecorded(root: &StateDir, survey: &TaskSurvey) -> Vec<ReapStep> {
    let mut steps = Vec::new();
    for task_id in unrecorded_tasks(root, survey) {
        match remove_task_if(root, task_id, crate::store::TaskDir::is_unrecorded) {
            Ok(true) => steps.push(ReapStep::NeverStarted { task_id }),
            Ok(false) | Err(StoreError::NoSuchTask { .. }) => {}
            Err(error) => steps.push(failed_step(task_id, &error)),
        }
    }
    steps
}

/// Returns the tasks that were never recorded, are not marked live, and are not being created.
pub(super) fn unrecorded_tasks(root: &StateDir, survey: &TaskSurvey) -> Vec<TaskId> {
    // A directory that cannot be opened is not removed either.
    let is_left = |id: &TaskId| root.task_dir(*id).is_ok_and(|dir| !is_being_created(root, &dir));
    let unborn = survey
        .tasks
        .iter()
        .filter(|(_, standing)| matches!(standing, RecordedState::NeverRecorded));
    let unmarked = unborn.map(|(id, _)| *id).filter(|id| !root.is_marked_live(*id));
    unmarked.filter(is_left).collect()
}

/// Removes claims on commands whose task does not run.
pub(super) fn remove_stale_claims(root: &StateDir) -> Result<Vec<ReapStep>, ReapError> {
    let mut steps = Vec::new();
    for claim in stale_claims(root)? {
        // The claim is read again, because another launch of the same command may just have
        // replaced it.
        if root.remove_claim(&claim.path, &claim.task) {
            steps.push(claim.into_step());
        }
    }
    Ok(steps)
}

/// A claim on a command whose task is not marked live.
pub(super) struct StaleClaim {
    /// Path of the claim below the root.
    path: String,
    name: String,
    /// The target of the link, normally the id of the task that made the claim.
    task: String,
}

impl StaleClaim {
    pub(super) fn into_step(self) -> ReapStep {
        ReapStep::Unclaimed { name: self.name, task: self.task }
    }
}

/// Returns the claims of tasks that are not marked live, including claims that earlier versions of
/// siding made.
pub(super) fn stale_claims(root: &StateDir) -> Result<Vec<StaleClaim>, ReapError> {
    let mut names = path_names(DEDUP_DIR, names_in(root, DEDUP_DIR)?);
    // The directory exists only if an earlier version has used the state directory.
    names.extend(path_names(OLD_DEDUP_DIR, names_in(root, OLD_DEDUP_DIR).unwrap_or_default()));
    let claim = |(path, name): (String, String)| {
        let task = file::read_link(root, &path).ok()?;
        let runs = task.parse().is_ok_and(|id| root.is_marked_live(id));
        (!runs).then_some(StaleClaim { path, name, task })
    };
    Ok(names.into_iter().filter_map(claim).collect())
}

/// Returns the quarantined tasks, with their paths below the root.
pub(super) fn quarantined_tasks(root: &StateDir) -> Vec<(TaskId, String)> {
    // The format of a name is `ID.MILLISECONDS`.
    let parse = |name: &str| name.split('.').next().and_then(|id| id.parse().ok());
    let entries = quarantined_entries(root).into_iter();
    entries.filter_map(|(path, name)| Some((parse(&name)?, path))).collect()
}

/// Returns the path below the root and the name of each quarantined entry.
pub(super) fn quarantined_entries(root: &StateDir) -> Vec<(String, String)> {
    let directories = [QUARANTINE_DIR, OLD_QUARANTINE_DIR];
    let entries = |directory| path_names(directory, names_in(root, directory).unwrap_or_default());
    directories.into_iter().flat_map(entries).collect()
}

/// Returns each name with its path below the root.
fn path_names(directory: &str, names: Vec<String>) -> Vec<(String, String)> {
    names.into_iter().map(|name| (format!("{directory}/{name}"), name)).collect()
}

fn names_in(root: &StateDir, directory: &str) -> Result<Vec<String>, StoreError> {
    file::open_at(root, directory, file::OpenMode::Directory).and_then(file::list_names).map_err(
        |source| StoreError::Io { doing: "list", path: root.path().join(directory), source },
    )
}

fn failed_step(task_id: TaskId, error: &StoreError) -> ReapStep {
    ReapStep::Failed { task_id, why: error.to_string() }
}
