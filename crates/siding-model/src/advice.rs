//! What a person or an agent should know or do next, as text.

mod left;

use std::time::Duration;

use crate::id::TaskId;
use crate::outcome::{LeaderEnd, Limit, Outcome, Why};
use crate::process::Wall;
use crate::record::StopReport;
use crate::report::{PhaseName, ProcessView, TaskView};
use crate::signal::Signal;
use crate::span::human;
use crate::text::one_line;

use left::limit;
pub use left::until_deadline;

/// In whose words it is said what can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Commands and flags of the program.
    Commands,
    /// Names and arguments of the tools that a model calls, as the MCP server offers them.
    Tools,
    /// The same, as siding's own agent offers them.
    Agent,
}

impl Dialect {
    /// Returns what does something, quoted: `run`, `wait`, `output`, `stop`, `list`, `input`, `why`.
    #[must_use]
    pub fn tool(self, what: &str) -> String {
        match (self, what) {
            (Self::Commands, "list") => "`siding ps`".to_owned(),
            (Self::Commands, what) => format!("`siding {what}`"),
            (Self::Tools, what) => format!("`{what}`"),
            (Self::Agent, "run") => "`bash`".to_owned(),
            (Self::Agent, what) => format!("`task_{what}`"),
        }
    }

    /// Returns how to do something with a task: `wait`, `output`, `stop`, `show`.
    fn call(self, what: &str, id: TaskId) -> String {
        match (self, what) {
            (Self::Commands, what) => format!("`siding {what} {id}`"),
            // How a task stands is told by the list.
            (Self::Tools | Self::Agent, "show") => self.tool("list"),
            (Self::Tools | Self::Agent, what) => self.tool(what),
        }
    }

    /// Returns how a call says more than its command.
    #[must_use]
    pub fn option(self, name: &str) -> String {
        match (self, name) {
            (Self::Commands, name) => format!("--{name}"),
            (Self::Agent, "background") => "`run_in_background`".to_owned(),
            (Self::Tools | Self::Agent, name) => format!("`{name}`"),
        }
    }
}

/// How the reader of an advice learns that a task in the background has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeChannel {
    /// Only by asking.
    Missing,
    /// By a notice of its own: siding's agent, or hooks of the host, deliver it.
    Pushed,
    /// By a notice in a later answer of the tools.
    WithAnswers,
}

impl NoticeChannel {
    /// Returns the clause that promises the notice, with the separator before it.
    const fn promise(self) -> &'static str {
        match self {
            Self::Missing => "",
            Self::Pushed => "; you will be told when it ends",
            Self::WithAnswers => {
                "; you will be told when it ends, with a later answer of these tools"
            }
        }
    }
}

/// Processes that are named one by one.
const NAMED: usize = 5;
/// Columns of why it is not known whether anything is left.
const UNPROVEN: usize = 200;
/// Columns of what makes a task ready, and of what was seen.
const READY: usize = 400;
/// Columns of a command line among others.
const COMMAND: usize = 40;

/// Columns in which a command says anything, with the blanks before it.
const COMMAND_MIN: usize = 14;

/// Returns one line of at most `columns` about how a task ended, or how it stands:
/// `b-4k7q0n2m8x5t  exited 7 after 3m 12s  npm test`.
#[must_use]
pub fn line(view: &TaskView, columns: usize) -> String {
    let (id, after) = (
        format!("{}  ", view.task_id),
        format!(" after {}", human(Duration::from_millis(view.elapsed_ms))),
    );
    let room = columns.saturating_sub(id.len() + after.len());
    let state = match &view.outcome {
        Some(outcome) => one_line(&outcome.to_string(), room),
        None => view.phase.as_str().to_owned(),
    };
    if room.saturating_sub(state.chars().count()) < COMMAND_MIN {
        return format!("{id}{state}{after}");
    }
    one_line(&format!("{id}{state}{after}  {}", view.what()), columns)
}

/// Returns what the one who looks at a task should know or do next, `None` when its outcome says
/// all there is.
#[must_use]
pub fn advice(
    view: &TaskView,
    dialect: Dialect,
    channel: NoticeChannel,
    now: Wall,
) -> Option<String> {
    let id = view.task_id;
    let said = match view.phase {
        PhaseName::Starting => {
            Some(format!("it is being started; {} looks again", dialect.call("show", id)))
        }
        PhaseName::Running => Some(running(view, dialect, channel, now)),
        PhaseName::Lingering => Some(lingering(view, dialect, now)),
        PhaseName::Stopping => Some(format!(
            "it is being ended with everything it started; {} waits until that is done",
            dialect.call("wait", id)
        )),
        PhaseName::Ended => ended(view, dialect),
    };
    readiness(view, dialect).into_iter().chain(said).reduce(|all, next| format!("{all}; {next}"))
}

/// Whether it is ready, where somebody said what makes it so. Of one that has ended and was ready
/// there is nothing to say.
fn readiness(view: &TaskView, dialect: Dialect) -> Option<String> {
    let ready = view.ready.as_ref()?;
    let is_live = view.phase != PhaseName::Ended;
    let says = one_line(&ready.says(is_live), READY);
    match (is_live, ready.after_ms, dialect) {
        (false, Some(_), _) => None,
        (true, None, Dialect::Commands) => {
            Some(format!("{says}; `siding notices` tells when it is"))
        }
        (_, _, _) => Some(says),
    }
}

