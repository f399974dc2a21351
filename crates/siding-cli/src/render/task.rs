//! `siding show`: one task on one screen.

use std::fmt::Write as _;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::advice::until_deadline;
use siding_model::duration::{format_duration, format_duration_exact};
use siding_model::record::StopReport;
use siding_model::size::format_size as size;
use siding_model::task_view::{MonitorView, PlacementKind, TaskView};
use siding_model::text::{self, one_line};

use super::COLUMNS;
use super::bar::format_progress;
use super::paint::{Colour, Paint};
use super::state;
use super::why;
use super::wrap::{words, wrap};

/// Columns before the values.
const INDENT: usize = 13;
/// Columns of a value.
const VALUE: usize = COLUMNS - INDENT;
/// Lines a long command takes at most.
const COMMAND_LINES: usize = 5;
/// Processes listed, of those that live and of those that were ended.
const LISTED: usize = 12;
/// Lines a breach takes at most.
const BREACH_LINES: usize = 4;
/// Lines that what makes it ready takes at most.
const READY_LINES: usize = 4;
/// Remotes listed.
const REMOTES: usize = 5;
/// Lines shown of the end of the output.
const OUTPUT_LINES: usize = 10;

/// Returns a task on one screen. The output's text and the message come from the view.
pub(crate) fn task(view: &TaskView, colour: Colour) -> String {
    let mut sheet = Sheet { text: String::new(), colour };
    sheet.head(view);
    sheet.what(view);
    sheet.when(view);
    sheet.output(view);
    sheet.usage(view);
    sheet.processes(view);
    if let Some(report) = &view.stop_report {
        sheet.report(report);
    }
    sheet.last_lines(view);
    if let Some(message) = &view.message {
        sheet.block("next", &words(message, VALUE));
    }
    sheet.text
}

struct Sheet {
    text: String,
    colour: Colour,
}

impl Sheet {
    fn head(&mut self, view: &TaskView) {
        let state = match &view.outcome {
            Some(outcome) => one_line(&outcome.to_string(), COLUMNS - 16),
            None => view.phase.as_str().to_owned(),
        };
        let state = self.colour.paint(state::paint(view), &state);
        self.text.push_str(&format!("{}  {state}\n", view.task_id));
    }

    fn what(&mut self, view: &TaskView) {
        self.block("command", &wrap(&view.command, VALUE, COMMAND_LINES));
        if let Some(name) = &view.name {
            self.line("name", &one_line(name, VALUE));
        }
        // Paths stay whole: they are there to be used.
        self.line("directory", &one_line(&view.cwd, usize::MAX));
        if let Some(cwd) = view.final_cwd.as_ref().filter(|cwd| **cwd != view.cwd) {
            self.line("ended in", &one_line(cwd, usize::MAX));
        }
        if view.adopted {
            let how = match &view.sandbox {
                Some(sandbox) => {
                    format!("its host has started it, in a sandbox ({})", one_line(sandbox, VALUE))
                }
                None => "its host has started it".to_owned(),
            };
            self.line("adopted", &how);
        }
        let session = one_line(view.session_id.as_str(), VALUE);
        self.line("session", &session);
        for (label, id) in [("inside of", view.parent_task), ("same as", view.duplicate_of)] {
            if let Some(id) = id {
                self.line(label, &id.to_string());
            }
        }
    }

