//! The output of `siding show`: one task on one screen.

mod executor;

use std::fmt::Write as _;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::advice::until_deadline;
use siding_model::duration::{format_duration, format_duration_exact};
use siding_model::outcome::Outcome;
use siding_model::record::StopReport;
use siding_model::size::{format_size as size, size_in_words};
use siding_model::task_view::{MonitorView, PlacementKind, TaskView};
use siding_model::terminal::AwaitedInput;
use siding_model::text::{self, one_line, wrap_words};

use super::bar::format_progress;
use super::color::{ColorMode, TextStyle};
use super::local_time::TimeZone;
use super::state;
use super::why;
use super::wrap::wrap_untrusted;

/// Width of the labels in columns.
const LABEL_COLUMNS: usize = 13;
/// Minimum width of the values in columns, even if the lines are then longer than the screen.
const MIN_VALUE_COLUMNS: usize = 12;
/// Maximum lines of a command.
const MAX_COMMAND_LINES: usize = 5;
/// Maximum number of processes in each list: one of running and one of ended processes.
const MAX_LISTED_PROCESSES: usize = 12;
/// Maximum lines of a limit breach.
const MAX_BREACH_LINES: usize = 4;
/// Maximum lines of the readiness conditions.
const MAX_READY_LINES: usize = 4;
/// Maximum number of remote addresses to list.
const MAX_LISTED_REMOTES: usize = 5;
/// Number of lines shown from the end of the output.
const TAIL_LINES: usize = 10;

/// Formats a task as one screen of this width, with times in this zone. The caller must have stored
/// the end of the output and the advice in the view.
pub(crate) fn task_screen(
    view: &TaskView,
    color: ColorMode,
    columns: usize,
    zone: TimeZone,
) -> String {
    let mut sheet = TaskScreen { text: String::new(), color, columns, zone };
    sheet.add_header(view);
    sheet.add_identity(view);
    sheet.add_timing(view);
    sheet.add_terminal(view);
    sheet.add_output(view);
    sheet.add_usage(view);
    sheet.add_processes(view);
    if let Some(report) = &view.stop_report {
        sheet.add_stop_report(report);
    }
    sheet.add_last_lines(view);
    sheet.add_message(view);
    sheet.text
}

struct TaskScreen {
    text: String,
    color: ColorMode,
    /// Width of the screen.
    columns: usize,
    zone: TimeZone,
}

impl TaskScreen {
    /// Returns the width of the values in columns.
    fn value_columns(&self) -> usize {
        self.columns.saturating_sub(LABEL_COLUMNS).max(MIN_VALUE_COLUMNS)
    }

    fn add_header(&mut self, view: &TaskView) {
        let state = match &view.outcome {
            Some(outcome) => one_line(
                &outcome.to_string(),
                self.columns.saturating_sub(16).max(MIN_VALUE_COLUMNS),
            ),
            None => view.live_state().to_owned(),
        };
        let state = self.color.apply(state::state_style(view), &state);
        self.text.push_str(&format!("{}  {state}\n", view.task_id));
    }

    fn add_identity(&mut self, view: &TaskView) {
        self.add_block(
            "command",
            &wrap_untrusted(&view.command, self.value_columns(), MAX_COMMAND_LINES),
        );
        if let Some(name) = &view.name {
            self.add_line("name", &one_line(name, self.value_columns()));
        }
        // Paths are not truncated, so that they can be copied.
        self.add_line("directory", &one_line(&view.cwd, usize::MAX));
        if let Some(cwd) = view.final_cwd.as_ref().filter(|cwd| **cwd != view.cwd) {
            self.add_line("ended in", &one_line(cwd, usize::MAX));
        }
        if view.adopted {
            let how = match &view.sandbox {
                Some(sandbox) => {
                    format!(
                        "started by its host, in a sandbox ({})",
                        one_line(sandbox, self.value_columns())
                    )
                }
                None => "started by its host".to_owned(),
            };
            self.add_words("adopted", &how);
        }
        self.add_executor(view);
        let session = one_line(view.session_id.as_str(), self.value_columns());
        self.add_line("session", &session);
        for (label, id) in [("inside", view.parent_task), ("same as", view.duplicate_of)] {
            if let Some(id) = id {
                self.add_line(label, &id.to_string());
            }
        }
    }

