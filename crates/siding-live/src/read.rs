//! Reads tasks from their journals.

use siding_core::parallel;
use siding_core::store::journal_file::JournalReadError;
use siding_core::store::{StateDir, StoreError, TaskDir};
use siding_core::task::view::{self, ViewDetail};
use siding_model::id::TaskId;
use siding_model::journal::JournalError;
use siding_model::notice::TaskNotices;
use siding_model::process::{BootId, MonotonicMs};

use crate::task::{LiveNotice, LiveTask};

/// Maximum number of reader threads. More threads are not faster, because half of the work is in
/// the kernel.
const READER_THREADS: usize = 4;
/// Number of tasks that a thread reads at a time. Starting a thread takes longer than reading so
/// few tasks.
const TASKS_PER_CHUNK: usize = 32;

/// The result of reading a task.
#[derive(Debug)]
pub(crate) enum TaskReading {
    /// The task, without the usage, the expected duration, the number of unread notices and the
    /// need for a person.
    Task(Box<LiveTask>),
    /// The task is being created, or its creation was interrupted.
    Unrecorded,
    /// The task does not exist.
    Removed,
    /// The journal is damaged, has a newer format, or could not be read.
    Unreadable(String),
}

/// Reads tasks, in several threads if there are many. Returns them in the order of `ids`.
pub(crate) fn read_tasks(
    root: &StateDir,
    ids: &[TaskId],
    boot: &BootId,
    now: MonotonicMs,
) -> Vec<(TaskId, TaskReading)> {
    let chunks: Vec<&[TaskId]> = ids.chunks(TASKS_PER_CHUNK).collect();
    // The number of CPUs is determined only if it matters, because this reads several files.
    let threads = match chunks.len() {
        0 | 1 => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from).min(READER_THREADS),
    };
    let read_chunk = |chunk: &&[TaskId]| -> Vec<(TaskId, TaskReading)> {
        chunk.iter().map(|id| (*id, read_task(root, *id, boot, now))).collect()
    };
    parallel::map(&chunks, threads, read_chunk).into_iter().flatten().collect()
}

fn read_task(root: &StateDir, id: TaskId, boot: &BootId, now: MonotonicMs) -> TaskReading {
    let dir = match root.task_dir(id) {
        Ok(dir) => dir,
        Err(StoreError::NoSuchTask { .. }) => return TaskReading::Removed,
        Err(error) => return TaskReading::Unreadable(error.to_string()),
    };
    match dir.read_notices() {
        Ok(read) if read.state.spec.task_id == id => {
            TaskReading::Task(Box::new(build_task(root, &dir, read, boot, now)))
        }
        Ok(read) => {
            let other = read.state.spec.task_id;
            TaskReading::Unreadable(format!("its journal is that of task {other}"))
        }
        // The task was removed after its directory was opened.
        Err(_) if matches!(root.task_dir(id), Err(StoreError::NoSuchTask { .. })) => {
            TaskReading::Removed
        }
        Err(JournalReadError::Content(JournalError::Empty)) => TaskReading::Unrecorded,
        Err(error) => TaskReading::Unreadable(error.to_string()),
    }
}

fn build_task(
    root: &StateDir,
    dir: &TaskDir,
    read: TaskNotices,
    boot: &BootId,
    now: MonotonicMs,
) -> LiveTask {
    let TaskNotices { state, notices } = read;
    let view = view::closed_task_view(root, &state)
        .unwrap_or_else(|| view::task_view(root, dir, &state, ViewDetail::Brief));
    let notice = |notice| LiveNotice::new(notice, &state, boot, now);
    LiveTask {
        notices: notices.iter().map(notice).collect(),
        other_machine: dir.other_machine().map(str::to_owned),
        state: state.is_live().then(|| Box::new(state)),
        ..LiveTask::from_view(view)
    }
}
