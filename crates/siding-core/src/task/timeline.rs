//! Reads the tasks of a timeline. Takes no lock and repairs nothing, so that no task notices the
//! reader.
//!
//! The read model of siding-live cannot provide them: it keeps the present state of each task, and
//! a timeline consists of the earlier events, which would stay in the memory of every viewer.

use std::collections::BTreeSet;
use std::io;

use siding_model::id::{SessionId, TaskId};
use siding_model::process::UnixMs;
use siding_model::timeline::{SessionParents, TimelineTask};

use crate::session;
use crate::store::journal_file::{self, JournalReadError};
use crate::store::{StateDir, StoreError};
use crate::task::listing::{self, ListedTask};

/// Maximum number of parent sessions that are followed. No chain that siding creates is longer.
const MAX_PARENT_SESSIONS: usize = 32;

/// Reads the tasks that have not ended before `since`. A task that was removed or is being created
/// has no journal, so the result contains `None` or no entry for it.
///
/// # Errors
///
/// [`StoreError::Io`] if the tasks cannot be listed.
pub fn read_tasks(
    root: &StateDir,
    since: UnixMs,
) -> Result<Vec<ListedTask<TimelineTask>>, StoreError> {
    // The journal of a task that ended in the period was written in it. That of a running task may
    // be older.
    let mut ids = listing::written_since(root, root.all_tasks()?, since);
    ids.extend(root.live_tasks()?);
    ids.sort_unstable();
    ids.dedup();
    let mut tasks = listing::map_in_threads(&ids, |ids| {
        ids.iter().map(|id| (*id, read_task(root, *id))).collect()
    });
    tasks.retain(|(_, task): &ListedTask<TimelineTask>| match task {
        Ok(Some(task)) => task.ended_at.is_none_or(|ended| ended >= since),
        Ok(None) | Err(_) => true,
    });
    Ok(tasks)
}

fn read_task(root: &StateDir, id: TaskId) -> Result<Option<TimelineTask>, JournalReadError> {
    let Ok(dir) = root.task_dir(id) else { return Ok(None) };
    let bytes = match journal_file::read_bytes(&dir) {
        // The task was removed after its directory was opened, or has no record yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    match TimelineTask::from_journal(&bytes) {
        Ok(task) if task.task_id == id => Ok(Some(task)),
        // The journal is a copy of another task's.
        Ok(_) => Ok(None),
        // The task was removed after its directory was opened.
        Err(_) if root.task_dir(id).is_err() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the parents of the sessions of these tasks, and the parents of the parents. A session
/// that cannot be read has no parent.
#[must_use]
pub fn read_session_parents(root: &StateDir, tasks: &[TimelineTask]) -> SessionParents {
    let mut parents = SessionParents::new();
    let sessions: BTreeSet<&SessionId> = tasks.iter().map(|task| &task.session_id).collect();
    for session in sessions {
        let mut id = session.clone();
        for _ in 0..MAX_PARENT_SESSIONS {
            if parents.contains_key(&id) {
                break;
            }
            let read = session::read(root, &id).ok().flatten();
            let Some(parent) = read.and_then(|session| session.parent) else { break };
            parents.insert(std::mem::replace(&mut id, parent.clone()), parent);
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use siding_model::id::TaskKind;

    use super::*;

    #[test]
    fn a_task_without_a_journal_is_no_failure() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&temporary.path().join("state")).expect("opens");
        let id = root.new_id(TaskKind::LocalBash).expect("an id");
        let _dir = root.create_task(id).expect("created");
        root.mark_live(id).expect("marked");
        let tasks = read_tasks(&root, UnixMs(0)).expect("listed");
        assert!(matches!(tasks.as_slice(), [(read, Ok(None))] if *read == id), "{tasks:?}");
    }
}