    fn when(&mut self, view: &TaskView) {
        self.line("started", &view.started_at);
        match &view.ended_at {
            Some(ended) => self.line("ended", &format!("{ended}, after {}", state::elapsed(view))),
            None => self.line("elapsed", &state::elapsed(view)),
        }
        if let Some(usual) = format_progress(view) {
            let runs =
                view.expected_runs.map_or_else(String::new, |runs| format!(" ({runs} runs)"));
            self.block("usually", &words(&format!("{usual}{runs}"), VALUE));
        }
        if let (Some(at), Some(left)) = (&view.deadline_at, until_deadline(view, clock::unix_now()))
        {
            let left = std::time::Duration::from_secs(left.as_secs());
            self.line("deadline", &format!("{at}, in {}", format_duration(left)));
        }
        if let Some(ready) = &view.ready {
            let says = ready.describe(view.outcome.is_none());
            self.block("ready", &wrap(&says, VALUE, READY_LINES));
        }
        if let Some(attention) = &view.attention {
            self.line("attention", &why::stalled(attention));
        }
        if let (PlacementKind::Background, Some(why)) = (view.placement.kind, view.placement.why) {
            self.line("background", why.as_str());
        }
        if let Some(leader) =
            view.leader_outcome.as_ref().filter(|_| view.leader_outcome != view.outcome)
        {
            self.line("shell", &one_line(&leader.to_string(), VALUE));
        }
        if let Some(statuses) = &view.pipeline_statuses {
            let statuses: Vec<_> = statuses.iter().map(ToString::to_string).collect();
            self.line("pipeline", &one_line(&statuses.join(" | "), VALUE));
        }
        if let Some(pid) = view.shim_pid {
            let rescues = match view.rescues {
                0 => String::new(),
                count => format!(", shim number {}", count + 1),
            };
            self.line("shim", &format!("{pid}{rescues}"));
        }
        if view.net != "host" {
            self.block("network", &words(&view.net.replace(',', ", "), VALUE));
        }
        if let Some(group) = &view.cgroup {
            self.line("cgroup", &one_line(group, usize::MAX));
        }
    }

    fn output(&mut self, view: &TaskView) {
        let output = &view.output;
        let gap = output.gap.map_or_else(String::new, |gap| {
            format!(", {} gone for good from offset {} to {}", size(gap.len()), gap.from, gap.to)
        });
        let lost = match output.lost_bytes {
            0 => String::new(),
            lost => format!(", {lost} bytes could not be stored"),
        };
        self.line("output", &format!("{} bytes{gap}{lost}", output.bytes));
        self.line("", &one_line(&output.path, usize::MAX));
        if let Some(monitor) = &view.monitor {
            self.block("told", &words(&told(monitor), VALUE));
            if let Some(pattern) = &monitor.pattern {
                self.line("", &one_line(&format!("of those that match {pattern}"), VALUE));
            }
        }
    }

