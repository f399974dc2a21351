//! The content of the tabs of a task, from the read model, the task's files and `/proc`.

mod limits;

use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::clock;
use siding_live::{
    EventTone, JournalEvent, JournalHistory, LiveNotice, LiveTask, LiveView, NoticeReceipt,
};
use siding_model::duration::format_duration;
use siding_model::evidence::{ChainLink, WhyView};
use siding_model::journal::TaskState;
use siding_model::notice::NoticeKind;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::StopReport;
use siding_model::session_host::SessionHost;
use siding_model::size::size_in_words;
use siding_model::task_view::{QueuedView, TaskView};
use siding_model::text::one_line;

use crate::detail::{DetailTab, PaneLine};
use crate::row::format_ms;
use crate::theme::Tone;

pub(crate) use self::limits::peak_lines;

/// Maximum width of the text of a line before it is fitted to the screen.
const LINE_COLUMNS: usize = 400;
/// Width of a label in front of a value.
const LABEL_COLUMNS: usize = 13;
/// Width of the kind of a notice, in front of its receivers.
const NOTICE_KIND_COLUMNS: usize = 16;

/// Returns the lines of a tab; none for the output, which
/// [`OutputPane`](crate::output_pane::OutputPane) draws.
pub(crate) fn tab_lines(
    tab: DetailTab,
    view: &LiveView,
    task: &LiveTask,
    now: MonotonicMs,
) -> Vec<PaneLine> {
    let root = view.root();
    let read_state = || Some(root.task_dir(task.id()).ok()?.read().ok()?.state);
    match tab {
        DetailTab::Output => Vec::new(),
        DetailTab::Processes => process_lines(task),
        DetailTab::Limits => {
            read_state().map(|state| limits::format_limits(task, &state, now)).unwrap_or_default()
        }
        DetailTab::Events => siding_live::read_history(root, task.id())
            .map(|history| event_lines(&history))
            .unwrap_or_default(),
        DetailTab::Notices => notice_lines(root, task),
        DetailTab::Facts => {
            let host = view.session_host(&task.view.session_id);
            fact_lines(task, host, read_state().as_ref())
        }
    }
}

/// Formats a fact with its label.
fn labeled(label: &str, value: &str) -> PaneLine {
    PaneLine::labeled(format!("{label:<LABEL_COLUMNS$}"), one_line(value, LINE_COLUMNS))
}

/// Formats the events of a task, below the local time of its start.
fn event_lines(history: &JournalHistory) -> Vec<PaneLine> {
    let start = history.state.as_ref().map(|state| {
        let start = clock::format_local_time(state.started_wall);
        PaneLine::new(Tone::Faint, format!("the times count from {start}"))
    });
    start.into_iter().chain(history.events.iter().map(format_event)).collect()
}

/// Formats an event with the time since the task's start.
fn format_event(event: &JournalEvent) -> PaneLine {
    let tone = match event.tone {
        EventTone::Faint => Tone::Faint,
        EventTone::Normal => Tone::Normal,
        EventTone::Good => Tone::Good,
        EventTone::Warning => Tone::Warning,
        EventTone::Bad => Tone::Bad,
    };
    let label = format!("{:>8}  ", format_ms(event.after_ms));
    PaneLine { tone, ..PaneLine::labeled(label, one_line(&event.text, LINE_COLUMNS)) }
}

/// Formats an RFC 3339 time as local time.
fn local_time(utc: &str) -> String {
    UnixMs::from_rfc3339(utc).map_or_else(|| utc.to_owned(), clock::format_local_time)
}

/// Formats the tree of a task's processes, and the evidence of a recorded stall.
fn process_lines(task: &LiveTask) -> Vec<PaneLine> {
    if task.is_live()
        && let Some(place) = task.view.process_place()
    {
        let mut lines = vec![PaneLine::new(Tone::Faint, one_line(&place, LINE_COLUMNS))];
        lines.extend(recorded_evidence(task));
        return lines;
    }
    let Some(usage) = task.usage.as_ref().filter(|_| task.is_live()) else {
        let text = if task.is_live() { "not measured yet" } else { "no process is left" };
        return vec![PaneLine::new(Tone::Faint, text)];
    };
    let heading = PaneLine::table_row("    PID S    CPU  COMMAND");
    let mut lines = vec![PaneLine { tone: Tone::Faint, ..heading }];
    for process in siding_live::read_process_tree(&usage.pids) {
        let indent = "  ".repeat(process.depth.min(20));
        let cpu = format_ms(process.cpu_ms);
        lines.push(PaneLine::table_row(one_line(
            &format!("{:>7} {} {cpu:>6}  {indent}{}", process.pid, process.state, process.command),
            LINE_COLUMNS,
        )));
    }
    if lines.len() == 1 {
        lines[0] = PaneLine::new(Tone::Faint, "no process is left");
    } else {
        lines.push(PaneLine::new(Tone::Faint, "w shows what each of them waits for"));
    }
    lines.extend(recorded_evidence(task));
    lines
}

