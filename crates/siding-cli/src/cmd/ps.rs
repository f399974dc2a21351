//! `siding ps`: which tasks there are.

use std::process::ExitCode;

use siding_core::journal_file::ReadError;
use siding_core::listing;
use siding_core::store::Root;
use siding_model::id::{SessionId, TaskId};
use siding_model::report::TaskView;

use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::past;
use crate::render::paint::Colour;
use crate::render::{self, out};

/// Ended tasks that are listed without --all.
const RECENT: usize = 10;
/// Ended tasks of which those are chosen, by the time of their end.
const LOOKED_AT: usize = 64;

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
  siding ps --json          all that is kept, as a list; --running for less")]
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
        let recovered = recover(&root)?;
        let Found { mut views, unopened, unread } = self.look(&root)?;
        if let Some(session) = &self.session {
            views.retain(|view| view.session_id == *session);
        }
        if self.running {
            views.retain(|view| view.outcome.is_none());
        }
        sort(&mut views);
        past::expect(&root, &mut views);
        if self.json {
            render::json::print_list(&views)?;
        } else {
            self.print(&views, unopened)?;
        }
        Ok(if recovered && unread == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(exit::OWN_FAILURE)
        })
    }

    fn look(&self, root: &Root) -> Result<Found, Failure> {
        let live = root.live_tasks()?;
        let mut ids = if self.running { Vec::new() } else { root.all_tasks()? };
        let kept = ids.len();
        if self.is_short() {
            // Most journals need not even be opened for the few that are shown.
            ids = listing::latest(root, ids, LOOKED_AT);
        }
        ids.extend(live);
        ids.sort_unstable();
        ids.dedup();
        let unopened = kept.saturating_sub(ids.len());
        let mut found = Found { views: Vec::with_capacity(ids.len()), unopened, unread: 0 };
        for (id, view) in listing::views(root, &ids)? {
            match view {
                Ok(view) => found.views.extend(view),
                Err(error) => {
                    found.unread += usize::from(report(root, id, &error) == Report::Failed)
                }
            }
        }
        Ok(found)
    }

    /// Whether only the last of those that have ended are shown.
    const fn is_short(&self) -> bool {
        !self.all && !self.json && !self.running && self.session.is_none()
    }

    fn print(&self, views: &[TaskView], unopened: usize) -> Result<(), Failure> {
        if views.is_empty() {
            eprintln!("siding: no tasks; `siding run -- COMMAND` starts one");
            return Ok(());
        }
        let running = views.iter().take_while(|view| view.outcome.is_none()).count();
        let shown = if self.is_short() { views.len().min(running + RECENT) } else { views.len() };
        out::print(&render::table(&views[..shown], Colour::of_stdout()))?;
        let more = unopened + views.len() - shown;
        if more > 0 {
            eprintln!("siding: {more} more have ended; --all lists them");
        }
        Ok(())
    }
}

/// What there is.
struct Found {
    views: Vec<TaskView>,
    /// Tasks that ended so long ago that they were not looked at.
    unopened: usize,
    /// Tasks that could not be read.
    unread: usize,
}

/// Puts new shims in place where old ones were killed. Returns whether all of it went well.
fn recover(root: &Root) -> Result<bool, Failure> {
    let mut went_well = true;
    context::recovery(root)?.all(|id, found| match found {
        Ok(found) => context::say(id, &found),
        Err(error) => {
            went_well = false;
            Failure::from(error).report();
        }
    })?;
    Ok(went_well)
}

/// What became of a task that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Report {
    /// It was set aside, or is left for a newer siding, and that was said.
    Told,
    /// Not even that.
    Failed,
}

fn report(root: &Root, id: TaskId, error: &ReadError) -> Report {
    let result = match error {
        ReadError::Io(error) => Err(Failure::new(format!("task {id}: could not read it: {error}"))),
        ReadError::Content(_) => context::recover(root, id),
    };
    match result {
        Ok(()) => Report::Told,
        Err(failure) => {
            failure.report();
            Report::Failed
        }
    }
}

/// What runs first, the newest on top; then what has ended, the last on top.
fn sort(views: &mut [TaskView]) {
    views.sort_by(|a, b| {
        fn moment(view: &TaskView) -> &str {
            view.ended_at.as_deref().unwrap_or(&view.started_at)
        }
        let ended = a.outcome.is_some().cmp(&b.outcome.is_some());
        ended.then_with(|| moment(b).cmp(moment(a))).then_with(|| a.task_id.cmp(&b.task_id))
    });
}
