//! `siding extend`: moves the deadline of a task that runs.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::shim_client::ShimRequestError;
use siding_core::sys::clock;
use siding_core::view::ViewDetail;
use siding_core::watch::{TaskWatch, WatchError};
use siding_model::duration;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::settings::{Key, Settings};

use crate::context::{self, PROGRAM, Task};
use crate::failure::Failure;
use crate::{print, render};

/// How long a shim may take to answer, in milliseconds.
const ANSWER_MS: u64 = 10_000;

/// Moves the deadline of a task that runs.
///
/// Deadlines count the time the machine is awake. None can be moved beyond the cap
/// (max_elapsed_hard_cap) that held when the task was started: what lies beyond it is cut, and the
/// answer says so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding extend b-4k7q 30m       thirty minutes more; twice is an hour
  siding extend b-4k7q --to 2h   two hours in all, counted from its start
  siding extend b-4k7q --to 5m   less is possible too, as long as it lies ahead")]
pub(crate) struct Args {
    /// The task
    #[arg(value_name = "ID")]
    id: String,
    /// How much later than now set, such as 30m
    #[arg(
        value_name = "DURATION",
        value_parser = later,
        required_unless_present = "to",
        conflicts_with = "to"
    )]
    more: Option<Duration>,
    /// How long it may live in all, counted from its start
    #[arg(long, value_name = "D", value_parser = super::span)]
    to: Option<Duration>,
    /// Print the task as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let id = root.resolve(&self.id)?;
        let mut watch = TaskWatch::open(&root, PROGRAM, id)?;
        let (_, before) = watch.state()?;
        let wanted_ms = self.wanted_ms(&before);
        let by_ms = self.more.map(millis);
        let moved = match watch.request(&ShimRequest::Extend { to_ms: wanted_ms, by_ms }, ANSWER_MS)
        {
            Err(WatchError::Ask { source: ShimRequestError::Refused { why }, .. }) => {
                return Err(refused(id, &why));
            }
            result => result?,
        };
        let task = Task::read(&root, id)?;
        if !moved || !task.state.is_live() {
            return Err(refused(id, "it has ended already"));
        }
        // Only for the words: the cap itself is the task's own, and the shim's to keep.
        let settings = context::legal_settings();
        let moved = Moved::new(&before, &task.state, wanted_ms);
        let said = moved.said(id, clock::monotonic_now(), &settings);
        if self.json {
            let mut view = task.view(&root, ViewDetail::Full);
            view.message = Some(said);
            render::json::print(&view)?;
        } else {
            print::text(&format!("{}\n", print::wrapped(&said, 0, print::WIDTH)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the deadline that is asked for, in milliseconds after the start.
    fn wanted_ms(&self, state: &TaskState) -> u64 {
        let now_set = state.lifecycle.deadline().ms_since(state.started);
        match (self.to, self.more) {
            (Some(to), _) => millis(to),
            (None, more) => now_set.saturating_add(more.map_or(0, millis)),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Reads how much later. A plus before it says no more than its absence.
fn later(text: &str) -> Result<Duration, String> {
    super::span(text.strip_prefix('+').unwrap_or(text))
}

fn refused(id: TaskId, why: &str) -> Failure {
    Failure::new(format!("the deadline of task {id} cannot be moved: {why}"))
        .with_hint(format!("`siding show {id}` tells how it stands"))
}

/// What became of a deadline. All in milliseconds after the start.
#[derive(Debug, Clone, Copy)]
struct Moved {
    started: MonotonicMs,
    before: u64,
    after: u64,
    wanted: u64,
    cap: u64,
}

impl Moved {
    fn new(before: &TaskState, after: &TaskState, wanted: u64) -> Self {
        let set = |state: &TaskState| state.lifecycle.deadline().ms_since(state.started);
        Self {
            started: after.started,
            before: set(before),
            after: set(after),
            wanted,
            cap: after.spec.cap_ms,
        }
    }

    /// Says it in words.
    fn said(self, id: TaskId, now: MonotonicMs, settings: &Settings) -> String {
        let human = |ms| duration::format_duration(Duration::from_millis(ms));
        let left = self.started.plus_ms(self.after).ms_since(now);
        let deadline = format!("{} after its start, in {}", human(self.after), human(left));
        let mut said = if self.after == self.before {
            format!("{id}: its deadline stays {deadline}")
        } else {
            format!("{id}: its deadline is now {deadline} (it was {})", human(self.before))
        };
        if self.wanted > self.cap {
            let whose = if settings.max_elapsed_hard_cap == Duration::from_millis(self.cap) {
                settings.origin(Key::MaxElapsedHardCap).to_string()
            } else {
                "as it was when the task was started".to_owned()
            };
            let (asked, cap) = (human(self.wanted), human(self.cap));
            let key = Key::MaxElapsedHardCap;
            said.push_str(&format!("; {asked} was cut to the cap of {cap} ({key}, {whose})"));
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(before_s: u64, after_s: u64, wanted_s: u64, cap_s: u64) -> String {
        let moved = Moved {
            started: MonotonicMs(1_000),
            before: before_s * 1000,
            after: after_s * 1000,
            wanted: wanted_s * 1000,
            cap: cap_s * 1000,
        };
        let id = "b-4k7q0n2m8x5t".parse().expect("an id");
        moved.said(id, MonotonicMs(61_000), &Settings::default())
    }

    #[test]
    fn the_new_deadline_is_said() {
        assert_eq!(
            said(1800, 3600, 3600, 14_400),
            "b-4k7q0n2m8x5t: its deadline is now 1h after its start, in 59m (it was 30m)"
        );
    }

    #[test]
    fn a_cut_names_the_cap_and_who_set_it() {
        let cut = said(1800, 14_400, 20_000, 14_400);
        assert!(
            cut.ends_with("; 5h 33m was cut to the cap of 4h (max_elapsed_hard_cap, built-in)"),
            "{cut}"
        );
        let other = said(600, 600, 700, 600);
        assert!(other.contains("its deadline stays 10m after its start"), "{other}");
        assert!(other.contains("as it was when the task was started"), "{other}");
    }
}