    fn usage(&mut self, view: &TaskView) {
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
            self.line("used most", &parts.join(", "));
            let sent = usage.sent.iter().take(REMOTES);
            let sent = sent.map(|to| format!("{} to {}", size(to.bytes), one_line(&to.remote, 40)));
            let mut lines: Vec<String> = sent.collect();
            lines.extend(more(usage.sent.len(), REMOTES));
            self.block("sent", &lines);
        }
        for breach in &view.breaches {
            let lines = wrap(&breach.detail, VALUE, BREACH_LINES);
            let painted: Vec<_> =
                lines.iter().map(|line| self.colour.paint(Paint::Bad, line)).collect();
            self.block("over limit", &painted);
        }
    }

    fn processes(&mut self, view: &TaskView) {
        if !view.listening.is_empty() {
            let ports: Vec<_> = view.listening.iter().map(ToString::to_string).collect();
            self.block("ports", &words(&ports.join(" "), VALUE));
        }
        let mut lines: Vec<String> = view
            .processes
            .iter()
            .take(LISTED)
            .map(|process| {
                let cpu = format_duration_exact(std::time::Duration::from_millis(process.cpu_ms));
                let line = format!("{:>7} {} {cpu:>8}  ", process.pid, process.state);
                let room = VALUE.saturating_sub(line.chars().count());
                format!("{line}{}", one_line(&process.command, room))
            })
            .collect();
        lines.extend(more(view.processes.len(), LISTED));
        self.block("processes", &lines);
    }

    fn report(&mut self, report: &StopReport) {
        let mut lines: Vec<String> = report
            .ended
            .iter()
            .take(LISTED)
            .map(|ended| {
                let line = format!("{:>7} {:<8}  ", ended.pid, ended.signal);
                let room = VALUE.saturating_sub(line.chars().count());
                format!("{line}{}", one_line(&ended.command, room))
            })
            .collect();
        let total = usize::try_from(report.ended_total).unwrap_or(usize::MAX);
        lines.extend(more(total.max(report.ended.len()), LISTED));
        self.block("was ended", &lines);
        if !report.ports_freed.is_empty() {
            let ports: Vec<_> = report.ports_freed.iter().map(ToString::to_string).collect();
            self.block("ports freed", &words(&ports.join(" "), VALUE));
        }
        for survivor in &report.survivors {
            let what = format!("{} {}: {}", survivor.pid, survivor.command, survivor.why);
            let line = self.colour.paint(Paint::Bad, &one_line(&what, VALUE));
            self.line("STILL ALIVE", &line);
        }
        if let Some(why) = &report.unproven {
            self.block("NOT PROVEN", &text::wrap_text(&one_line(why, 4 * VALUE), VALUE));
        }
    }

    fn last_lines(&mut self, view: &TaskView) {
        let Some(text) = view.output.text.as_deref().filter(|text| !text.is_empty()) else {
            return;
        };
        let lines: Vec<&str> = text.lines().collect();
        let skipped = lines.len().saturating_sub(OUTPUT_LINES);
        let title = match (skipped, view.output.truncated) {
            (0, false) => "all output".to_owned(),
            _ => format!("last {} lines", lines.len() - skipped),
        };
        let title = self.colour.paint(Paint::Faint, &format!("-- {title} --"));
        self.text.push_str(&title);
        self.text.push('\n');
        for line in &lines[skipped..] {
            // Behind a bar no line can pass for one of siding's own.
            let line = one_line(line, COLUMNS - 2);
            let _a_string_takes_all = writeln!(self.text, "| {line}");
        }
        let title = self.colour.paint(Paint::Faint, "--");
        self.text.push_str(&title);
        self.text.push('\n');
    }

    fn block(&mut self, label: &str, lines: &[String]) {
        let mut label = label;
        for line in lines {
            self.line(label, line);
            label = "";
        }
    }

    fn line(&mut self, label: &str, value: &str) {
        let padded = format!("{label:<width$}", width = INDENT - 2);
        let label = self.colour.paint(Paint::Faint, &padded);
        let _a_string_takes_all = writeln!(self.text, "{label}  {value}");
    }
}

/// Returns what a monitor told, in words: `212 lines in 7 notices; 207 of them together`.
fn told(monitor: &MonitorView) -> String {
    let MonitorView { lines, notices, coalesced, text_dropped, .. } = monitor;
    let plural = |count: bool| if count { "" } else { "s" };
    let mut text =
        format!("{lines} line{} in {notices} notice{}", plural(*lines == 1), plural(*notices == 1));
    if *coalesced > 0 {
        text += &format!("; {coalesced} of them together with others");
    }
    if *text_dropped > 0 {
        text += &format!(", {text_dropped} only counted");
    }
    text
}

fn more(total: usize, shown: usize) -> Option<String> {
    total.checked_sub(shown).filter(|more| *more > 0).map(|more| format!("… and {more} more"))
}

#[cfg(test)]
mod tests {
    use siding_model::outcome::Outcome;
    use siding_model::record::{EndedProcess, OutputGap, Survivor};

    use super::super::sample::{HOSTILE, ended, process, running};
    use super::*;

