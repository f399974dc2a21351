//! Formats a notice for people, in 80 columns.

use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::notice::NoticeView;
use siding_model::text::{one_line, wrap_words};

use crate::stdout::text_columns;

/// Numbers of lines that are shown from the start of a long summary, where the errors are, and from
/// its end.
const FIRST_LINES: usize = 3;
const LAST_LINES: usize = 5;
/// Indentation of each line of the summary.
const SUMMARY_INDENT: &str = "    ";

/// Formats a notice as one line with its id, status and command, followed by the indented summary,
/// whose first sentence is siding's own.
pub(super) fn format_notice(notice: &NoticeView) -> String {
    let columns = text_columns();
    let how = match (notice.exit_code, &notice.signal, &notice.limit) {
        (Some(0), ..) | (None, None, None) => String::new(),
        (Some(code), ..) => format!(" with {code}"),
        (None, Some(signal), _) => format!(" by {signal}"),
        (None, None, Some(limit)) => format!(" at {limit}"),
    };
    let elapsed = format_duration(Duration::from_millis(notice.elapsed_ms));
    let status = notice.status.as_str().replace('_', " ");
    let mut line = format!("{}  {status}{how} after {elapsed}  ", notice.notice_id);
    let what = notice.name.as_ref().unwrap_or(&notice.command);
    line.push_str(&one_line(what, columns.saturating_sub(line.chars().count()).max(columns / 4)));
    let mut text = one_line(&line, columns);
    text.push('\n');
    let (sentence, summary) = notice.split_summary();
    let room = columns.saturating_sub(SUMMARY_INDENT.len());
    if !sentence.is_empty() {
        // The sentence is not cut, because its end names the next step.
        for row in wrap_words(&one_line(sentence, usize::MAX), room) {
            text.push_str(&format!("{SUMMARY_INDENT}{row}\n"));
        }
    }
    let lines: Vec<&str> = summary.lines().collect();
    let mut show = |line: &str| {
        text.push_str(SUMMARY_INDENT);
        // `one_line` would escape a tab to `\t`.
        text.push_str(&one_line(&line.replace('\t', "  "), room));
        text.push('\n');
    };
    match lines.len().checked_sub(FIRST_LINES + LAST_LINES + 1) {
        None => lines.iter().for_each(|line| show(line)),
        Some(_) => {
            let (first, rest) = lines.split_at(FIRST_LINES);
            first.iter().for_each(|line| show(line));
            show(&format!("… all of it: siding output {} --all", notice.task_id));
            rest[rest.len() - LAST_LINES..].iter().for_each(|line| show(line));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::notifier::tests::notice_about_a_secret;
    use super::*;

    #[test]
    fn the_next_step_is_shown_in_full_and_the_prompt_is_cut() {
        let text = format_notice(&notice_about_a_secret());
        assert!(text.contains("`siding answer b-4k7q0n2m8x5t`"), "{text}");
        assert!(text.contains("`siding stop b-4k7q0n2m8x5t`"), "{text}");
        assert!(text.lines().all(|line| line == one_line(line, 80)), "{text}");
        assert!(text.contains("Password") && text.contains('…'), "{text}");
    }
}