fn running(view: &TaskView, dialect: Dialect, channel: NoticeChannel, now: Wall) -> String {
    let id = view.task_id;
    let limit = limit(view, now).map_or_else(String::new, |limit| format!(" of {}", human(limit)));
    let next = format!(
        "{} waits for its end, {} shows what is new, {} ends it",
        dialect.call("wait", id),
        dialect.call("output", id),
        dialect.call("stop", id)
    );
    let ran = human(Duration::from_millis(view.elapsed_ms));
    let usual = progress(view).map_or_else(String::new, |usual| format!("usually {usual}; "));
    let promise = channel.promise();
    match view.placement.why {
        Some(why @ (Why::Budget | Why::Timeout)) => format!(
            "still running after {ran}{limit}, in the background{} as {id}, output in {}{promise}; \
             {usual}{next}; a command known to take this long can be started with {}, or be left to a subagent",
            if why == Why::Timeout { " since its timeout" } else { "" },
            path(view),
            dialect.option("background")
        ),
        Some(Why::Asked | Why::Known | Why::Heuristic | Why::User) => format!(
            "running for {ran}{limit} in the background as {id}, output in {}{promise}; \
             {usual}{next}",
            path(view)
        ),
        None => format!("running for {ran}{limit}; {usual}{next}"),
    }
}

fn lingering(view: &TaskView, dialect: Dialect, now: Wall) -> String {
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
        "its shell has ended{end}{processes}{ports}{left}; {} ends it now, {} shows what it still \
         writes",
        dialect.call("stop", id),
        dialect.call("output", id)
    )
}

fn ended(view: &TaskView, dialect: Dialect) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    match view.outcome.as_ref()? {
        Outcome::Exited { code } => told.extend(masked(*code, view)),
        Outcome::Signaled { by: Some(by), .. } if by == LeaderEnd::OOM => told.push(format!(
            "the kernel ended it because memory ran out; give it less to do at once{}",
            match dialect {
                Dialect::Commands => ", or limit it with --max-memory to hear of it earlier",
                Dialect::Tools | Dialect::Agent => "",
            }
        )),
        Outcome::Signaled { signal, .. } => told.push(signaled(*signal)),
        Outcome::Limit { which } => told.push(limited(*which, view)),
        Outcome::Deadline { limit_ms } => told.push(format!(
            "it ran into its deadline of {}; a longer one is given with {}{}",
            human(Duration::from_millis(*limit_ms)),
            dialect.option("timeout"),
            match dialect {
                Dialect::Commands => ", or by `siding extend` while it runs",
                Dialect::Tools | Dialect::Agent => "",
            }
        )),
        Outcome::Lost { why } => told.push(format!(
            "how it ended is not known: {}; its output may tell what was done",
            one_line(why, 200)
        )),
        Outcome::Released { by } => told.push(format!(
            "it was released by {}: what was left of it went on, without a deadline, and siding does \
             not know how it ended",
            one_line(by, 100)
        )),
        outcome @ (Outcome::Stopped { .. } | Outcome::FailedToStart { .. }) => {
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

/// A failure that the shell's own code hides. Whoever wrote to a reader that had enough, such as
/// `head`, died of SIGPIPE as it is meant to.
fn masked(code: u8, view: &TaskView) -> Option<String> {
    const BY_PIPE: i32 = 128 + 13;
    let statuses = view.pipeline_statuses.as_deref()?;
    let hidden = code == 0 && statuses.iter().any(|status| ![0, BY_PIPE].contains(status));
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
    if let Some(why) = &report.unproven {
        told.push(format!("NOT PROVEN that nothing is left: {}", one_line(why, UNPROVEN)));
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

/// Columns of a bar between other words.
const BAR: usize = 10;

/// Returns how far `done` is on the way to `all`, as `[###-------]` with `cells` cells. Beyond it
/// the last cell is a `+`.
#[must_use]
pub fn bar(done: u64, all: u64, cells: usize) -> String {
    if done > all {
        return format!("[{}+]", "#".repeat(cells - 1));
    }
    let share = u128::from(done) * cells as u128 / u128::from(all.max(1));
    let full = usize::try_from(share).unwrap_or(cells).min(cells);
    format!("[{}{}]", "#".repeat(full), "-".repeat(cells - full))
}

/// Returns what is usual and how far it is, `4m 10s, 2m in [####------]`, `None` when nothing is usual.
#[must_use]
pub fn progress(view: &TaskView) -> Option<String> {
    let usual = view.expected_ms?;
    let shown = |ms| human(Duration::from_millis(ms));
    let long = if view.expected_p90_ms.is_some_and(|p90| view.elapsed_ms > p90) {
        ", longer than nine of ten runs"
    } else {
        ""
    };
    let bar = bar(view.elapsed_ms, usual, BAR);
    Some(format!("{}, {} in{long} {bar}", shown(usual), shown(view.elapsed_ms)))
}