    #[test]
    fn an_ended_task_is_one_screen() {
        let mut view = ended(Outcome::Exited { code: 7 });
        view.pipeline_statuses = Some(vec![0, 7]);
        view.output.gap = Some(OutputGap { from: 500, to: 1000 });
        view.output.text = Some((0..12).map(|line| format!("line {line}\n")).collect());
        view.message = Some("look at line 11".to_owned());
        let lines: String = (2..12).map(|line| format!("| line {line}\n")).collect();
        assert_eq!(
            task(&view, Colour::Off),
            format!(
                "b-4k7q0n2m8x5t  exited 7\n\
                 command      npm test\n\
                 directory    /home/p\n\
                 session      cli\n\
                 started      2025-11-21T22:41:12.345Z\n\
                 ended        2025-11-21T22:41:27.348Z, after 15s\n\
                 background   budget\n\
                 pipeline     0 | 7\n\
                 output       1500 bytes, 500B gone for good from offset 500 to 1000\n\
                 \x20            /s/tasks/b-4k7q0n2m8x5t/output\n\
                 -- last 10 lines --\n{lines}--\n\
                 next         look at line 11\n"
            )
        );
    }

    #[test]
    fn what_a_task_used_and_passed_is_shown() {
        use siding_model::limits::{Breach, PeakUsage, SentToRemote};
        use siding_model::outcome::LimitKind;
        use siding_model::process::MonotonicMs;
        let mut view = ended(Outcome::Limit { which: LimitKind::Fds });
        view.usage = Some(PeakUsage {
            memory_bytes: Some(50 << 20),
            cpu_ms: Some(1_230),
            processes: Some(1),
            fds: Some(4_096),
            sent: vec![SentToRemote { remote: "192.0.2.1".to_owned(), bytes: 3 << 20 }],
        });
        let detail = "max-fds: 4,096 open descriptors, limit 1,000".to_owned();
        let (value, limit, remote) = (4_096, 1_000, None);
        let which = LimitKind::Fds;
        view.breaches = vec![Breach {
            at: MonotonicMs(1),
            which,
            value,
            limit,
            remote,
            detail,
            watchdog: false,
        }];
        let text = task(&view, Colour::Off);
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
    fn a_monitor_says_how_much_it_told() {
        let mut monitor =
            MonitorView { pattern: None, lines: 1, notices: 1, coalesced: 0, text_dropped: 0 };
        assert_eq!(told(&monitor), "1 line in 1 notice");
        monitor = MonitorView { lines: 212, notices: 7, coalesced: 207, ..monitor };
        assert_eq!(told(&monitor), "212 lines in 7 notices; 207 of them together with others");
        monitor.text_dropped = 90;
        assert!(told(&monitor).ends_with("with others, 90 only counted"));
    }

    #[test]
    fn no_line_is_wider_than_the_screen_or_forged() {
        let mut view = running();
        view.command = HOSTILE.repeat(9);
        view.name = Some(HOSTILE.to_owned());
        view.processes = (1..40).map(|pid| process(pid, HOSTILE)).collect();
        view.listening = (10_000..10_050).collect();
        view.monitor = Some(MonitorView {
            pattern: Some(HOSTILE.to_owned()),
            lines: u64::MAX,
            notices: u32::MAX,
            coalesced: u64::MAX,
            text_dropped: u64::MAX,
        });
        view.outcome = Some(Outcome::Lost { why: HOSTILE.to_owned() });
        view.leader_outcome = Some(Outcome::FailedToStart { error: HOSTILE.to_owned() });
        view.pipeline_statuses = Some(vec![141; 100]);
        view.output.text = Some(format!("{HOSTILE}\n").repeat(30));
        let (command, why) = (HOSTILE.to_owned(), HOSTILE.to_owned());
        let signal = "SIGKILL".to_owned();
        view.stop_report = Some(StopReport {
            ended: vec![EndedProcess { pid: 7, command: command.clone(), signal }; 20],
            ended_total: 4000,
            survivors: vec![Survivor { pid: 8, command, uid: 1, why: why.clone() }],
            ports_freed: (10_000..10_050).collect(),
            unproven: Some(why),
        });
        let text = task(&view, Colour::Off);
        assert!(text.lines().count() < 75);
        for line in text.lines() {
            assert_eq!(line, one_line(line, COLUMNS));
        }
    }
}
