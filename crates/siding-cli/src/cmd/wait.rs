//! `siding wait`: waits for the end of tasks, bounded and without polling.

use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::Root;
use siding_core::sys::{clock, descriptor, poll};
use siding_core::view::Detail;
use siding_core::watch::Watch;
use siding_model::report::{TaskView, WaitHit, WaitReason, WaitView};

use crate::context::{self, PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};

/// Waits for tasks to end.
///
/// Returns within milliseconds of the end, at the latest at the bound. Nothing is polled.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding wait b-4k7q                 until it ends
  siding wait --any b-4k7q b-9x2m    until one of them ends
  siding wait --timeout 10m b-4k7q   at most ten minutes

Exit codes: 0 when they have ended (whatever their outcome), 124 at the bound.")]
pub(crate) struct Args {
    /// The tasks
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Until one of them has ended
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Until all of them have ended (this is the default)
    #[arg(long)]
    all: bool,
    /// How long to wait at most (default: wait_bound)
    #[arg(long, value_name = "D", value_parser = super::span)]
    timeout: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let bound = match self.timeout {
            Some(bound) => bound,
            None => context::settings()?.wait_bound,
        };
        let bound_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        // One descriptor per task and a few of our own.
        descriptor::raise_open_limit();
        let ids = self.ids.iter().map(|text| root.resolve(text)).collect::<Result<Vec<_>, _>>()?;
        let started = clock::mono();
        let mut watches =
            ids.iter().map(|id| Watch::open(&root, PROGRAM, *id)).collect::<Result<Vec<_>, _>>()?;
        let satisfied = loop {
            if self.is_satisfied(&watches) {
                break true;
            }
            let left = bound_ms.saturating_sub(clock::mono().ms_since(started));
            if left == 0 {
                break false;
            }
            turn(&mut watches, left)?;
        };
        let waited_ms = clock::mono().ms_since(started);
        self.answer(&root, &watches, satisfied, waited_ms, bound_ms)?;
        Ok(if satisfied { ExitCode::SUCCESS } else { ExitCode::from(exit::TIMED_OUT) })
    }

    fn is_satisfied(&self, watches: &[Watch<'_>]) -> bool {
        if self.any {
            watches.iter().any(Watch::is_over)
        } else {
            watches.iter().all(Watch::is_over)
        }
    }

    fn answer(
        &self,
        root: &Root,
        watches: &[Watch<'_>],
        satisfied: bool,
        waited_ms: u64,
        bound_ms: u64,
    ) -> Result<(), Failure> {
        let tasks = watches
            .iter()
            .filter(|watch| watch.is_over())
            .map(|watch| Task::read(root, watch.id()))
            .collect::<Result<Vec<Task>, Failure>>()?;
        let ended: Vec<TaskView> =
            tasks.iter().map(|task| task.view(root, Detail::Brief)).collect();
        let reader = self.say(&ended, satisfied, waited_ms, bound_ms)?;
        if reader == out::Reader::There {
            tasks.iter().for_each(|task| context::consumed(root, &task.state));
        }
        Ok(())
    }

    fn say(
        &self,
        ended: &[TaskView],
        satisfied: bool,
        waited_ms: u64,
        bound_ms: u64,
    ) -> Result<out::Reader, Failure> {
        if !self.json {
            let line = |view| format!("{}\n", render::ended_line(view));
            let reader = out::print(&ended.iter().map(line).collect::<String>())?;
            if !satisfied {
                let bound = siding_model::span::human(Duration::from_millis(bound_ms));
                eprintln!("siding: not ended within the bound of {bound}; they go on");
            }
            return Ok(reader);
        }
        let by = ended
            .iter()
            .map(|view| WaitHit {
                task_id: view.task_id,
                condition: "exit".to_owned(),
                detail: view.outcome.clone(),
            })
            .collect();
        let reason = if satisfied { WaitReason::Satisfied } else { WaitReason::Timeout };
        render::json::print_to_reader(&WaitView { satisfied, reason, by, waited_ms, bound_ms })
    }
}

/// Waits for something to happen to one of them and takes it in.
fn turn(watches: &mut [Watch<'_>], timeout_ms: u64) -> Result<(), Failure> {
    let open: Vec<usize> = (0..watches.len()).filter(|at| !watches[*at].is_over()).collect();
    let sources: Vec<BorrowedFd<'_>> = open.iter().filter_map(|at| watches[*at].source()).collect();
    let ready = poll::wait(&sources, Some(timeout_ms))
        .map_err(|error| Failure::new(format!("could not wait: {error}")))?;
    for (at, _) in open.into_iter().zip(ready).filter(|(_, ready)| *ready) {
        while watches[at].take()?.is_some() {}
    }
    Ok(())
}