/// Formats the evidence of the recorded stall; none without a stall.
fn recorded_evidence(task: &LiveTask) -> Vec<PaneLine> {
    let Some(stall) = task.stall() else { return Vec::new() };
    let recorded = WhyView::new(task.id(), stall.evidence.clone());
    evidence_lines("Recorded when the task became silent", &recorded)
}

/// Formats the notices of a task with the consumers that have acknowledged them.
fn notice_lines(root: &StateDir, task: &LiveTask) -> Vec<PaneLine> {
    let receipts = siding_live::read_receipts(root, task);
    let format_notice = |(notice, receipt): (&LiveNotice, &NoticeReceipt)| {
        let is_missing = receipt.receivers.is_empty() && !receipt.is_reserved;
        let tone = if is_missing { Tone::Warning } else { Tone::Faint };
        let (kind, received) = (notice_kind(notice.kind), receipt.describe());
        let at = clock::format_local_time(notice.at);
        PaneLine::new(tone, format!("{at}  {kind:<NOTICE_KIND_COLUMNS$}  {received}"))
    };
    task.notices.iter().zip(&receipts).map(format_notice).collect()
}

const fn notice_kind(kind: NoticeKind) -> &'static str {
    match kind {
        NoticeKind::Ended => "ended",
        NoticeKind::Stalled => "silent",
        NoticeKind::Lingering => "processes left",
        NoticeKind::Limit => "over a limit",
        NoticeKind::Matched => "matching lines",
        NoticeKind::Ready => "ready",
        NoticeKind::Expiring => "deadline is near",
        NoticeKind::Terminal => "user of terminal",
    }
}

fn fact_lines(
    task: &LiveTask,
    host: Option<SessionHost>,
    state: Option<&TaskState>,
) -> Vec<PaneLine> {
    let view = &task.view;
    let mut lines = vec![labeled("id", &view.task_id.to_string())];
    let mut add = |label: &str, value: &str| lines.push(labeled(label, value));
    if let Some(name) = &view.name {
        add("name", name);
    }
    add("command", &view.command);
    add("directory", &view.cwd);
    add("session", view.session_id.as_str());
    if let Some(host) = host {
        add("host", host.label());
    }
    add("kind", view.kind.label());
    executor_facts(view).iter().for_each(|(label, value)| add(label, value));
    if view.adopted {
        add("origin", "adopted while it was running");
    }
    match &view.outcome {
        Some(outcome) => add("outcome", &outcome.to_string()),
        None => add("phase", view.phase.as_str()),
    }
    add("started", &local_time(&view.started_at));
    if let Some(ended) = &view.ended_at {
        add("ended", &local_time(ended));
    }
    if let Some(expected) = view.expected_ms {
        let runs = view.expected_runs.unwrap_or(0);
        let p90 = view.expected_p90_ms.map_or_else(String::new, |ms| {
            format!(", nine of ten within {}", format_duration(Duration::from_millis(ms)))
        });
        let usual = format_duration(Duration::from_millis(expected));
        add("usually", &format!("{usual} in {runs} runs{p90}"));
    }
    add("output", &format!("{}  {}", size_in_words(view.output.bytes), view.output.path));
    add("network", &view.net);
    if let Some(pid) = view.shim_pid {
        let replaced = view.shim_replacements().map(|text| format!(", {text}"));
        add("shim", &format!("process {pid}{}", replaced.unwrap_or_default()));
    }
    if let Some(parent) = view.parent_task {
        add("started by", &parent.to_string());
    }
    if let Some(group) = state.and_then(|state| state.cgroup.as_ref()) {
        add("cgroup", group);
    }
    if let Some(report) = &view.stop_report {
        lines.push(PaneLine::new(Tone::Strong, "Processes that its stop ended"));
        lines.extend(stop_lines(report));
    }
    lines
}

