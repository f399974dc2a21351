//! Removes sessions that ended long ago, and data that was set aside long ago.
//!
//! A session is removed if three conditions hold. It is not live: it was closed, or its owners are
//! dead or of an earlier boot. No recorded task belongs to it. Its last activity is longer ago than
//! ended tasks are kept, or twice as long if the session may be live on another machine or in
//! another PID namespace. A session is kept as long as any of its tasks, even an ended one, because
//! the notices of the task would be delivered again without the session's acknowledgements.
//!
//! The age of data that was set aside is computed from the time in its name, which siding wrote.
//! The data of a task is kept while a process still carries the mark of that task.

use std::collections::HashSet;

use siding_model::id::{SessionId, TaskId};
use siding_model::process::UnixMs;
use siding_model::retention::{self, RetentionLimits};

use super::leftovers::quarantined_entries;
use super::{ReapStep, RecordedState, TaskSurvey};
use crate::session;
use crate::store::StateDir;
use crate::sys::{clock, system_info};

/// A session that has ended and has no task.
#[derive(Debug)]
pub(super) struct ExpiredSession {
    id: SessionId,
    /// Time of the session's last record or of the last change of its directory, whichever is
    /// later.
    last_activity: UnixMs,
}

impl ExpiredSession {
    pub(super) fn to_step(&self) -> ReapStep {
        ReapStep::SessionExpired {
            session_id: self.id.clone(),
            last_at: self.last_activity.rfc3339(),
        }
    }
}

/// Removes the files of sessions that ended long ago. A session that is reopened in the meantime is
/// kept.
pub(super) fn remove_expired_sessions(
    root: &StateDir,
    survey: &TaskSurvey,
    limits: &RetentionLimits,
) -> Vec<ReapStep> {
    let remove = |over: ExpiredSession| {
        let still = || expired_since(root, survey, &over.id, limits).is_some();
        match root.remove_session(over.id.as_str(), still) {
            Ok(true) => Some(over.to_step()),
            // The session was opened again, was removed by another process, or cannot be removed,
            // which does no harm.
            Ok(false) | Err(_) => None,
        }
    };
    find_expired_sessions(root, survey, limits).into_iter().filter_map(remove).collect()
}

/// Returns the sessions that [`remove_expired_sessions`] would remove.
pub(super) fn find_expired_sessions(
    root: &StateDir,
    survey: &TaskSurvey,
    limits: &RetentionLimits,
) -> Vec<ExpiredSession> {
    // A task whose session is unknown may be owned by any session, so no session is removed then.
    let owners: Option<HashSet<&SessionId>> = survey.tasks.values().map(owning_session).collect();
    let Some(owners) = owners else { return Vec::new() };
    let names = root.session_names().unwrap_or_default();
    // siding creates no directory whose name is not a session's id.
    let ids = names.into_iter().filter_map(|name| name.parse::<SessionId>().ok());
    ids.filter(|id| !id.is_implicit() && !owners.contains(id))
        .filter_map(|id| {
            expired_since(root, survey, &id, limits)
                .map(|last| ExpiredSession { id, last_activity: last })
        })
        .collect()
}

/// Returns the session of a task, or `None` if the session is unknown.
fn owning_session(standing: &RecordedState) -> Option<&SessionId> {
    match standing {
        RecordedState::Live { session, .. } | RecordedState::Ended { session, .. } => Some(session),
        RecordedState::NeverRecorded
        | RecordedState::Damaged { .. }
        | RecordedState::TooNew { .. }
        | RecordedState::Unreadable { .. } => None,
    }
}

/// Returns the time of a session's last activity, if the session ended long enough ago.
fn expired_since(
    root: &StateDir,
    survey: &TaskSurvey,
    id: &SessionId,
    limits: &RetentionLimits,
) -> Option<UnixMs> {
    // An unreadable session is kept for a person to inspect, or for the newer version of siding
    // that wrote it.
    let session = session::read(root, id).ok()?;
    let boot = &survey.boot;
    if session.as_ref().is_some_and(|it| it.is_live(boot)) {
        return None;
    }
    // This machine cannot see whether a session of another machine lives. Any use of the session
    // changes its directory, so the session is kept for twice the time after the last change.
    let is_elsewhere = session.as_ref().is_some_and(|it| it.may_live_elsewhere(boot));
    let age = if is_elsewhere { limits.age.saturating_mul(2) } else { limits.age };
    // The end of an owner is not recorded, so the directory must be old too. A session without a
    // record has only a directory, which the delivery of notices has created.
    let dir = root.session_dir(id.as_str(), false).ok()?;
    let changed = system_info::changed_at(&dir).ok()?;
    let last = session.map_or(changed, |session| session.last_activity.max(changed));
    retention::is_older_than(last, age, clock::unix_now()).then_some(last)
}

/// An entry that was set aside so long ago that it is to be removed.
#[derive(Debug)]
pub(super) struct ExpiredQuarantine {
    /// Path of the entry below the state directory.
    path: String,
    quarantined_at: UnixMs,
}

impl ExpiredQuarantine {
    pub(super) fn to_step(&self) -> ReapStep {
        ReapStep::QuarantineExpired {
            path: self.path.clone(),
            quarantined_at: self.quarantined_at.rfc3339(),
        }
    }
}

/// Removes entries that were set aside long ago. Those of tasks in `kept`, which may still have
/// processes, are not removed.
pub(super) fn remove_expired_quarantine(
    root: &StateDir,
    kept: &HashSet<TaskId>,
    limits: &RetentionLimits,
) -> Vec<ReapStep> {
    let remove = |old: ExpiredQuarantine| match root.remove_quarantined(&old.path) {
        Ok(()) => Some(old.to_step()),
        // The entry was removed by another process, or cannot be removed, which does no harm.
        Err(_) => None,
    };
    find_expired_quarantine(root, kept, limits).into_iter().filter_map(remove).collect()
}

/// Returns the entries that [`remove_expired_quarantine`] would remove.
pub(super) fn find_expired_quarantine(
    root: &StateDir,
    kept: &HashSet<TaskId>,
    limits: &RetentionLimits,
) -> Vec<ExpiredQuarantine> {
    let now = clock::unix_now();
    // `NAME.MILLISECONDS`; siding creates no entry with another name.
    let parse = |(path, name): (String, String)| {
        let (what, at) = name.rsplit_once('.')?;
        let at = UnixMs(at.parse().ok().filter(|at| *at > 0)?);
        let is_held = what.parse().is_ok_and(|id| kept.contains(&id));
        (!is_held && retention::is_older_than(at, limits.age, now))
            .then_some(ExpiredQuarantine { path, quarantined_at: at })
    };
    quarantined_entries(root).into_iter().filter_map(parse).collect()
}