    /// Adds the deadline and, if different, the time limit of the job.
    fn add_deadline(&mut self, view: &TaskView) {
        let is_job_limit = view.job_ends_at.is_some() && view.job_ends_at == view.deadline_at;
        if let (Some(at), Some(left)) = (&view.deadline_at, until_deadline(view, clock::unix_now()))
        {
            let left = format_duration(std::time::Duration::from_secs(left.as_secs()));
            let at = self.zone.format(at);
            let effect = if is_job_limit {
                "the cluster ends the job then, at its time limit; `siding extend` asks it for more"
            } else {
                "the task is ended then; `siding extend` moves this time"
            };
            self.add_words("deadline", &format!("{at}, in {left}: {effect}"));
        } else if view.queued.is_some() {
            self.add_words("deadline", "none yet: it counts from the start of the job");
        } else if view.outcome.is_none() {
            self.add_words("deadline", "none, while a person waits in the foreground");
        }
        if let Some(at) = view.job_ends_at.as_ref().filter(|_| !is_job_limit) {
            let at = self.zone.format(at);
            self.add_words("job limit", &format!("{at}: the cluster ends the job then"));
        }
    }

    fn add_timing(&mut self, view: &TaskView) {
        self.add_line("started", &self.zone.format(&view.started_at));
        match &view.ended_at {
            Some(ended) => {
                let ended = self.zone.format(ended);
                self.add_words("ended", &format!("{ended}, after {}", state::format_elapsed(view)))
            }
            None if view.queued.is_some() => {}
            None => self.add_line("elapsed", &state::format_elapsed(view)),
        }
        if let Some(waited) = view.queued_ms {
            let waited = format_duration(Duration::from_millis(waited));
            self.add_line("waited", &format!("{waited} in the queue"));
        }
        if let Some(usual) = format_progress(view) {
            let runs =
                view.expected_runs.map_or_else(String::new, |runs| format!(" ({runs} runs)"));
            self.add_words("usually", &format!("{usual}{runs}"));
        }
        self.add_deadline(view);
        if let Some(ready) = &view.ready {
            let says = ready.describe(view.outcome.is_none());
            self.add_block("ready", &wrap_untrusted(&says, self.value_columns(), MAX_READY_LINES));
        }
        if let Some(attention) = &view.attention {
            self.add_words("attention", &why::format_attention(attention));
        }
        if let (PlacementKind::Background, Some(why)) = (view.placement.kind, view.placement.why) {
            self.add_line("background", why.as_str());
        }
        if let Some(leader) =
            view.leader_outcome.as_ref().filter(|_| view.leader_outcome != view.outcome)
        {
            self.add_line("shell", &one_line(&leader.to_string(), self.value_columns()));
        }
        if let Some(statuses) = &view.pipeline_statuses {
            let statuses: Vec<_> = statuses.iter().map(ToString::to_string).collect();
            self.add_line("pipeline", &one_line(&statuses.join(" | "), self.value_columns()));
        }
        if let Some(pid) = view.shim_pid {
            let rescues = match view.rescues {
                0 => String::new(),
                count => format!(", shim number {}", count + 1),
            };
            self.add_line("shim", &format!("{pid}{rescues}"));
        }
        if view.net != "host" {
            self.add_words("network", &view.net.replace(',', ", "));
        }
        if let Some(group) = &view.cgroup {
            self.add_line("cgroup", &one_line(group, usize::MAX));
        }
    }

    /// Adds the terminal, and the commands that show it and open it.
    fn add_terminal(&mut self, view: &TaskView) {
        if let Some(path) = &view.host_terminal {
            let path = one_line(path, usize::MAX);
            self.add_words(
                "terminal",
                &format!("{path}, which siding has not opened and cannot show"),
            );
        }
        let Some(terminal) = &view.terminal else { return };
        let mut says = terminal.size.to_string();
        if terminal.alternate == Some(true) {
            says += ", a full-screen program";
        }
        if let Some(since) = &terminal.taken_since {
            says += &format!(", a person types since {}", self.zone.format(since));
        }
        let id = view.task_id;
        let asks_for_secret = view
            .attention
            .as_ref()
            .is_some_and(|found| found.awaited_input == Some(AwaitedInput::Secret));
        says += &match &view.outcome {
            None if asks_for_secret => {
                format!("; a person enters the secret with `siding answer {id}`")
            }
            None => format!("; `siding attach {id}` opens it"),
            Some(_) => format!("; `siding screen {id}` shows its last screen"),
        };
        self.add_words("terminal", &says);
    }

