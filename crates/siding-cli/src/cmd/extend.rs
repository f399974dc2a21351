//! `siding extend`: moves the deadline of a running task.

use std::process::ExitCode;
use std::time::Duration;

use siding_core::sys::clock;
use siding_core::task::shim_client::ShimRequestError;
use siding_core::task::watch::{TaskWatch, WatchError};
use siding_model::duration;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_model::protocol::ShimRequest;
use siding_model::settings::{Key, Settings};
use siding_model::text::one_line;

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::failure::Failure;

/// Maximum time to wait for the shim's answer, in milliseconds.
const SHIM_ANSWER_TIMEOUT_MS: u64 = 10_000;
/// Maximum width of the reason why the time limit of a job was not raised, in columns.
const REASON_COLUMNS: usize = 200;
/// The name under which the journal records the requester, as for a stop.
const REQUESTER: &str = "user";

/// Moves the deadline of a running task.
///
/// At its deadline, a task is terminated with everything it started. A deadline counts only the
/// time during which the system is awake. A deadline cannot be later than the cap
/// (max_elapsed_hard_cap) that was set when the task started. A later deadline is cut to the cap,
/// and the output says so. A task has no deadline while a person waits for it in the foreground,
/// unless `siding run --timeout` has set one. If the job of a task in Slurm would end before the new
/// deadline, siding asks Slurm for a longer time limit, and prints a refusal.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding extend b-4k7q 30m       30 minutes more; repeated calls add up
  siding extend b-4k7q --to 2h   2 hours in total, from the task's start
  siding extend b-4k7q --to 5m   may also be earlier, but not in the past")]
pub(crate) struct Args {
    /// Task: an id, a unique prefix, a name, or `@` for the last one
    #[arg(value_name = "ID")]
    id: String,
    /// Duration to add to the deadline, such as 30m
    #[arg(
        value_name = "DURATION",
        value_parser = parse_extension,
        required_unless_present = "to",
        conflicts_with = "to"
    )]
    more: Option<Duration>,
    /// New maximum duration, counted from the task's start
    #[arg(long, value_name = "D", value_parser = super::parse_duration)]
    to: Option<Duration>,
    /// Print the task as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let id = context::resolve_task(&root, &self.id, self.json)?;
        let mut watch = TaskWatch::open(&root, SHIM_PROGRAM, id)?;
        let (_, before) = watch.state()?;
        let wanted_ms = self.requested_deadline_ms(&before);
        let by_ms = self.more.map(to_millis);
        let by = Some(REQUESTER.to_owned());
        let request = ShimRequest::Extend { to_ms: wanted_ms, by_ms, by, job_limit: None };
        let moved = match watch.request(&request, SHIM_ANSWER_TIMEOUT_MS) {
            Err(WatchError::Ask { source: ShimRequestError::Refused { why }, .. }) => {
                return Err(refusal(id, &why));
            }
            result => result?,
        };
        let task = Task::read(&root, id)?;
        if !moved || !task.state.is_live() {
            return Err(refusal(id, "the task has already ended"));
        }
        // The settings are needed only for the message: the shim enforces the cap recorded in the
        // task.
        let settings = context::load_valid_settings();
        let moved = DeadlineChange::new(&before, &task.state, wanted_ms);
        let message = moved.format_change(id, clock::monotonic_now(), &settings);
        super::print_request_result(&root, &task, message, self.json)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the requested deadline in milliseconds after the task's start.
    fn requested_deadline_ms(&self, state: &TaskState) -> u64 {
        let now_set = deadline_ms(state);
        match (self.to, self.more) {
            (Some(to), _) => to_millis(to),
            (None, more) => now_set.saturating_add(more.map_or(0, to_millis)),
        }
    }
}

/// Returns the deadline in milliseconds after the task's start; zero while the task has none.
fn deadline_ms(state: &TaskState) -> u64 {
    state.lifecycle.deadline().map_or(0, |deadline| deadline.ms_since(state.started))
}

fn to_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Parses an extension such as `30m` or `+30m`.
fn parse_extension(text: &str) -> Result<Duration, String> {
    super::parse_duration(text.strip_prefix('+').unwrap_or(text))
}

fn refusal(id: TaskId, why: &str) -> Failure {
    Failure::new(format!("the deadline of task {id} cannot be moved: {why}"))
        .with_hint(format!("`siding show {id}` shows its state"))
}

/// The result of a request to change a deadline. The `_ms` fields count from the task's start.
#[derive(Debug, Clone)]
struct DeadlineChange {
    started: MonotonicMs,
    before_ms: u64,
    after_ms: u64,
    requested_ms: u64,
    cap_ms: u64,
    /// The time limit of the task's job; `None` without a known one.
    job_limit_ms: Option<u64>,
    /// The reason why the cluster has not raised this limit; `None` if it was not asked, or has.
    job_limit_refusal: Option<String>,
    /// The cap in the task's specification, which counts from the same time as the deadline.
    cap_setting: Duration,
}

