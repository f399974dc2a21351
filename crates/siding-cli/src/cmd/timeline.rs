//! `siding timeline`: draws tasks over time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::{clock, tty};
use siding_core::task::timeline;
use siding_model::duration::format_duration;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::UnixMs;
use siding_model::timeline::{
    SVG_GRID, SvgLinks, Timeline, TimelineGrid, TimelineTask, TimelineWindow, render_svg,
    retain_sessions,
};

use super::STDOUT_PATH;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::pager::{PagedOutput, pager_for_person};
use crate::render::color::ColorMode;
use crate::render::timeline::TimelineText;
use crate::render::{json, out};
use crate::run_history;
use crate::stdout;
use crate::terminal;

/// Limits of the width of the text, in columns.
const MIN_COLUMNS: usize = 40;
const MAX_COLUMNS: usize = 300;
/// Maximum number of runs of the history that are searched for removed tasks.
const MAX_SEARCHED_RUNS: usize = 5_000;

/// Draws tasks over time: a lane for each session, a bar for each task, and marks for its events.
///
/// The picture begins with the first task of the period and ends now. Without --since, the period
/// is an hour, or the time since the start of the oldest running task that was started in the last
/// day. The tasks of subagents and the steps of workflows are below the task that started them. If
/// there are more tasks than rows, short tasks share a bar with their number. Removed tasks are not
/// shown. Nothing is repaired, so a task whose shim was killed seems to run. At the terminal of a
/// person, a picture that is longer than the screen is shown in a pager, as by `siding output`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding timeline                       the running tasks and the last hour
  siding timeline --since 8h            a working day
  siding timeline --session S           a session and its subagents
  siding timeline --svg timeline.svg    as a picture, for light and dark pages
  siding timeline --json                for a program; each task has a row

A line below the picture explains its characters. The text next to a bar says
how the task ended, unless it succeeded, and how long it took.")]
pub(crate) struct Args {
    /// Length of the period up to now, such as `30m` or `8h` (default: 1h, or since the start of
    /// the oldest running task of the last day)
    #[arg(long, value_name = "DURATION", value_parser = super::parse_duration)]
    since: Option<Duration>,
    /// Draw only the tasks of this session, and those started inside them
    #[arg(long, value_name = "S")]
    session: Option<SessionId>,
    /// Draw the timeline as SVG, into this file; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Print to the terminal, without a pager
    #[arg(long)]
    no_pager: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.since.is_some_and(|since| since.is_zero()) {
            return Err(Failure::new("--since 0s: the period is empty")
                .with_hint("give a duration such as `30m` or `8h`"));
        }
        let root = context::open_state_dir()?;
        let now = clock::unix_now();
        let back_ms = self.period_ms(&root, now)?;
        let since = now.plus_ms(back_ms.saturating_neg());
        let (tasks, unreadable) = self.read_tasks(&root, since)?;
        let ids: HashSet<TaskId> = tasks.iter().map(|task| task.task_id).collect();
        let window = TimelineWindow::fit(&tasks, now, back_ms);
        let parents = timeline::read_session_parents(&root, &tasks);
        let build = |grid: TimelineGrid| {
            let grid = TimelineGrid { utc_offset_ms: clock::local_offset_ms(now), ..grid };
            Timeline::new(window, grid, tasks, &parents)
        };
        if self.json {
            // Without a limit of rows, no bar represents several tasks.
            json::print(&build(TimelineGrid { max_rows: usize::MAX, ..SVG_GRID }))?;
        } else if let Some(path) = &self.svg {
            write_picture(path, &render_svg(&build(SVG_GRID), SvgLinks::None))?;
        } else {
            print_text(build, self.pager())?;
        }
        if !self.json {
            self.report_missing(&root, since, now, &ids);
        }
        Ok(if unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::SIDING_FAILED) })
    }

    /// Returns the pager for a picture that is longer than the screen; `None` if the picture is
    /// printed without a pager in any case.
    fn pager(&self) -> Option<String> {
        if self.no_pager { None } else { pager_for_person() }
    }

    /// Returns the length of the period, in milliseconds.
    fn period_ms(&self, root: &StateDir, now: UnixMs) -> Result<i64, Failure> {
        if let Some(since) = self.since {
            return Ok(i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
        }
        // Reads the running tasks. The errors of unreadable ones are reported later.
        let read = timeline::read_tasks(root, now)?;
        let mut tasks: Vec<TimelineTask> =
            read.into_iter().filter_map(|(_, task)| task.ok().flatten()).collect();
        if let Some(session) = &self.session {
            retain_sessions(&mut tasks, &session::session_tree(root, session)?);
        }
        Ok(TimelineWindow::default_back_ms(&tasks, now))
    }

    /// Returns the tasks of the period, and the number of tasks that could not be read.
    fn read_tasks(
        &self,
        root: &StateDir,
        since: UnixMs,
    ) -> Result<(Vec<TimelineTask>, usize), Failure> {
        let (mut tasks, mut unreadable) = (Vec::new(), 0);
        for (id, task) in timeline::read_tasks(root, since)? {
            match task {
                Ok(task) => tasks.extend(task),
                Err(error) => {
                    unreadable += 1;
                    errln!("siding: task {id} is omitted: {error}");
                }
            }
        }
        if let Some(session) = &self.session {
            retain_sessions(&mut tasks, &session::session_tree(root, session)?);
            if tasks.is_empty() {
                context::ensure_session_exists(root, session)?;
            }
        }
        Ok((tasks, unreadable))
    }

    /// Reports that no task is shown, and the number of removed tasks of the period.
    fn report_missing(&self, root: &StateDir, since: UnixMs, now: UnixMs, shown: &HashSet<TaskId>) {
        if shown.is_empty() {
            let period_ms = u64::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
            let period = format_duration(Duration::from_millis(period_ms));
            errln!("siding: no task ran in the last {period}; --since selects a longer period");
        }
        // The history has no sessions, so the removed tasks of this session cannot be counted.
        if self.session.is_some() {
            return;
        }
        let runs = run_history::runs_best_effort(root, MAX_SEARCHED_RUNS);
        let is_removed =
            |run: &&siding_model::history::Run| run.ended >= since && !shown.contains(&run.task_id);
        let removed = runs.iter().filter(is_removed).count();
        if removed > 0 {
            errln!(
                "siding: {removed} removed tasks of this period are not shown; `siding history` \
                 lists them"
            );
        }
    }
}

fn print_text(
    build: impl FnOnce(TimelineGrid) -> Timeline,
    pager: Option<String>,
) -> Result<(), Failure> {
    let width = tty::size(std::io::stdout()).map_or(stdout::TEXT_COLUMNS, |(columns, _)| {
        usize::from(columns).clamp(MIN_COLUMNS, MAX_COLUMNS)
    });
    let text = TimelineText {
        columns: width,
        characters: terminal::character_set(),
        colors: ColorMode::for_stdout(),
    };
    let timeline = build(text.grid());
    if timeline.counts.tasks > 0 {
        let mut screen = pager.map_or_else(PagedOutput::direct, PagedOutput::with_pager);
        let written = screen.write(text.draw(&timeline).as_bytes()).and(screen.finish());
        out::map_broken_pipe(written)?;
    }
    Ok(())
}

fn write_picture(path: &PathBuf, picture: &str) -> Result<(), Failure> {
    if path.as_os_str() == STDOUT_PATH {
        return stdout::print_text(picture);
    }
    std::fs::write(path, picture)
        .map_err(|error| Failure::new(format!("could not write `{}`: {error}", path.display())))
}