    fn add_output(&mut self, view: &TaskView) {
        let output = &view.output;
        let gap = output.gap.map_or_else(String::new, |gap| {
            let size = size_in_words(gap.len());
            format!(", {size} no longer kept, from offset {} to {}", gap.from, gap.to)
        });
        let lost = match output.lost_bytes {
            0 => String::new(),
            lost => format!(", {} could not be stored", size_in_words(lost)),
        };
        let written = size_in_words(output.bytes);
        self.add_words("output", &format!("{written}{gap}{lost}"));
        self.add_line("", &one_line(&output.path, usize::MAX));
        if let Some(monitor) = &view.monitor {
            self.add_words("reported", &format_monitor_counts(monitor));
            if let Some(pattern) = &monitor.pattern {
                self.add_line(
                    "",
                    &one_line(&format!("of those that match {pattern}"), self.value_columns()),
                );
            }
        }
    }

    fn add_usage(&mut self, view: &TaskView) {
        if let Some(usage) = &view.usage {
            let count = |count: u64, one: &str, many: &str| {
                format!("{count} {}", if count == 1 { one } else { many })
            };
            let parts = [
                usage.memory_bytes.map(size),
                usage
                    .cpu_ms
                    .map(|ms| format!("{} CPU", format_duration(Duration::from_millis(ms)))),
                usage.processes.map(|number| count(number, "process", "processes")),
                usage.fds.map(|number| count(number, "descriptor", "descriptors")),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            self.add_words("used most", &parts.join(", "));
            let sent = usage.sent.iter().take(MAX_LISTED_REMOTES);
            let room = self.value_columns();
            let sent =
                sent.map(|to| one_line(&format!("{} to {}", size(to.bytes), to.remote), room));
            let mut lines: Vec<String> = sent.collect();
            lines.extend(format_remaining(usage.sent.len(), MAX_LISTED_REMOTES));
            self.add_block("sent", &lines);
        }
        for breach in &view.breaches {
            let lines = wrap_untrusted(&breach.detail, self.value_columns(), MAX_BREACH_LINES);
            let painted: Vec<_> =
                lines.iter().map(|line| self.color.apply(TextStyle::Bad, line)).collect();
            self.add_block("over limit", &painted);
        }
    }

    fn add_processes(&mut self, view: &TaskView) {
        if !view.listening.is_empty() {
            let ports: Vec<_> = view.listening.iter().map(ToString::to_string).collect();
            self.add_words("ports", &ports.join(" "));
        }
        let mut lines: Vec<String> = view
            .processes
            .iter()
            .take(MAX_LISTED_PROCESSES)
            .map(|process| {
                let cpu = format_duration_exact(std::time::Duration::from_millis(process.cpu_ms));
                let line = format!("{:>7} {} {cpu:>8}  ", process.pid, process.state);
                one_line(&format!("{line}{}", process.command), self.value_columns())
            })
            .collect();
        lines.extend(format_remaining(view.processes.len(), MAX_LISTED_PROCESSES));
        self.add_block("processes", &lines);
    }

    fn add_stop_report(&mut self, report: &StopReport) {
        let mut lines: Vec<String> = report
            .ended
            .iter()
            .take(MAX_LISTED_PROCESSES)
            .map(|ended| {
                let line = format!("{:>7} {:<8}  ", ended.pid, ended.signal);
                one_line(&format!("{line}{}", ended.command), self.value_columns())
            })
            .collect();
        let total = usize::try_from(report.ended_total).unwrap_or(usize::MAX);
        lines.extend(format_remaining(total.max(report.ended.len()), MAX_LISTED_PROCESSES));
        self.add_block("was ended", &lines);
        if !report.ports_freed.is_empty() {
            let ports: Vec<_> = report.ports_freed.iter().map(ToString::to_string).collect();
            self.add_words("ports freed", &ports.join(" "));
        }
        for survivor in &report.survivors {
            let what = format!("{} {}: {}", survivor.pid, survivor.command, survivor.why);
            let line = self.color.apply(TextStyle::Bad, &one_line(&what, self.value_columns()));
            self.add_line("STILL ALIVE", &line);
        }
        if let Some(why) = &report.unproven {
            self.add_block(
                "NOT PROVEN",
                &text::wrap_text(&one_line(why, 4 * self.value_columns()), self.value_columns()),
            );
        }
    }

    fn add_last_lines(&mut self, view: &TaskView) {
        let Some(text) = view.output.text.as_deref().filter(|text| !text.is_empty()) else {
            return;
        };
        let lines: Vec<&str> = text.lines().collect();
        // The lines before an omitted part are the beginning of the output.
        let tail = lines.iter().rposition(|line| is_omission(line)).map_or(0, |at| at + 1);
        let skipped = tail.max(lines.len().saturating_sub(TAIL_LINES));
        let title = match (skipped, view.output.truncated) {
            (_, true) => "end of the output".to_owned(),
            (0, false) => "all output".to_owned(),
            (_, false) => format!("last {} lines", lines.len() - skipped),
        };
        let title = self.color.apply(TextStyle::Faint, &format!("-- {title} --"));
        self.text.push_str(&title);
        self.text.push('\n');
        for line in &lines[skipped..] {
            // The leading `|` marks the line as output, so that it cannot be mistaken for siding's
            // own text.
            let line = one_line(line, self.columns.saturating_sub(2).max(MIN_VALUE_COLUMNS));
            let _writing_to_string = writeln!(self.text, "| {line}");
        }
        let title = self.color.apply(TextStyle::Faint, "--");
        self.text.push_str(&title);
        self.text.push('\n');
    }

    /// Adds the next step, or for an ended task the explanation of its end.
    fn add_message(&mut self, view: &TaskView) {
        match (&view.outcome, &view.message) {
            // The lines above already name the requester of the stop and the terminated processes.
            (_, None) | (Some(Outcome::Stopped { .. }), _) => {}
            (Some(_), Some(message)) => self.add_words("note", message),
            (None, Some(message)) => self.add_words("next", message),
        }
    }

    /// Adds siding's own words, with each line wrapped to the width of the values.
    fn add_words(&mut self, label: &str, words: &str) {
        let columns = self.value_columns();
        let lines: Vec<String> = words.lines().flat_map(|line| wrap_words(line, columns)).collect();
        self.add_block(label, &lines);
    }

    fn add_block(&mut self, label: &str, lines: &[String]) {
        let mut label = label;
        for line in lines {
            self.add_line(label, line);
            label = "";
        }
    }

    fn add_line(&mut self, label: &str, value: &str) {
        let padded = format!("{label:<width$}", width = LABEL_COLUMNS - 2);
        let label = self.color.apply(TextStyle::Faint, &padded);
        let _writing_to_string = writeln!(self.text, "{label}  {value}");
    }
}

/// Returns whether a line of a cut output stands for the omitted part. A task can print such a line;
/// fewer lines are then shown.
fn is_omission(line: &str) -> bool {
    line.starts_with("… ") && line.contains(", from offset ") && line.ends_with('…')
}

/// Summarizes the reports of a monitor, for example `212 lines in 7 notices; 207 of them combined`.
fn format_monitor_counts(monitor: &MonitorView) -> String {
    let MonitorView { lines, notices, coalesced, text_dropped, .. } = monitor;
    let plural = |count: bool| if count { "" } else { "s" };
    let mut text =
        format!("{lines} line{} in {notices} notice{}", plural(*lines == 1), plural(*notices == 1));
    if *coalesced > 0 {
        text += &format!("; {coalesced} of them combined");
    }
    if *text_dropped > 0 {
        text += &format!(", {text_dropped} only counted");
    }
    text
}

fn format_remaining(total: usize, shown: usize) -> Option<String> {
    total.checked_sub(shown).filter(|more| *more > 0).map(|more| format!("… and {more} more"))
}

#[cfg(test)]
mod tests {
    use siding_model::record::{EndedProcess, OutputGap, Survivor};

