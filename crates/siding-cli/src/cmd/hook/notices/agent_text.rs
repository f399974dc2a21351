//! Formats notices for an agent that receives them through a hook.

use std::fmt::Write as _;

use siding_model::notice::{NoticeView, format_notice_xml};
use siding_model::task_view::TaskView;
use siding_model::text::{cut_head, cut_tail, one_line};

/// Maximum length of a text that the host passes on in full, in UTF-16 code units, as JavaScript
/// counts. Claude Code 2.1.240 writes a longer text to a file and passes on a preview.
const MAX_TEXT_UTF16_UNITS: usize = 10_000;
/// Length reserved for the text around the notices, in UTF-16 code units.
const RESERVED_UTF16_UNITS: usize = 400;
/// Maximum number of bytes of the command, and of each end of the summary, in a shortened notice.
/// Escaping may make a text five times as long.
const SHORTENED_BYTES: usize = 600;
/// Maximum width in columns of a process's command. Also the maximum number of bytes of the task's
/// command in a notice that is reduced to a reference.
const COMMAND_COLUMNS: usize = 80;
/// Maximum number of processes to name. The text gives the number of the others.
const MAX_NAMED_PROCESSES: usize = 8;

/// A notice, with one line about the processes of its task that still run.
#[derive(Debug)]
pub(in crate::cmd::hook) struct NoticeWithSurvivors {
    pub(in crate::cmd::hook) notice: NoticeView,
    pub(in crate::cmd::hook) survivors: Option<String>,
}

/// A text with as many notices as the host passes on in full.
#[derive(Debug)]
pub(in crate::cmd::hook) struct NoticesText {
    blocks: String,
    included: usize,
    omitted: usize,
    /// Maximum length of `blocks`, in UTF-16 code units.
    max_units: usize,
}

impl NoticesText {
    /// Returns an empty text that leaves room for `suffix`.
    pub(in crate::cmd::hook) fn with_suffix(suffix: &str) -> Self {
        let most = (MAX_TEXT_UTF16_UNITS - RESERVED_UTF16_UNITS).saturating_sub(utf16_len(suffix));
        Self { blocks: String::new(), included: 0, omitted: 0, max_units: most }
    }

    /// Adds a notice if there is room for it, and returns whether the notice was added. The first
    /// notice is always added, shortened if necessary.
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
            // Notices stay in order: after the first omitted notice, all later ones are omitted,
            // even if they would fit.
            self.omitted += 1;
            return false;
        }
        self.blocks.push_str(&text);
        self.included += 1;
        true
    }

    /// Returns the introduction, the notices, and the number of omitted notices.
    pub(in crate::cmd::hook) fn format_text(&self) -> String {
        let mut text = format!(
            "Reported by siding, which supervises background tasks of this session:\n{}",
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
                "Processes that {id} started still run: {living}. `siding stop {id}` ends them."
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

    /// Replaces or truncates every text whose length a task controls, so that a long notice cannot
    /// block the notices after it.
    fn reduce_to_reference(&mut self) {
        let NoticeView { summary, command, task_id, .. } = &mut self.notice;
        *summary = format!("too long to be shown here; `siding show {task_id}` shows it");
        *command = cut_head(command, COMMAND_COLUMNS).to_owned();
        if self.survivors.is_some() {
            self.survivors = Some(format!("siding show {task_id} lists them"));
        }
    }
}

/// Returns the processes that a command has left running, in one line; `None` if there are none.
/// The text is escaped, because a process can choose its own name.
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
