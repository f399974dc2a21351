//! Inputs of the metrics: the journals and acknowledgements of kept tasks, and disk use.
//!
//! Nothing here takes a lock, repairs a task or scans `/proc`, so that frequent reads do not disturb
//! the tasks.

use std::collections::{HashMap, HashSet};

use siding_model::evidence::WhyVerdict;
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::{JournalError, TaskState};
use siding_model::metrics::{CounterName, KeptTask, KeptTotals, StateDirectoryBytes, Tally};
use siding_model::notice::{Consumer, TaskNotices};
use siding_model::size::Bytes;

use crate::notices::Acks;
use crate::output::OutputSize;
use crate::store::journal_file::{self, JournalReadError};
use crate::store::{OLD_QUARANTINE_DIR, QUARANTINE_DIR, StateDir, StoreError, TASKS_DIR, TaskDir};
use crate::sys::file;
use crate::task::listing;
use crate::upkeep::reap;

/// Maximum number of entries that are counted below each directory of the state directory.
const MAX_ENTRIES: usize = 1_000_000;

/// Reads the state of a task and its counts.
///
/// # Errors
///
/// [`JournalReadError`].
pub fn read_tally(dir: &TaskDir) -> Result<(TaskState, Tally), JournalReadError> {
    tally_journal(dir, &journal_file::read_bytes(dir)?)
}

/// Counts the records of a task, and the output of a task without a final record.
fn tally_journal(dir: &TaskDir, bytes: &[u8]) -> Result<(TaskState, Tally), JournalReadError> {
    let (state, mut tally) = Tally::from_journal(bytes)?;
    if state.closed.is_none() {
        tally.add_count(CounterName::OutputBytes, "", written_bytes(dir, &state));
    }
    Ok((state, tally))
}

fn written_bytes(dir: &TaskDir, state: &TaskState) -> u64 {
    match &state.closed {
        Some(closed) => closed.output.bytes,
        None => OutputSize::measure(dir, state.spec.keep_head).bytes,
    }
}

/// The facts from a task's journal. The acknowledgements of `session` then show which of `notices`
/// are pending.
struct ReadTask {
    session: SessionId,
    notices: TaskNotices,
    uncounted: Option<Tally>,
    stalled: Option<WhyVerdict>,
}

/// Reads all kept tasks. `counted` are the tasks whose counts the history contains.
///
/// # Errors
///
/// [`StoreError::Io`] if the tasks cannot be listed.
pub fn read_kept(root: &StateDir, counted: &HashSet<TaskId>) -> Result<KeptTotals, StoreError> {
    let ids = root.all_tasks()?;
    let read = listing::map_in_threads(&ids, |ids| {
        ids.iter().map(|id| read_task(root, *id, counted.contains(id))).collect()
    });
    let mut totals = KeptTotals::default();
    let mut acks: HashMap<SessionId, Acks> = HashMap::new();
    for task in read {
        let Ok(task) = task else {
            totals.add_unreadable();
            continue;
        };
        let Some(task) = task else { continue };
        // Without readable acknowledgements, every notice counts as pending: the agent also
        // receives it again.
        let acks = acks
            .entry(task.session.clone())
            .or_insert_with(|| Acks::read(root, &task.session).unwrap_or_default());
        totals.add_task(&summarize(task, acks));
    }
    Ok(totals)
}

/// Reads one task; `None` if the task was removed or has no record yet.
fn read_task(
    root: &StateDir,
    id: TaskId,
    is_counted: bool,
) -> Result<Option<ReadTask>, JournalReadError> {
    let dir = match root.task_dir(id) {
        Ok(dir) => dir,
        Err(StoreError::Io { source, .. }) => return Err(source.into()),
        Err(_) => return Ok(None),
    };
    let bytes = match journal_file::read_bytes(&dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        result => result?,
    };
    let notices = match TaskNotices::from_journal(&bytes) {
        Err(JournalError::Empty) => return Ok(None),
        result => result?,
    };
    let uncounted = if is_counted { None } else { Some(tally_journal(&dir, &bytes)?.1) };
    let state = &notices.state;
    let stall = state.stall.as_ref().filter(|_| state.is_live());
    let stalled = stall
        .filter(|stall| stall.output_bytes >= written_bytes(&dir, state))
        .map(|stall| stall.evidence.verdict);
    let session = state.spec.session_id.clone();
    Ok(Some(ReadTask { session, notices, uncounted, stalled }))
}

fn summarize(task: ReadTask, acks: &Acks) -> KeptTask {
    let agent = Consumer::agent();
    let TaskNotices { state, notices } = task.notices;
    let pending = notices.iter().filter(|notice| !acks.is_acknowledged(&agent, notice.id));
    KeptTask {
        phase: state.lifecycle.phase().into(),
        outcome: state.lifecycle.outcome().cloned(),
        stalled: task.stalled,
        pending: pending.map(|notice| notice.event.kind()).collect(),
        delivered: notices.iter().flat_map(|notice| acks.deliveries(notice.id)).collect(),
        uncounted: task.uncounted,
    }
}

/// Returns the disk space of the state directory. `history_file` is the name of the database, whose
/// further files have names that begin with it. Files that cannot be read count as empty.
///
/// # Errors
///
/// [`StoreError::Io`] if the tasks cannot be listed.
pub fn state_directory_bytes(
    root: &StateDir,
    history_file: &str,
    max_tasks: Bytes,
) -> Result<StateDirectoryBytes, StoreError> {
    let ids = root.all_tasks()?;
    let mut bytes = StateDirectoryBytes { max_tasks: max_tasks.0, ..Default::default() };
    bytes.tasks = ids.iter().map(|id| reap::stored_bytes(root, *id)).sum();
    for name in file::list_names(root).unwrap_or_default() {
        // The tasks are counted above, without the walk below their directory.
        if name == TASKS_DIR {
            continue;
        }
        let directory = file::open_at(root, &name, file::OpenMode::Directory).ok();
        let size = directory.map_or(0, |directory| file::allocated_below(directory, MAX_ENTRIES))
            + file::metadata_at(root, &name).map_or(0, |facts| facts.allocated_bytes);
        match name.as_str() {
            QUARANTINE_DIR | OLD_QUARANTINE_DIR => bytes.quarantine += size,
            name if name.starts_with(history_file) => bytes.history += size,
            _ => bytes.other += size,
        }
    }
    Ok(bytes)
}