/// Returns the labels and values of the facts about a remote machine.
fn executor_facts(view: &TaskView) -> Vec<(&'static str, String)> {
    let unreachable = view.unreachable.as_ref();
    let describe_queue = |queued: &QueuedView| {
        let start = queued.expected_start.as_ref().map(|start| local_time(start));
        queued.describe(start.as_deref())
    };
    [
        ("executor", view.executor_text()),
        ("job", view.job_id.clone().filter(|_| view.queued.is_none())),
        ("queued", view.queued.as_ref().map(describe_queue)),
        ("waited", view.queued_ms.map(|ms| format!("{} in the queue", format_ms(ms)))),
        ("unreachable", unreachable.map(|view| view.describe(&local_time(&view.since)))),
        ("sent by", view.sent_by.clone()),
    ]
    .into_iter()
    .filter_map(|(label, value)| Some((label, value?)))
    .collect()
}

/// Formats the processes that a stop has ended, and those that may be left.
pub(crate) fn stop_lines(report: &StopReport) -> Vec<PaneLine> {
    let mut lines = Vec::new();
    for ended in &report.ended {
        let text = format!("ended {:>7}  {:<8} {}", ended.pid, ended.signal, ended.command);
        lines.push(PaneLine::table_row(one_line(&text, LINE_COLUMNS)));
    }
    let listed = u32::try_from(report.ended.len()).unwrap_or(u32::MAX);
    if report.ended_total > listed {
        lines.push(PaneLine::normal(format!("and {} more", report.ended_total - listed)));
    }
    for survivor in &report.survivors {
        let text =
            format!("STILL ALIVE {:>7}  {}: {}", survivor.pid, survivor.command, survivor.why);
        lines.push(PaneLine::new(Tone::Bad, one_line(&text, LINE_COLUMNS)));
    }
    if let Some(why) = &report.unproven {
        let text = format!("NOT PROVEN that nothing is left: {why}");
        lines.push(PaneLine::new(Tone::Bad, one_line(&text, LINE_COLUMNS)));
    }
    if !report.ports_freed.is_empty() {
        let ports: Vec<String> = report.ports_freed.iter().map(u16::to_string).collect();
        lines.push(PaneLine::normal(format!("ports freed: {}", ports.join(", "))));
    }
    lines
}

/// Formats the evidence about a silent task, below a heading.
pub(crate) fn evidence_lines(title: &str, view: &WhyView) -> Vec<PaneLine> {
    let mut lines = vec![
        PaneLine::new(Tone::Strong, title),
        PaneLine::normal(format!(
            "{}, silent for {}, {:.1} % of a core",
            view.verdict.phrase_with_certainty(view.waiting_on, view.awaited_input, view.certainty),
            format_duration(Duration::from_millis(view.silent_ms)),
            view.cpu_percent
        )),
    ];
    for (depth, link) in view.chain.iter().enumerate() {
        lines.extend(link_lines(link, depth));
    }
    if !view.tail.trim().is_empty() {
        lines.push(labeled("last line", &view.tail));
    }
    lines.push(labeled("next", &view.advice));
    lines
}

/// Formats the waits of a task's processes, except for those that `shown` has already named.
pub(crate) fn other_process_lines(shown: &[ChainLink], all: &[ChainLink]) -> Vec<PaneLine> {
    /// Maximum number of listed processes.
    const MAX_LISTED: usize = 64;
    let is_new = |link: &&ChainLink| shown.iter().all(|one| one.pid != link.pid);
    let others: Vec<&ChainLink> = all.iter().filter(is_new).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![PaneLine::new(Tone::Strong, "Other processes")];
    lines.extend(others.iter().take(MAX_LISTED).flat_map(|link| link_lines(link, 0)));
    if others.len() > MAX_LISTED {
        lines.push(PaneLine::normal(format!("and {} more", others.len() - MAX_LISTED)));
    }
    lines
}

/// Formats a process, and below it the operation for which the process waits.
fn link_lines(link: &ChainLink, depth: usize) -> Vec<PaneLine> {
    let indent = "  ".repeat(depth.min(20));
    let process = format!("{:>7} {} {indent}{}", link.pid, link.state, link.command);
    let mut lines = vec![PaneLine::table_row(one_line(&process, LINE_COLUMNS))];
    if let Some(wait) = siding_live::describe_wait(link) {
        let label = format!("          {indent}");
        let wait = PaneLine::labeled(label, one_line(&wait, LINE_COLUMNS));
        lines.push(PaneLine { tone: Tone::Busy, ..wait });
    }
    lines
}

#[cfg(test)]
mod tests {
    use siding_model::sample::sample_task_view;
    use siding_model::task_view::UnreachableView;

    use super::*;
    use crate::detail::wrap_lines;

