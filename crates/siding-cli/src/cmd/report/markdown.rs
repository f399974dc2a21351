//! A report as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use siding_model::activity::{ActivityReport, ActivityTask};
use siding_model::size::format_size as size;
use siding_model::text::one_line;

use super::text::{disk_line, headline, standing, time};

/// Entries of each list.
const ENTRIES: usize = 10;
/// Columns of a command.
const COMMAND_COLUMNS: usize = 200;

/// Returns the report as a document.
pub(super) fn document(report: &ActivityReport, since: Duration) -> String {
    let mut text = format!("# siding report\n\n{}\n", headline(report, since));
    let tasks = |tasks: &[ActivityTask], after: fn(&ActivityTask) -> String| -> Vec<String> {
        let line = |task: &ActivityTask| {
            format!(
                "{}: {} ({})",
                code(&task.command),
                after(task),
                code(&task.task_id.to_string())
            )
        };
        tasks.iter().take(ENTRIES).map(line).collect()
    };
    let ended = |task: &ActivityTask| format!("{} after {}", standing(task), time(task));
    let wrote = |task: &ActivityTask| size(task.output_bytes.unwrap_or(0));
    section(&mut text, "Needs input", tasks(&report.needs_input, ended));
    section(&mut text, "Failed", tasks(&report.failed, ended));
    let causes = report.stopped_by.iter().take(ENTRIES).map(|cause| {
        format!("{}: {}, last {}", code(&cause.rule), cause.tasks, code(&cause.last.command))
    });
    section(&mut text, "Stopped by", causes.collect());
    let reaped = report.reaped.iter().take(ENTRIES).map(|rule| {
        format!("{}: {} processes, last {}", code(&rule.rule), rule.processes, code(&rule.command))
    });
    section(&mut text, "Reaped by", reaped.collect());
    section(&mut text, "Lingering", tasks(&report.lingering, time));
    section(&mut text, "Slowest", tasks(&report.slowest, time));
    section(&mut text, "Noisiest", tasks(&report.noisiest, wrote));
    if report.disk.tasks > 0 {
        let _a_string_takes_all = write!(text, "\n{}", disk_line(&report.disk));
    }
    text
}

fn section(text: &mut String, title: &str, entries: Vec<String>) {
    if entries.is_empty() {
        return;
    }
    let _a_string_takes_all = writeln!(text, "\n## {title}\n");
    for entry in entries {
        let _a_string_takes_all = writeln!(text, "- {entry}");
    }
}

/// Returns a text as code, which no text can leave: its fence is longer than any run of backticks.
fn code(text: &str) -> String {
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
    use crate::cmd::report::text::tests::full;

    #[test]
    fn no_command_leaves_its_code() {
        assert_eq!(code("make"), "`make`");
        assert_eq!(code("echo `id` ``x"), "``` echo `id` ``x ```");
        let hostile = "x\n# forged\n\u{1b}[2J| a | <b>";
        let text = document(&full(hostile), Duration::from_secs(60));
        assert!(!text.contains('\u{1b}') && !text.contains("\n# forged"), "{text}");
        let titles: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
        let expected = ["# siding report", "## Needs input", "## Failed", "## Stopped by"];
        assert_eq!(titles[..4], expected);
    }
}
