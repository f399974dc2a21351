//! `siding ps`: lists tasks.

mod person;
mod remote;
mod watch;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::process::ExitCode;

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::store::journal_file::JournalReadError;
use siding_core::task::listing;
use siding_model::id::{SessionId, TaskId};
use siding_model::task_view::TaskView;

use self::person::ListScope;
use crate::caller;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::{self, out};
use crate::run_history;
use crate::stdout;

/// Maximum number of ended tasks in the table, unless `--all` or `--session` is given.
const SHOWN_ENDED_TASKS: usize = 10;
/// Maximum number of ended tasks whose journals are read to find the `SHOWN_ENDED_TASKS` that ended
/// last.
const ENDED_CANDIDATES: usize = 64;

/// The text for an empty list.
const NO_TASKS: &str = "no tasks; `siding run -- COMMAND` starts one";

/// Lists tasks: those that run, and those that ended last.
///
/// At a person's terminal, tasks that need attention are at the top: tasks that wait for input, will
/// soon reach their deadline or exceed a limit, and failed tasks whose end was not shown yet. All
/// other ended tasks are only counted; --all lists them. The list is current: a task that ended
/// while its supervisor was dead is shown as ended.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding ps                 running tasks, and ended ones in brief
  siding ps --all           every task that is kept
  siding ps --running       running tasks
  siding ps --session S     tasks of one session
  siding ps --watch         the list, kept up to date until q or Ctrl-C
  siding ps --json          every task, as a list; --running for fewer")]
pub(crate) struct Args {
    /// List every task that is kept
    #[arg(short, long, conflicts_with = "running")]
    all: bool,
    /// List only tasks that have not ended
    #[arg(long)]
    running: bool,
    /// List only the tasks of this session and of its subagents
    #[arg(long, value_name = "S")]
    session: Option<SessionId>,
    /// List the tasks of another machine: an executor of the settings, or `all` for this machine and
    /// every executor
    #[arg(long, value_name = "EXECUTOR", conflicts_with = "watch")]
    on: Option<String>,
    /// Keep the list on this terminal up to date until q or Ctrl-C
    ///
    /// Killed shims are replaced only at the start.
    #[arg(short, long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON: a list of tasks, without the text of their output
    #[arg(long)]
    json: bool,
}

/// Returns the running tasks as `siding ps --running` lists them, after the same repair.
pub(super) fn running_views(root: &StateDir) -> Result<Vec<TaskView>, Failure> {
    let args =
        Args { all: false, running: true, session: None, on: None, watch: false, json: false };
    // A failed repair is reported, and the tasks are still listed.
    let _logged_by_callee = context::recover_all(root)?;
    let mut views = args.collect_tasks(root, false)?.views;
    run_history::add_expectations(root, &mut views);
    Ok(views)
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.on.as_deref() {
            _ if self.watch => self.watch_list(),
            Some(on) => self.list_on(on),
            None => self.list_local(),
        }
    }

    /// Lists the tasks of this machine.
    fn list_local(&self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let recovered = context::recover_all(&root)?;
        let is_person = !self.json && caller::is_person_at_stdout();
        // The list for a person counts all ended tasks, so it reads all of them.
        let found = self.collect_tasks(&root, !is_person && self.shows_recent_only())?;
        if let Some(session) = self.session.as_ref().filter(|_| found.is_empty()) {
            context::ensure_session_exists(&root, session)?;
        }
        let unread = found.unreadable;
        if self.json {
            render::json::print_list(json_elements(&root, found))?;
        } else if is_person {
            self.print_for_person(&root, found)?;
        } else {
            self.print_table(&root, found)?;
        }
        Ok(if recovered && unread == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(exit::SIDING_FAILED)
        })
    }

    /// Returns the tasks of this machine as elements of a JSON list, and the exit code.
    fn local_json_elements(&self) -> Result<(Vec<Vec<u8>>, ExitCode), Failure> {
        let root = context::open_state_dir()?;
        let is_recovered = context::recover_all(&root)?;
        let found = self.collect_tasks(&root, false)?;
        let is_complete = is_recovered && found.unreadable == 0;
        let code = if is_complete { 0 } else { exit::SIDING_FAILED };
        Ok((json_elements(&root, found).collect(), ExitCode::from(code)))
    }

    /// Reads the tasks. With `recent_only`, journals of tasks that ended earlier than
    /// [`ENDED_CANDIDATES`] others are not read.
    fn collect_tasks(&self, root: &StateDir, recent_only: bool) -> Result<TaskList, Failure> {
        let live = root.live_tasks()?;
        let mut ids = if self.running { Vec::new() } else { root.all_tasks()? };
        let kept = ids.len();
        if recent_only {
            // Few ended tasks are shown, so the journals of older ended tasks need not be read.
            ids = listing::most_recent(root, ids, ENDED_CANDIDATES);
        }
        ids.extend(live);
        ids.sort_unstable();
        ids.dedup();
        let unopened = kept.saturating_sub(ids.len());
        let mut found = TaskList { unopened, ..TaskList::default() };
        // The tasks of the session's subagents are listed as well.
        let sessions = self.session_tree(root)?;
        for (id, row) in
            listing::read_views(root, &ids, |view| self.to_row(view, sessions.as_ref()))?
        {
            match row {
                Ok(Some(Row::View(view))) => found.views.push(*view),
                Ok(Some(Row::Text(ended))) => found.ended.push(ended),
                Ok(Some(Row::Other) | None) => {}
                Err(error) => {
                    found.unreadable +=
                        usize::from(report_unreadable(root, id, &error) == UnreadableTask::Failed)
                }
            }
        }
        sort_views(&mut found.views);
        found.ended.sort_unstable();
        Ok(found)
    }

    /// Returns the sessions whose tasks are listed; `None` for all sessions.
    fn session_tree(&self, root: &StateDir) -> Result<Option<HashSet<SessionId>>, Failure> {
        Ok(self.session.as_ref().map(|id| session::session_tree(root, id)).transpose()?)
    }

    /// Converts a task to the row that is stored until all tasks have been read.
    fn to_row(&self, view: TaskView, sessions: Option<&HashSet<SessionId>>) -> Row {
        let is_asked_for = sessions.is_none_or(|sessions| sessions.contains(&view.session_id));
        let has_executor =
            self.local_cluster().is_none_or(|on| view.executor.as_deref() == Some(on));
        if !is_asked_for || !has_executor || (self.running && view.outcome.is_some()) {
            return Row::Other;
        }
        if self.json && view.outcome.is_some() {
            let text = render::json::to_list_element(&view);
            let moment = view.ended_at.unwrap_or(view.started_at);
            return Row::Text(EndedTask {
                sort_time: Reverse(moment),
                task_id: view.task_id,
                text,
            });
        }
        Row::View(Box::new(view))
    }

    /// Returns whether the list is the overview, which contains running tasks and only some of the
    /// ended ones.
    fn shows_recent_only(&self) -> bool {
        let is_selected = self.session.is_some() || self.local_cluster().is_some();
        !self.all && !self.json && !self.running && !is_selected
    }

    /// Returns the selection of tasks in the list for a person.
    fn scope(&self) -> ListScope {
        if self.shows_recent_only() { ListScope::Overview } else { ListScope::All }
    }

    fn print_for_person(&self, root: &StateDir, found: TaskList) -> Result<(), Failure> {
        let TaskList { mut views, .. } = found;
        if views.is_empty() && self.running {
            return person::report_nothing_running(root, self.session_tree(root)?.as_ref());
        }
        if views.is_empty() {
            report_no_tasks();
            return Ok(());
        }
        run_history::add_expectations(root, &mut views);
        person::print_list(root, views, self.scope())
    }

    fn print_table(&self, root: &StateDir, found: TaskList) -> Result<(), Failure> {
        let TaskList { mut views, unopened, .. } = found;
        if views.is_empty() && self.running {
            errln!("siding: no task is running; `siding ps` lists those that have ended");
            return Ok(());
        }
        if views.is_empty() {
            report_no_tasks();
            return Ok(());
        }
        run_history::add_expectations(root, &mut views);
        let running = views.iter().take_while(|view| view.outcome.is_none()).count();
        let shown = if self.shows_recent_only() {
            views.len().min(running + SHOWN_ENDED_TASKS)
        } else {
            views.len()
        };
        let color = ColorMode::for_stdout();
        out::print(&render::task_table(&views[..shown], color, stdout::table_columns()))?;
        let more = unopened + views.len() - shown;
        if more > 0 {
            errln!("siding: {more} more have ended; --all lists them");
        }
        Ok(())
    }
}

