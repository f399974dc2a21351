//! `siding ps`: which tasks there are.

use std::collections::HashSet;
use std::process::ExitCode;

use siding_core::journal_file::ReadError;
use siding_core::store::{Root, StoreError};
use siding_core::view::{self, Detail};
use siding_model::id::{SessionId, TaskId};
use siding_model::report::TaskView;

use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::paint::Colour;
use crate::render::{self, out};

/// Ended tasks that are listed without --all.
const RECENT: usize = 10;
/// Threads that read journals. More find no more processors on most machines that agents run on.
const THREADS: usize = 4;

/// Lists tasks: those that run, and those that ended last.
///
/// First a new shim is put in place where one was killed, so nothing is said to run that does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding ps                 what runs, and the ten that ended last
  siding ps --all           everything that is kept
  siding ps --running       what runs
  siding ps --session S     of one session
  siding ps --json          everything that is kept, as a list; --running for less")]
pub(crate) struct Args {
    /// Every task that is kept
    #[arg(long, conflicts_with = "running")]
    all: bool,
    /// Only tasks that have not ended
    #[arg(long)]
    running: bool,
    /// Only the tasks of this session
    #[arg(long, value_name = "S")]
    session: Option<SessionId>,
    /// Print JSON: a list of tasks, without the text of their output
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let mut failed = recover(&root)?;
        let mut views = self.read(&root, &mut failed)?;
        if let Some(session) = &self.session {
            views.retain(|view| view.session_id == *session);
        }
        if self.running {
            views.retain(|view| view.outcome.is_none());
        }
        sort(&mut views);
        if self.json {
            render::json::print(&views)?;
        } else {
            self.print(&views)?;
        }
        Ok(if failed { ExitCode::from(exit::OWN_FAILURE) } else { ExitCode::SUCCESS })
    }

    fn read(&self, root: &Root, failed: &mut bool) -> Result<Vec<TaskView>, Failure> {
        let live: HashSet<TaskId> = root.live_tasks()?.into_iter().collect();
        let ids = if self.running { live.iter().copied().collect() } else { root.all_tasks()? };
        let (views, unreadable) = read_all(root, &ids, &live);
        for (id, error) in unreadable {
            *failed |= !report(root, id, &error);
        }
        Ok(views)
    }

    fn print(&self, views: &[TaskView]) -> Result<(), Failure> {
        let ended_from =
            views.iter().position(|view| view.outcome.is_some()).unwrap_or(views.len());
        let shown = if self.all { views.len() } else { views.len().min(ended_from + RECENT) };
        if views.is_empty() {
            eprintln!("siding: no tasks; `siding run -- COMMAND` starts one");
            return Ok(());
        }
        out::print(&render::table(&views[..shown], Colour::of_stdout()))?;
        if shown < views.len() {
            eprintln!("siding: {} more have ended; --all lists them", views.len() - shown);
        }
        Ok(())
    }
}

/// Puts new shims in place where old ones were killed. Returns whether something failed.
fn recover(root: &Root) -> Result<bool, Failure> {
    let mut failed = false;
    context::recovery(root)?.all(|id, found| match found {
        Ok(found) => context::say(id, &found),
        Err(error) => {
            failed = true;
            Failure::from(error).report();
        }
    })?;
    Ok(failed)
}

/// What cannot be listed, and why.
type Unreadable = (TaskId, ReadError);

/// Reads all tasks, each by itself: one that cannot be read hides no other.
fn read_all(
    root: &Root,
    ids: &[TaskId],
    live: &HashSet<TaskId>,
) -> (Vec<TaskView>, Vec<Unreadable>) {
    let lanes = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let share = ids.len().div_ceil(lanes).max(1);
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = ids
            .chunks(share)
            .map(|ids| scope.spawn(move || ids.iter().map(|id| read_one(root, *id, live)).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| match thread.join() {
                Ok(results) => results,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    });
    let mut views = Vec::with_capacity(ids.len());
    let mut unreadable = Vec::new();
    for part in parts {
        match part {
            Ok(Some(view)) => views.push(view),
            Ok(None) => {}
            Err(problem) => unreadable.push(problem),
        }
    }
    (views, unreadable)
}

/// Returns `None` for a task that was removed meanwhile.
fn read_one(
    root: &Root,
    id: TaskId,
    live: &HashSet<TaskId>,
) -> Result<Option<TaskView>, Unreadable> {
    let dir = match root.task(id) {
        Ok(dir) => dir,
        Err(StoreError::NoSuchTask { .. }) => return Ok(None),
        Err(StoreError::Io { source, .. }) => return Err((id, source.into())),
        Err(_) => return Ok(None),
    };
    let folded = dir.read().map_err(|error| (id, error))?;
    let detail = if live.contains(&id) { Detail::Full } else { Detail::Brief };
    Ok(Some(view::of(root, &dir, &folded.state, detail)))
}

/// Sets an unreadable journal aside, or says why it is left. Returns whether that went well.
fn report(root: &Root, id: TaskId, error: &ReadError) -> bool {
    let result = match error {
        ReadError::Io(error) => Err(Failure::new(format!("task {id}: could not read it: {error}"))),
        ReadError::Content(_) => {
            context::recover(root, id)
        }
    };
    result.map_err(|failure| failure.report()).is_ok()
}

/// What runs first, the newest on top; then what has ended, the last on top.
fn sort(views: &mut [TaskView]) {
    views.sort_by(|a, b| {
        let rank = |view: &TaskView| view.outcome.is_some();
        let moment = |view: &TaskView| view.ended_at.clone().unwrap_or_else(|| view.started_at.clone());
        rank(a).cmp(&rank(b)).then_with(|| moment(b).cmp(&moment(a))).then(a.task_id.cmp(&b.task_id))
    });
}