    use super::super::LINE_COLUMNS;
    use super::super::sample::{
        HOSTILE_TEXT, ended_task, running_task, sample_breach, sample_process,
    };
    use super::*;

    #[test]
    fn an_ended_task_fits_one_screen() {
        let mut view = ended_task(Outcome::Exited { code: 7 });
        view.pipeline_statuses = Some(vec![0, 7]);
        view.output.gap = Some(OutputGap { from: 500, to: 1000 });
        view.output.text = Some((0..12).map(|line| format!("line {line}\n")).collect());
        view.message = Some("look at line 11".to_owned());
        let lines: String = (2..12).map(|line| format!("| line {line}\n")).collect();
        assert_eq!(
            task_screen(&view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc),
            format!(
                "b-4k7q0n2m8x5t  exited 7\n\
                 command      npm test\n\
                 directory    /home/p\n\
                 session      cli\n\
                 started      2025-11-21T22:41:12.345Z\n\
                 ended        2025-11-21T22:41:27.348Z, after 15s\n\
                 background   budget\n\
                 pipeline     0 | 7\n\
                 output       1.4 KiB, 500 bytes no longer kept, from offset 500 to 1000\n\
                 \x20            /s/tasks/b-4k7q0n2m8x5t/output\n\
                 -- last 10 lines --\n{lines}--\n\
                 note         look at line 11\n"
            )
        );
    }