impl DeadlineChange {
    fn new(before: &TaskState, after: &TaskState, wanted: u64) -> Self {
        Self {
            started: after.started,
            before_ms: deadline_ms(before),
            after_ms: deadline_ms(after),
            requested_ms: wanted,
            cap_ms: after.lifecycle.cap().ms_since(after.started),
            job_limit_ms: after.job_limit().map(|limit| limit.ms_since(after.started)),
            job_limit_refusal: after.job_limit_refusal.clone(),
            cap_setting: Duration::from_millis(after.spec.cap_ms),
        }
    }

    /// Formats the change as one sentence. If the request exceeded the cap, the sentence states the
    /// cap and where the cap was set.
    fn format_change(self, id: TaskId, now: MonotonicMs, settings: &Settings) -> String {
        let human = |ms| duration::format_duration(Duration::from_millis(ms));
        let left = self.started.plus_ms(self.after_ms).ms_since(now);
        let deadline = format!("{} after its start, in {}", human(self.after_ms), human(left));
        let mut text = if self.after_ms == self.before_ms {
            format!("{id}: its deadline stays {deadline}")
        } else {
            format!("{id}: its deadline is now {deadline} (it was {})", human(self.before_ms))
        };
        if self.requested_ms > self.cap_ms {
            let origin = if settings.max_elapsed_hard_cap == self.cap_setting {
                settings.origin(Key::MaxElapsedHardCap).to_string()
            } else {
                "as it was when the task was started".to_owned()
            };
            let (asked, cap) = (human(self.requested_ms), human(self.cap_ms));
            let key = Key::MaxElapsedHardCap;
            text.push_str(&format!("; {asked} was cut to the cap of {cap} ({key}, {origin})"));
        }
        if let Some(limit) = self.job_limit_ms.filter(|limit| *limit < self.after_ms) {
            let limit = human(limit);
            let why = self.job_limit_refusal.as_deref();
            let why = why.map(|why| format!(" ({})", one_line(why, REASON_COLUMNS)));
            text.push_str(&format!(
                "; the cluster still ends the job {limit} after its start, at its time limit, which \
                 only an operator of the cluster can raise{}; for a later task, `--time` requests a \
                 longer one",
                why.unwrap_or_default()
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_sample_change(before_s: u64, after_s: u64, wanted_s: u64, cap_s: u64) -> String {
        let moved = DeadlineChange {
            started: MonotonicMs(1_000),
            before_ms: before_s * 1000,
            after_ms: after_s * 1000,
            requested_ms: wanted_s * 1000,
            cap_ms: cap_s * 1000,
            job_limit_ms: None,
            job_limit_refusal: None,
            cap_setting: Duration::from_secs(cap_s),
        };
        let id = "b-4k7q0n2m8x5t".parse().expect("an id");
        moved.format_change(id, MonotonicMs(61_000), &Settings::default())
    }

    #[test]
    fn output_shows_the_new_and_the_old_deadline() {
        assert_eq!(
            format_sample_change(1800, 3600, 3600, 14_400),
            "b-4k7q0n2m8x5t: its deadline is now 1h after its start, in 59m (it was 30m)"
        );
    }

    #[test]
    fn a_capped_deadline_names_the_cap_and_its_origin() {
        let cut = format_sample_change(1800, 14_400, 20_000, 14_400);
        assert!(
            cut.ends_with("; 5h 33m was cut to the cap of 4h (max_elapsed_hard_cap, built-in)"),
            "{cut}"
        );
        let other = format_sample_change(600, 600, 700, 600);
        assert!(other.contains("its deadline stays 10m after its start"), "{other}");
        assert!(other.contains("as it was when the task was started"), "{other}");
    }

    #[test]
    fn an_earlier_time_limit_of_the_job_is_reported() {
        let mut moved = DeadlineChange {
            started: MonotonicMs(0),
            before_ms: 1_800_000,
            after_ms: 3_600_000,
            requested_ms: 3_600_000,
            cap_ms: 14_400_000,
            job_limit_ms: Some(1_920_000),
            job_limit_refusal: Some("Access/permission denied".to_owned()),
            cap_setting: Duration::from_secs(14_400),
        };
        let id = "b-4k7q0n2m8x5t".parse().expect("an id");
        let format =
            |moved: DeadlineChange| moved.format_change(id, MonotonicMs(0), &Settings::default());
        let text = format(moved.clone());
        assert!(text.contains("still ends the job 32m after its start"), "{text}");
        assert!(text.contains("can raise (Access/permission denied); for a later"), "{text}");
        moved.job_limit_ms = Some(7_200_000);
        assert!(!format(moved).contains("the job"));
    }
}
