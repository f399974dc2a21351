//! The text in which notices reach an agent through a hook.

use std::fmt::Write as _;

use siding_model::notice::{NoticeView, format_notice_xml};
use siding_model::task_view::TaskView;
use siding_model::text::{cut_head, cut_tail, one_line};

/// Longest text that a host passes on whole, as JavaScript counts: in units of UTF-16 (Claude
/// Code 2.1.240: a longer one becomes a file and a preview).
const MOST: usize = 10_000;
/// Room for what stands around the notices.
const AROUND: usize = 400;
/// Bytes of a summary and of a command where the whole would not fit: both may be all entities,
/// five times as long in XML.
const SHORT: usize = 600;
/// Columns of a command.
const COMMAND: usize = 80;
/// Processes that are named; the others are counted.
const NAMED: usize = 8;

/// A notice, and what lives on of its task.
#[derive(Debug)]
pub(in crate::cmd::hook) struct Fact {
    pub(in crate::cmd::hook) notice: NoticeView,
    pub(in crate::cmd::hook) living: Option<String>,
}

/// Notices as one text.
#[derive(Debug)]
pub(in crate::cmd::hook) struct Facts {
    blocks: String,
    told: usize,
    left: usize,
    /// Longest `blocks`, as JavaScript counts.
    most: usize,
}

impl Facts {
    /// Begins a text that `beside` is to be added to.
    pub(in crate::cmd::hook) fn with(beside: &str) -> Self {
        let most = (MOST - AROUND).saturating_sub(length(beside));
        Self { blocks: String::new(), told: 0, left: 0, most }
    }

    /// Adds a notice if there is room. Returns whether there was. The first always has some.
    pub(in crate::cmd::hook) fn add(&mut self, mut fact: Fact) -> bool {
        let room = self.most.saturating_sub(length(&self.blocks));
        let mut text = fact.text();
        let is_first = self.told + self.left == 0;
        if length(&text) > room && is_first {
            fact.shorten();
            text = fact.text();
        }
        if length(&text) > room && is_first {
            fact.reduce();
            text = fact.text();
        }
        if self.left > 0 || (length(&text) > room && !is_first) {
            // In order: what comes later does not overtake.
            self.left += 1;
            return false;
        }
        self.blocks.push_str(&text);
        self.told += 1;
        true
    }

    /// Returns the text.
    pub(in crate::cmd::hook) fn text(&self) -> String {
        let mut text = format!(
            "Reported by siding, which keeps background tasks of this session:\n{}",
            self.blocks
        );
        if self.left > 0 {
            let _a_string_takes_all = writeln!(
                text,
                "{} more will be reported next; `siding notices` shows them now.",
                self.left
            );
        }
        text
    }
}

impl Fact {
    fn text(&self) -> String {
        let mut text = format_notice_xml(&self.notice);
        if let Some(living) = &self.living {
            let id = self.notice.task_id;
            let _a_string_takes_all = writeln!(
                text,
                "What {id} started still runs: {living}. `siding stop {id}` ends it."
            );
        }
        text
    }

    fn shorten(&mut self) {
        let NoticeView { summary, command, evidence, .. } = &mut self.notice;
        if summary.len() > 2 * SHORT {
            *summary = format!("{}\n…\n{}", cut_head(summary, SHORT), cut_tail(summary, SHORT));
        }
        *command = cut_head(command, SHORT).to_owned();
        *evidence = None;
    }

    /// Leaves only what no task can make long, so that none keeps back what comes behind it.
    fn reduce(&mut self) {
        let NoticeView { summary, command, task_id, .. } = &mut self.notice;
        *summary = format!("too long to be told here: siding show {task_id}");
        *command = cut_head(command, COMMAND).to_owned();
        if self.living.is_some() {
            self.living = Some(format!("siding show {task_id} names it"));
        }
    }
}

/// Returns the processes that a command has left running, in one line. Its text is escaped: a
/// process names itself.
pub(in crate::cmd::hook) fn living(task: &TaskView) -> Option<String> {
    let named = task.processes.iter().take(NAMED).map(|process| {
        format!("{} {}", process.pid, escaped(&one_line(&process.command, COMMAND)))
    });
    let mut parts: Vec<String> = named.collect();
    let more = task.processes.len().saturating_sub(NAMED);
    if more > 0 {
        parts.push(format!("{more} more"));
    }
    let ports: Vec<String> = task.listening.iter().map(u16::to_string).collect();
    let listens = match ports.as_slice() {
        [] => String::new(),
        ports => format!(" (listening on {})", ports.join(", ")),
    };
    (!parts.is_empty()).then(|| parts.join("; ") + &listens)
}

/// Returns a text in which nothing that a task chose can forge an element.
pub(in crate::cmd::hook) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn length(text: &str) -> usize {
    text.encode_utf16().count()
}