fn report_no_tasks() {
    errln!("siding: {NO_TASKS}");
}

/// Returns the tasks as elements of a JSON list: first running tasks, then ended ones.
fn json_elements(root: &StateDir, found: TaskList) -> impl Iterator<Item = Vec<u8>> + use<> {
    let TaskList { mut views, ended, .. } = found;
    run_history::add_expectations(root, &mut views);
    let views = views.into_iter().map(|view| render::json::to_list_element(&view));
    views.chain(ended.into_iter().map(|task| task.text))
}

/// The part of a task that is stored until all tasks have been read.
enum Row {
    View(Box<TaskView>),
    /// An ended task for JSON output, already serialized because it can no longer change.
    Text(EndedTask),
    /// A task that the options exclude.
    Other,
}

/// An ended task as JSON text. Values are ordered by the time of the end, the latest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EndedTask {
    sort_time: Reverse<String>,
    task_id: TaskId,
    text: Vec<u8>,
}

/// The tasks to print, in order.
#[derive(Default)]
struct TaskList {
    views: Vec<TaskView>,
    /// Ended tasks, if the output is JSON.
    ended: Vec<EndedTask>,
    /// Number of ended tasks whose journals were not read, because enough tasks ended later.
    unopened: usize,
    /// Number of tasks that could be neither read nor recovered; if nonzero, the command fails.
    unreadable: usize,
}

impl TaskList {
    fn is_empty(&self) -> bool {
        self.views.is_empty() && self.ended.is_empty()
    }
}

/// Result of the recovery of a task that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnreadableTask {
    /// Recovery has reported the task, and has either set it aside or left it unchanged because a
    /// newer siding wrote it.
    Reported,
    /// The task could not be recovered either.
    Failed,
}

fn report_unreadable(root: &StateDir, id: TaskId, error: &JournalReadError) -> UnreadableTask {
    let result = match error {
        JournalReadError::Io(error) => {
            Err(Failure::new(format!("task {id}: could not read it: {error}")))
        }
        JournalReadError::Content(_) => context::recover(root, id),
    };
    match result {
        Ok(()) => UnreadableTask::Reported,
        Err(failure) => {
            failure.report();
            UnreadableTask::Failed
        }
    }
}

/// Sorts running tasks first, the newest at the top, then ended tasks, the last to end at the top.
fn sort_views(views: &mut [TaskView]) {
    views.sort_by(|a, b| {
        fn sort_time(view: &TaskView) -> &str {
            view.ended_at.as_deref().unwrap_or(&view.started_at)
        }
        let ended = a.outcome.is_some().cmp(&b.outcome.is_some());
        ended.then_with(|| sort_time(b).cmp(sort_time(a))).then_with(|| a.task_id.cmp(&b.task_id))
    });
}
