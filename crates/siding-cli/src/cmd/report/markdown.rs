//! Formats a report as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use siding_model::activity::{ActivityReport, ActivityTask};
use siding_model::size::format_size as size;
use siding_model::text::one_line;

use super::text::{format_disk_use, format_elapsed, format_headline, format_state};

/// Maximum number of entries in each list.
const MAX_LIST_ENTRIES: usize = 10;
/// Maximum width in columns of a command.
const COMMAND_COLUMNS: usize = 200;

/// Formats the report as a Markdown document with a section for each list that is not empty.
pub(super) fn format_document(report: &ActivityReport, since: Duration) -> String {
    let mut text = format!("# siding report\n\n{}\n", format_headline(report, since));
    let tasks = |tasks: &[ActivityTask], after: fn(&ActivityTask) -> String| -> Vec<String> {
        let line = |task: &ActivityTask| {
            format!(
                "{}: {} ({})",
                inline_code(&task.command),
                after(task),
                inline_code(&task.task_id.to_string())
            )
        };
        tasks.iter().take(MAX_LIST_ENTRIES).map(line).collect()
    };
    let ended =
        |task: &ActivityTask| format!("{} after {}", format_state(task), format_elapsed(task));
    let wrote = |task: &ActivityTask| size(task.output_bytes.unwrap_or(0));
    append_section(&mut text, "Needs input", tasks(&report.needs_input, ended));
    append_section(&mut text, "Failed", tasks(&report.failed, ended));
    let causes = report.stopped_by.iter().take(MAX_LIST_ENTRIES).map(|cause| {
        format!(
            "{}: {}, last {}",
            inline_code(&cause.rule),
            cause.tasks,
            inline_code(&cause.last.command)
        )
    });
    append_section(&mut text, "Stopped by", causes.collect());
    let reaped = report.reaped.iter().take(MAX_LIST_ENTRIES).map(|rule| {
        format!(
            "{}: {} processes, last {}",
            inline_code(&rule.rule),
            rule.processes,
            inline_code(&rule.command)
        )
    });
    append_section(&mut text, "Reaped by", reaped.collect());
    append_section(&mut text, "Lingering", tasks(&report.lingering, format_elapsed));
    append_section(&mut text, "Slowest", tasks(&report.slowest, format_elapsed));
    append_section(&mut text, "Noisiest", tasks(&report.noisiest, wrote));
    if report.disk.tasks > 0 {
        let _writing_to_string = write!(text, "\n{}", format_disk_use(&report.disk));
    }
    text
}

fn append_section(text: &mut String, title: &str, entries: Vec<String>) {
    if entries.is_empty() {
        return;
    }
    let _writing_to_string = writeln!(text, "\n## {title}\n");
    for entry in entries {
        let _writing_to_string = writeln!(text, "- {entry}");
    }
}

/// Formats a text as a code span that the text cannot end early: the fence is longer than any run
/// of backticks in the text.
fn inline_code(text: &str) -> String {
    let text = one_line(text, COMMAND_COLUMNS);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    if longest == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::report::text::tests::full_report;

    #[test]
    fn a_command_cannot_escape_its_code_span() {
        assert_eq!(inline_code("make"), "`make`");
        assert_eq!(inline_code("echo `id` ``x"), "``` echo `id` ``x ```");
        let hostile = "x\n# forged\n\u{1b}[2J| a | <b>";
        let text = format_document(&full_report(hostile), Duration::from_secs(60));
        assert!(!text.contains('\u{1b}') && !text.contains("\n# forged"), "{text}");
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let expected = ["# siding report", "## Needs input", "## Failed", "## Stopped by"];
        assert_eq!(titles[..4], expected);
    }
}
