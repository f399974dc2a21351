//! The words of answers that several tools give.

use std::time::Duration;

use siding_core::output::{self, LineFilter, OutputQuery, StreamState, TextLimit};
use siding_core::sys::clock;
use siding_core::view::ViewDetail;
use siding_model::advice::{self, NoticeChannel};
use siding_model::record::StopReport;
use siding_model::task_view::{PhaseName, TaskView};
use siding_model::text::one_line;

use crate::answer::{Answer, Refusal};
use crate::host::{Host, Standing};
use crate::structured::{self, RunDetails, TaskSummary};

/// Columns of a line about a task.
pub const LINE: usize = 160;
/// Bytes of a last line that are read.
const LAST_LINE: usize = 400;
/// Columns of what survived a stop.
const SURVIVOR: usize = 120;

/// Returns how a task stands and what to do next: `b-4k7q…  exited 1 after 3s  npm test`.
#[must_use]
pub fn state(host: &Host, view: &TaskView) -> Answer {
    Answer::say(advice::format_task_line(view, LINE)).and(next(host, view))
}

/// Returns what to do next, where there is something.
#[must_use]
pub fn next(host: &Host, view: &TaskView) -> Option<String> {
    // Only a task in the background is told of, and finding the channel reads files.
    let channel = match (view.phase, view.placement.why) {
        (PhaseName::Running, Some(_)) => host.notice_channel(),
        (_, _) => NoticeChannel::PollOnly,
    };
    advice::task_advice(view, host.dialect, channel, clock::unix_now())
}

/// Returns how a task stands, what to do next, and what it wrote.
///
/// # Errors
///
/// [`Refusal::Io`] when its output cannot be read.
pub fn with_output(host: &Host, standing: &Standing, max: usize) -> Result<Answer, Refusal> {
    let view = host.view(standing, ViewDetail::Full);
    let keep_head = standing.state.spec.keep_head;
    let excerpt = output::excerpt(&standing.dir, keep_head, max)
        .map_err(|source| Refusal::Io { doing: "read the output", source })?;
    let mut answer = state(host, &view);
    if view.output.bytes == 0 {
        answer.said.push("no output".to_owned());
    }
    answer.said.extend(limits(&view, standing));
    let (task, output_truncated) = (Some(TaskSummary::from(&view)), excerpt.truncated);
    let details = RunDetails { task, duplicate_of: None, output_truncated };
    answer.details = structured::details(&details);
    answer.output = Some(excerpt.text);
    Ok(answer)
}

/// Returns the limits that a task has passed and was not ended for, a line each.
#[must_use]
pub fn limits(view: &TaskView, standing: &Standing) -> Vec<String> {
    let limits = &standing.state.spec.limits;
    // What ends a task is told as its end.
    let told = view.breaches.iter().filter(|one| !limits.stops_at(one));
    told.map(|one| one_line(&one.detail, LINE)).collect()
}

/// Returns the last line that a task wrote, if it wrote any.
#[must_use]
pub fn last_line(standing: &Standing) -> Option<String> {
    let keep_head = standing.state.spec.keep_head;
    let from = output::last_lines_offset(&standing.dir, keep_head, 0, 1).ok()?;
    let query = OutputQuery {
        from,
        filter: LineFilter::Everything,
        last_lines: Some(1),
        limit: TextLimit::HeadTail(LAST_LINE),
    };
    let mut text = String::new();
    output::read(&standing.dir, keep_head, StreamState::Growing, &query, |part| {
        text.push_str(part);
        Ok(())
    })
    .ok()?;
    text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// Returns what a stop could not end, which a caller must hear of.
#[must_use]
pub fn survivors(report: &StopReport) -> Option<String> {
    let all = report.survivors.iter().map(|survivor| {
        one_line(&format!("{} {}: {}", survivor.pid, survivor.command, survivor.why), SURVIVOR)
    });
    let unseen = report.unproven.iter().map(|why| one_line(why, SURVIVOR));
    let all: Vec<String> = all.chain(unseen).collect();
    (!all.is_empty()).then(|| format!("STILL ALIVE: {}", all.join("; ")))
}

/// Returns seconds as a duration. `name` is the argument that gave them.
///
/// # Errors
///
/// [`Refusal::Arguments`] when there is no such time.
pub fn seconds(name: &str, seconds: f64) -> Result<Duration, Refusal> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Refusal::Arguments(format!(
            "`{name}`: {seconds} is not possible; write seconds, such as 30"
        ))
    })
}

/// Returns a duration in milliseconds.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