    #[test]
    fn the_message_is_a_next_step_only_while_the_task_runs() {
        let last_line = |mut view: TaskView| {
            view.message = Some("words".to_owned());
            let text = task_screen(&view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc);
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(last_line(running_task()), "next         words");
        let failed = Outcome::FailedToStart { error: "no such file".to_owned() };
        assert_eq!(last_line(ended_task(failed)), "note         words");
        let stopped = Outcome::Stopped { by: "user".to_owned() };
        assert!(!last_line(ended_task(stopped)).contains("words"));
    }

    #[test]
    fn only_the_end_of_a_cut_output_is_shown() {
        let mut view = running_task();
        let omission = "… 900 MiB left out, from offset 16384 to 943734784; `siding output` …";
        view.output.text =
            Some(format!("y\n… repeated 8191 times\n{omission}\ny\n… repeated 9 times\n"));
        view.output.truncated = true;
        let text = task_screen(&view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc);
        let end = "-- end of the output --\n| y\n| … repeated 9 times\n--\n";
        assert!(text.ends_with(end), "{text}");
        assert!(!text.contains("left out"), "{text}");
    }

    #[test]
    fn resource_usage_and_limit_breaches_are_shown() {
        use siding_model::limits::{PeakUsage, SentToRemote};
        use siding_model::outcome::LimitKind;
        let mut view = ended_task(Outcome::Limit { limit_kind: LimitKind::Fds });
        view.usage = Some(PeakUsage {
            memory_bytes: Some(50 << 20),
            cpu_ms: Some(1_230),
            processes: Some(1),
            fds: Some(4_096),
            sent: vec![SentToRemote { remote: "192.0.2.1".to_owned(), bytes: 3 << 20 }],
        });
        view.breaches = vec![sample_breach()];
        let text = task_screen(&view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc);
        for line in [
            "b-4k7q0n2m8x5t  stopped at its limit max-fds",
            "used most    50MiB, 1.2s CPU, 1 process, 4096 descriptors",
            "sent         3MiB to 192.0.2.1",
            "over limit   max-fds: 4,096 open descriptors, limit 1,000",
        ] {
            assert!(text.lines().any(|shown| shown == line), "no `{line}` in\n{text}");
        }
    }

    #[test]
    fn a_terminal_that_siding_has_not_opened_is_named() {
        let mut view = running_task();
        view.host_terminal = Some("/dev/pts/3".to_owned());
        let text = task_screen(&view, ColorMode::Off, 200, TimeZone::Utc);
        let line = "terminal     /dev/pts/3, which siding has not opened and cannot show";
        assert!(text.lines().any(|shown| shown == line), "{text}");
    }

    #[test]
    fn a_terminal_is_shown_with_the_person_who_has_it() {
        use siding_model::evidence::{AttentionView, WhyVerdict};
        use siding_model::task_view::TerminalView;
        use siding_model::terminal::TerminalSize;

        use super::super::sample::sample_attention;
        let mut view = running_task();
        view.terminal = Some(TerminalView {
            size: TerminalSize::DEFAULT,
            taken_since: Some("2025-11-21T22:41:20.000Z".to_owned()),
            alternate: Some(true),
        });
        let text = task_screen(&view, ColorMode::Off, 200, TimeZone::Utc);
        let line = "terminal     80x24, a full-screen program, a person types since \
                    2025-11-21T22:41:20.000Z; `siding attach b-4k7q0n2m8x5t` opens it";
        assert!(text.lines().any(|shown| shown == line), "{text}");
        view.attention = Some(AttentionView {
            awaited_input: Some(AwaitedInput::Secret),
            ..sample_attention(WhyVerdict::InputWait)
        });
        let text = task_screen(&view, ColorMode::Off, 200, TimeZone::Utc);
        assert!(text.contains("; a person enters the secret with `siding answer b-4k7q"), "{text}");
        assert!(text.contains("waits for a password (certain)"), "{text}");
        view.attention = None;
        view.terminal = None;
        assert!(!task_screen(&view, ColorMode::Off, 200, TimeZone::Utc).contains("terminal "));
    }

    #[test]
    fn monitor_counts_are_formatted() {
        let mut monitor =
            MonitorView { pattern: None, lines: 1, notices: 1, coalesced: 0, text_dropped: 0 };
        assert_eq!(format_monitor_counts(&monitor), "1 line in 1 notice");
        monitor = MonitorView { lines: 212, notices: 7, coalesced: 207, ..monitor };
        assert_eq!(format_monitor_counts(&monitor), "212 lines in 7 notices; 207 of them combined");
        monitor.text_dropped = 90;
        assert!(format_monitor_counts(&monitor).ends_with("combined, 90 only counted"));
    }

    #[test]
    fn no_line_exceeds_the_screen_or_is_forged() {
        let mut view = running_task();
        view.command = HOSTILE_TEXT.repeat(9);
        view.name = Some(HOSTILE_TEXT.to_owned());
        view.processes = (1..40).map(|pid| sample_process(pid, HOSTILE_TEXT)).collect();
        view.listening = (10_000..10_050).collect();
        view.monitor = Some(MonitorView {
            pattern: Some(HOSTILE_TEXT.to_owned()),
            lines: u64::MAX,
            notices: u32::MAX,
            coalesced: u64::MAX,
            text_dropped: u64::MAX,
        });
        view.outcome = Some(Outcome::Lost { why: HOSTILE_TEXT.to_owned() });
        view.leader_outcome = Some(Outcome::FailedToStart { error: HOSTILE_TEXT.to_owned() });
        view.pipeline_statuses = Some(vec![141; 100]);
        view.output.text = Some(format!("{HOSTILE_TEXT}\n").repeat(30));
        let (command, why) = (HOSTILE_TEXT.to_owned(), HOSTILE_TEXT.to_owned());
        let signal = "SIGKILL".to_owned();
        view.stop_report = Some(StopReport {
            ended: vec![EndedProcess { pid: 7, command: command.clone(), signal }; 20],
            ended_total: 4000,
            survivors: vec![Survivor { pid: 8, command, uid: 1, why: why.clone() }],
            ports_freed: (10_000..10_050).collect(),
            unproven: Some(why),
        });
        let text = task_screen(&view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc);
        assert!(text.lines().count() < 77);
        for line in text.lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
        for line in task_screen(&view, ColorMode::Off, 40, TimeZone::Utc).lines() {
            // Only a path is not cut.
            assert!(line == one_line(line, 40) || line.ends_with("/output"), "{line}");
        }
        for columns in 0..20 {
            let text = task_screen(&view, ColorMode::Off, columns, TimeZone::Local);
            assert!(text.contains("started"), "{columns}");
        }
    }
}
