//! Formats notices for an agent that receives them through a hook.

use std::fmt::Write as _;

use siding_model::notice::{NoticeView, format_notice_xml};
use siding_model::task_view::TaskView;
use siding_model::text::{cut_head, cut_tail, one_line};

/// Maximum length of a text that the host passes on in full, in UTF-16 code units, as JavaScript
/// counts (Claude Code 2.1.240 turns a longer one into a file and a preview).
const MAX_TEXT_UTF16_UNITS: usize = 10_000;
/// Units reserved for the text around the notices.
const RESERVED_UTF16_UNITS: usize = 400;
/// Maximum bytes of a summary and of a command if the full notice does not fit: escaping may make
/// each five times as long.
const SHORTENED_BYTES: usize = 600;
/// Maximum columns of a command.
const COMMAND_COLUMNS: usize = 80;
/// Maximum number of processes to name; the others are counted.
const MAX_NAMED_PROCESSES: usize = 8;

/// A notice, and the processes of its task that still run.
#[derive(Debug)]
pub(in crate::cmd::hook) struct NoticeWithSurvivors {
    pub(in crate::cmd::hook) notice: NoticeView,
    pub(in crate::cmd::hook) survivors: Option<String>,
}

/// Several notices as one text.
#[derive(Debug)]
pub(in crate::cmd::hook) struct NoticesText {
    blocks: String,
    included: usize,
    omitted: usize,
    /// Maximum length of `blocks`, in UTF-16 code units.
    max_units: usize,
}

impl NoticesText {
    /// Starts a text to which `suffix` will be appended.
    pub(in crate::cmd::hook) fn with_suffix(suffix: &str) -> Self {
        let most = (MAX_TEXT_UTF16_UNITS - RESERVED_UTF16_UNITS).saturating_sub(utf16_len(suffix));
        Self { blocks: String::new(), included: 0, omitted: 0, max_units: most }
    }

    /// Adds a notice if there is room, and returns whether there was. The first notice is shortened
    /// until it fits.
    pub(in crate::cmd::hook) fn try_add(&mut self, mut fact: NoticeWithSurvivors) -> bool {
        let room = self.max_units.saturating_sub(utf16_len(&self.blocks));
        let mut text = fact.format_notice();
        let is_first = self.included + self.omitted == 0;
        if utf16_len(&text) > room && is_first {
            fact.shorten();
            text = fact.format_notice();
        }
        if utf16_len(&text) > room && is_first {
            fact.reduce_to_reference();
            text = fact.format_notice();
        }
        if self.omitted > 0 || (utf16_len(&text) > room && !is_first) {
            // Notices stay in order: once one was omitted, a later one that would fit is omitted as
            // well.
            self.omitted += 1;
            return false;
        }
        self.blocks.push_str(&text);
        self.included += 1;
        true
    }

    /// Returns the complete text, with the number of omitted notices.
    pub(in crate::cmd::hook) fn format_text(&self) -> String {
        let mut text = format!(
            "Reported by siding, which keeps background tasks of this session:\n{}",
            self.blocks
        );
        if self.omitted > 0 {
            let _writing_to_string = writeln!(
                text,
                "{} more will be reported next; `siding notices` shows them now.",
                self.omitted
            );
        }
        text
    }
}

impl NoticeWithSurvivors {
    fn format_notice(&self) -> String {
        let mut text = format_notice_xml(&self.notice);
        if let Some(living) = &self.survivors {
            let id = self.notice.task_id;
            let _writing_to_string = writeln!(
                text,
                "What {id} started still runs: {living}. `siding stop {id}` ends it."
            );
        }
        text
    }

    fn shorten(&mut self) {
        let NoticeView { summary, command, evidence, .. } = &mut self.notice;
        if summary.len() > 2 * SHORTENED_BYTES {
            *summary = format!(
                "{}\n…\n{}",
                cut_head(summary, SHORTENED_BYTES),
                cut_tail(summary, SHORTENED_BYTES)
            );
        }
        *command = cut_head(command, SHORTENED_BYTES).to_owned();
        *evidence = None;
    }

    /// Keeps only text whose length no task controls, so that a long notice cannot block the ones
    /// after it.
    fn reduce_to_reference(&mut self) {
        let NoticeView { summary, command, task_id, .. } = &mut self.notice;
        *summary = format!("too long to be told here: siding show {task_id}");
        *command = cut_head(command, COMMAND_COLUMNS).to_owned();
        if self.survivors.is_some() {
            self.survivors = Some(format!("siding show {task_id} names it"));
        }
    }
}

/// Returns the processes that a command has left running, in one line. The text is escaped, because
/// a process chooses its own name.
pub(in crate::cmd::hook) fn format_survivors(task: &TaskView) -> Option<String> {
    let named = task.processes.iter().take(MAX_NAMED_PROCESSES).map(|process| {
        format!("{} {}", process.pid, escape_xml(&one_line(&process.command, COMMAND_COLUMNS)))
    });
    let mut parts: Vec<String> = named.collect();
    let more = task.processes.len().saturating_sub(MAX_NAMED_PROCESSES);
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

/// Escapes a text so that a task cannot forge an XML element in it.
pub(in crate::cmd::hook) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn utf16_len(text: &str) -> usize {
    text.encode_utf16().count()
}
