//! What a person or an agent should know or do next.

use std::time::Duration;

use siding_core::sys::clock;
use siding_model::outcome::{LeaderEnd, Limit, Outcome, Why};
use siding_model::process::Wall;
use siding_model::record::StopReport;
use siding_model::report::{PhaseName, ProcessView, TaskView};
use siding_model::signal::Signal;
use siding_model::span::human;
use siding_model::text::one_line;

use super::bar::progress;
use super::left::{limit, until_deadline};
use super::state::elapsed;

/// Processes that are named one by one.
const NAMED: usize = 5;
/// Columns of a command line among others.
const COMMAND: usize = 40;

/// Returns what the one who looks at a task should know or do next, `None` when its outcome says
/// all there is.
pub(crate) fn advice(view: &TaskView) -> Option<String> {
    at(view, clock::wall())
}

fn at(view: &TaskView, now: Wall) -> Option<String> {
    let id = view.task_id;
    match view.phase {
        PhaseName::Starting => Some(format!("it is being started; `siding show {id}` looks again")),
        PhaseName::Running => Some(running(view, now)),
        PhaseName::Lingering => Some(lingering(view, now)),
        PhaseName::Stopping => Some(format!(
            "it is being ended with everything it started; `siding wait {id}` waits until that is done"
        )),
        PhaseName::Ended => ended(view),
    }
}

fn running(view: &TaskView, now: Wall) -> String {
    let id = view.task_id;
    let limit = limit(view, now).map_or_else(String::new, |limit| format!(" of {}", human(limit)));
    let next = format!(
        "`siding wait {id}` waits for its end, `siding output {id}` shows what is new, \
         `siding stop {id}` ends it"
    );
    let ran = elapsed(view);
    let usual = progress(view).map_or_else(String::new, |usual| format!("usually {usual}; "));
    match view.placement.why {
        Some(Why::Budget) => format!(
            "still running after {ran}{limit}, in the background as {id}, output in {}; {usual}{next}; \
             a command known to take this long can be started with --background, or be left to a \
             subagent",
            path(view)
        ),
        Some(Why::Asked | Why::Known | Why::Heuristic | Why::User) => format!(
            "running for {ran}{limit} in the background as {id}, output in {}; {usual}{next}",
            path(view)
        ),
        None => format!("running for {ran}{limit}; {usual}{next}"),
    }
}

fn lingering(view: &TaskView, now: Wall) -> String {
    let id = view.task_id;
    let end = view
        .leader_outcome
        .as_ref()
        .map_or_else(String::new, |end| format!(" ({})", one_line(&end.to_string(), 100)));
    let processes = match view.processes.len() {
        0 => String::new(),
        count => format!(
            ", {count} {} of it {} on: {}",
            plural(count, "process", "processes"),
            plural(count, "lives", "live"),
            listed(&view.processes)
        ),
    };
    let ports = match view.listening.as_slice() {
        [] => String::new(),
        ports => format!("; listening on {}", joined(ports)),
    };
    let left = until_deadline(view, now).map_or_else(String::new, |left| {
        format!("; what is left is ended in {}", human(to_seconds(left)))
    });
    format!(
        "its shell has ended{end}{processes}{ports}{left}; `siding stop {id}` ends it now, \
         `siding output {id}` shows what it still writes"
    )
}

fn ended(view: &TaskView) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    match view.outcome.as_ref()? {
        Outcome::Exited { code } => told.extend(masked(*code, view)),
        Outcome::Signaled { by: Some(by), .. } if by == LeaderEnd::OOM => told.push(
            "the kernel ended it because memory ran out; give it less to do at once, or limit it \
             with --max-memory to hear of it earlier"
                .to_owned(),
        ),
        Outcome::Signaled { signal, .. } => told.push(signaled(*signal)),
        Outcome::Limit { which } => told.push(limited(*which, view)),
        Outcome::Deadline { limit_ms } => told.push(format!(
            "it ran into its deadline of {}; a longer one is given with --timeout, or by \
             `siding extend` while it runs",
            human(Duration::from_millis(*limit_ms))
        )),
        Outcome::Lost { why } => told.push(format!(
            "how it ended is not known: {}; its output may tell what was done",
            one_line(why, 200)
        )),
        outcome @ (Outcome::Stopped { .. } | Outcome::FailedToStart { .. } | _) => {
            told.push(one_line(&outcome.to_string(), 400))
        }
    }
    if let Some(report) = &view.stop_report {
        told.extend(swept(report));
    }
    if view.output.lost_bytes > 0 {
        told.push(format!(
            "{} bytes of its output could not be stored, most likely for want of disk space",
            view.output.lost_bytes
        ));
    }
    (!told.is_empty()).then(|| told.join("; "))
}

/// The limit at which it was stopped, in numbers where they are on record.
fn limited(which: Limit, view: &TaskView) -> String {
    let told = view.breaches.iter().find(|breach| breach.which == which);
    let detail = told.map_or(which.flag(), |breach| breach.detail.as_str());
    format!("stopped at its limit {}", one_line(detail, 400))
}

/// A failure that the shell's own code hides.
fn masked(code: u8, view: &TaskView) -> Option<String> {
    let statuses = view.pipeline_statuses.as_deref()?;
    let hidden = code == 0 && statuses.iter().any(|status| *status != 0);
    hidden.then(|| {
        let statuses: Vec<_> = statuses.iter().map(ToString::to_string).collect();
        format!(
            "a stage of its last pipeline failed behind the code 0 (statuses: {})",
            statuses.join(" ")
        )
    })
}

fn signaled(signal: Signal) -> String {
    let guess = if signal == Signal::KILL {
        "; the kernel does that when memory runs out (`dmesg` tells)"
    } else {
        ""
    };
    format!("{signal} ended it, and siding did not send that{guess}")
}

fn swept(report: &StopReport) -> Vec<String> {
    let mut told = Vec::new();
    let count = usize::try_from(report.ended_total).unwrap_or(usize::MAX).max(report.ended.len());
    if count > 0 {
        told.push(format!("{count} {} ended", plural(count, "process was", "processes were")));
    }
    if !report.ports_freed.is_empty() {
        told.push(format!("ports freed: {}", joined(&report.ports_freed)));
    }
    if !report.survivors.is_empty() {
        let survivors: Vec<_> = report
            .survivors
            .iter()
            .take(NAMED)
            .map(|survivor| {
                let command = one_line(&survivor.command, COMMAND);
                format!("{} ({command}): {}", survivor.pid, one_line(&survivor.why, 80))
            })
            .collect();
        told.push(format!("STILL ALIVE, could not be ended: {}", survivors.join(", ")));
    }
    told
}

fn listed(processes: &[ProcessView]) -> String {
    let mut named: Vec<_> = processes
        .iter()
        .take(NAMED)
        .map(|process| format!("{} ({})", process.pid, one_line(&process.command, COMMAND)))
        .collect();
    if processes.len() > NAMED {
        named.push(format!("and {} more", processes.len() - NAMED));
    }
    named.join(", ")
}

fn joined(ports: &[u16]) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn path(view: &TaskView) -> String {
    one_line(&view.output.path, usize::MAX)
}

const fn plural(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn to_seconds(duration: Duration) -> Duration {
    if duration.as_secs() > 0 { Duration::from_secs(duration.as_secs()) } else { duration }
}

#[cfg(test)]
#[path = "advice/tests.rs"]
mod tests;