    #[test]
    fn each_process_is_explained_once() {
        let link = |pid: i32| ChainLink {
            pid,
            command: format!("program {pid}"),
            state: "S".to_owned(),
            syscall: Some("read".to_owned()),
            object: None,
            detail: Some("descriptor 0".to_owned()),
        };
        assert_eq!(other_process_lines(&[link(1)], &[link(1)]), []);
        let lines = other_process_lines(&[link(1)], &[link(1), link(2)]);
        let rows: Vec<String> = wrap_lines(&lines, 80).into_iter().map(|(_, row)| row).collect();
        assert_eq!(
            rows,
            ["Other processes", "      2 S program 2", "          read; descriptor 0"]
        );
        let many: Vec<ChainLink> = (0..70).map(link).collect();
        let last = other_process_lines(&[], &many).pop().expect("a line");
        assert_eq!(last.text, "and 6 more");
    }

    #[test]
    fn the_advice_about_a_silent_task_is_complete_in_a_narrow_terminal() {
        let advice = "answer with `siding input b-4k7q yes`, or start it again without a question";
        let rows = wrap_lines(&[labeled("next", advice)], 40);
        let rows: Vec<&str> = rows.iter().map(|(_, row)| row.as_str()).collect();
        assert_eq!(
            rows,
            [
                "next         answer with `siding input",
                "             b-4k7q yes`, or start it",
                "             again without a question",
            ]
        );
    }

    #[test]
    fn the_replacements_of_a_shim_are_counted() {
        let mut task = LiveTask::from_view(sample_task_view());
        task.view.shim_pid = Some(7);
        let expected =
            [(0, "process 7"), (1, "process 7, replaced once"), (2, "process 7, replaced 2 times")];
        for (count, text) in expected {
            task.view.rescues = count;
            let lines = fact_lines(&task, None, None);
            assert!(lines.contains(&labeled("shim", text)), "{lines:?}");
        }
    }

    #[test]
    fn the_facts_name_the_remote_machine() {
        let mut view = sample_task_view();
        assert!(executor_facts(&view).is_empty());
        view.executor = Some("build".to_owned());
        view.machine = Some("build07".to_owned());
        let (since, why) = ("soon".to_owned(), "ssh: timed out".to_owned());
        view.unreachable = Some(UnreachableView { since, why, stop_pending: true });
        let facts = [
            ("executor", "build (build07)".to_owned()),
            ("unreachable", "since soon, ssh: timed out; a stop is pending".to_owned()),
        ];
        assert_eq!(executor_facts(&view), facts);
    }

    #[test]
    fn the_kind_of_a_notice_fits_its_column() {
        for kind in NoticeKind::ALL {
            let name = notice_kind(kind);
            assert!(name.len() <= NOTICE_KIND_COLUMNS, "{name}");
        }
    }

    #[test]
    fn the_processes_of_a_remote_task_are_elsewhere() {
        let mut task = LiveTask::from_view(sample_task_view());
        let text = |task: &LiveTask| process_lines(task).first().map(|line| line.text.clone());
        assert_eq!(text(&task).as_deref(), Some("not measured yet"));
        task.view.executor = Some("build".to_owned());
        task.view.machine = Some("build07".to_owned());
        let id = task.id();
        let there = format!(
            "the processes are on build (build07); `siding why {id}` shows what they wait for"
        );
        assert_eq!(text(&task), Some(there));
        task.view.queued = Some(QueuedView {
            job_id: Some("7".to_owned()),
            state: "PENDING".to_owned(),
            reason: None,
            expected_start: None,
        });
        let waits = "no process yet: the job waits in the queue of build";
        assert_eq!(text(&task).as_deref(), Some(waits));
        task.view.queued = None;
        task.view.outcome = Some(siding_model::outcome::Outcome::Exited { code: 0 });
        assert_eq!(text(&task).as_deref(), Some("no process is left"));
    }

    #[test]
    fn the_number_of_a_job_remains_after_the_queue() {
        let mut view = sample_task_view();
        (view.job_id, view.queued_ms) = (Some("7".to_owned()), Some(12_345));
        let expected = [("job", "7".to_owned()), ("waited", "12s in the queue".to_owned())];
        assert_eq!(executor_facts(&view), expected);
    }

    #[test]
    fn a_stop_names_what_is_left() {
        let report = StopReport {
            ended_total: 3,
            unproven: Some("one\nmore".to_owned()),
            ports_freed: vec![80],
            ..StopReport::default()
        };
        let texts: Vec<String> = stop_lines(&report).into_iter().map(|line| line.text).collect();
        assert_eq!(
            texts,
            ["and 3 more", "NOT PROVEN that nothing is left: one\\nmore", "ports freed: 80"]
        );
    }
}
