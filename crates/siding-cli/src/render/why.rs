//! The output of `siding why`: the reason why a task is quiet.

use std::fmt::Write as _;
use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::evidence::{AttentionView, ChainLink, WhyView};
use siding_model::task_view::TaskView;
use siding_model::text::{one_line, wrap_message, wrap_words};

use super::state::format_elapsed;
use super::wrap::wrap_untrusted;

/// Width of the labels in columns.
const LABEL_COLUMNS: usize = 13;
/// Maximum lines of the status of a job.
const MAX_STATUS_LINES: usize = 4;

/// Formats the evidence about a quiet task on one screen. `columns` is the width of the screen.
pub(crate) fn why_screen(view: &WhyView, columns: usize) -> String {
    let room = columns.saturating_sub(LABEL_COLUMNS);
    let verdict =
        view.verdict.phrase_with_certainty(view.waiting_on, view.awaited_input, view.certainty);
    let head = format!("{}  {verdict}\n", view.task_id);
    let mut text = wrap_message(&head, columns);
    let spent = |ms| format_duration(Duration::from_millis(ms));
    let silent = format!(
        "{}, observed for {}, {:.1} % of a core",
        spent(view.silent_ms),
        spent(view.since_ms),
        view.cpu_percent
    );
    push_block(&mut text, "silent for", &silent, room);
    push_last_line(&mut text, &view.tail, room);
    let mut label = "processes";
    for link in &view.chain {
        push_line(&mut text, label, &format_process(link, room));
        label = "";
        if let Some(wait) = format_wait(link) {
            push_line(&mut text, "", &one_line(&format!("  {wait}"), room));
        }
    }
    push_block(&mut text, "next", &view.advice, room);
    text
}

/// Formats how a task ended. `tail` is the last line of its output, `columns` the width of the
/// screen.
pub(crate) fn ended_why_screen(view: &TaskView, tail: &str, columns: usize) -> String {
    let room = columns.saturating_sub(LABEL_COLUMNS);
    let id = view.task_id;
    let head = format!("{id}  has ended: ");
    let after = format!(" after {}", format_elapsed(view));
    let outcome = view.outcome.as_ref().map_or_else(String::new, ToString::to_string);
    let outcome = one_line(&outcome, columns.saturating_sub(head.len() + after.len()));
    let mut text = format!("{}\n", one_line(&format!("{head}{outcome}{after}"), columns));
    push_last_line(&mut text, tail, room);
    let next = format!("`siding output {id}` prints its output, `siding show {id}` shows more");
    push_block(&mut text, "next", &next, room);
    text
}

/// Formats the answer for a task whose job waits in the queue of a cluster. `status` is the
/// untrusted status of the job, `columns` the width of the screen.
pub(crate) fn queued_why_screen(
    view: &TaskView,
    status: &str,
    advice: &str,
    columns: usize,
) -> String {
    let room = columns.saturating_sub(LABEL_COLUMNS);
    let head = format!("{}  queued for {}\n", view.task_id, format_elapsed(view));
    let mut text = wrap_message(&head, columns);
    let mut label = "status";
    for line in wrap_untrusted(status, room, MAX_STATUS_LINES) {
        push_line(&mut text, label, &line);
        label = "";
    }
    push_block(&mut text, "next", advice, room);
    text
}

/// Describes the silence of a stalled task and its cause, for the line `attention` of `siding
/// show`.
pub(super) fn format_attention(view: &AttentionView) -> String {
    format!(
        "silent for {}, {}",
        format_duration(Duration::from_millis(view.silent_ms)),
        view.verdict.phrase_with_certainty(view.waiting_on, view.awaited_input, view.certainty)
    )
}

fn format_process(link: &ChainLink, room: usize) -> String {
    one_line(&format!("{} {}  {}", link.pid, link.state, link.command), room)
}

fn format_wait(link: &ChainLink) -> Option<String> {
    let object = match (&link.syscall, &link.object) {
        (Some(call), Some(object)) => format!("{call}: {object}"),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => return link.detail.clone(),
    };
    Some(match &link.detail {
        Some(detail) => format!("{object}; {detail}"),
        None => object,
    })
}

/// Appends the last line of the output, unless it is empty.
fn push_last_line(text: &mut String, tail: &str, room: usize) {
    if !tail.is_empty() {
        // The leading `|` marks the line as output, so that it cannot be mistaken for siding's own
        // text.
        push_line(text, "last line", &one_line(&format!("| {tail}"), room));
    }
}

/// Appends siding's own words, wrapped to `room` columns.
fn push_block(text: &mut String, label: &str, words: &str, room: usize) {
    let mut label = label;
    for words in wrap_words(words, room) {
        push_line(text, label, &words);
        label = "";
    }
}

fn push_line(text: &mut String, label: &str, value: &str) {
    let _writing_to_string = writeln!(text, "{label:<width$}{value}", width = LABEL_COLUMNS);
}

#[cfg(test)]
mod tests {
    use siding_model::evidence::{Certainty, WaitingOn, WhyVerdict};
    use siding_model::outcome::Outcome;
    use siding_model::task_view::QueuedView;

    use super::super::LINE_COLUMNS;
    use super::super::sample::{HOSTILE_TEXT, ended_task, running_task};
    use super::*;

    fn sample_view() -> WhyView {
        WhyView {
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            verdict: WhyVerdict::InputWait,
            waiting_on: None,
            awaited_input: None,
            certainty: Certainty::Hard,
            since_ms: 2_000,
            silent_ms: 4_000,
            cpu_percent: 0.0,
            chain: vec![
                ChainLink {
                    pid: 401,
                    command: "cat; true".to_owned(),
                    state: "S".to_owned(),
                    syscall: Some("wait4".to_owned()),
                    object: Some("a child".to_owned()),
                    detail: None,
                },
                ChainLink {
                    pid: 402,
                    command: "cat".to_owned(),
                    state: "S".to_owned(),
                    syscall: Some("read".to_owned()),
                    object: Some("the task's standard input".to_owned()),
                    detail: Some("descriptor 0".to_owned()),
                },
            ],
            tail: "Continue? [y/N] ".to_owned(),
            advice: "Answer it.".to_owned(),
        }
    }

    #[test]
    fn an_input_wait_fits_one_screen() {
        assert_eq!(
            why_screen(&sample_view(), LINE_COLUMNS),
            "b-4k7q0n2m8x5t  waits for input (certain)\n\
             silent for   4s, observed for 2s, 0.0 % of a core\n\
             last line    | Continue? [y/N] \n\
             processes    401 S  cat; true\n\
             \x20              wait4: a child\n\
             \x20            402 S  cat\n\
             \x20              read: the task's standard input; descriptor 0\n\
             next         Answer it.\n"
        );
    }

    #[test]
    fn an_ended_task_is_shown_with_its_outcome() {
        let view = ended_task(Outcome::Exited { code: 7 });
        assert_eq!(
            ended_why_screen(&view, "2 tests failed", LINE_COLUMNS),
            "b-4k7q0n2m8x5t  has ended: exited 7 after 15s\n\
             last line    | 2 tests failed\n\
             next         `siding output b-4k7q0n2m8x5t` prints its output,\n\
             \x20            `siding show b-4k7q0n2m8x5t` shows more\n"
        );
        let view = ended_task(Outcome::Lost { why: HOSTILE_TEXT.to_owned() });
        for line in ended_why_screen(&view, HOSTILE_TEXT, LINE_COLUMNS).lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
    }

    #[test]
    fn a_queued_task_is_shown_with_the_status_of_its_job() {
        let mut view = running_task();
        view.executor = Some("lab".to_owned());
        view.queued_ms = Some(12_000);
        view.queued = Some(QueuedView {
            job_id: Some("7".to_owned()),
            state: "PENDING".to_owned(),
            reason: Some("Resources".to_owned()),
            expected_start: None,
        });
        let status = "waits in the queue of lab: job 7, PENDING (Resources)";
        assert_eq!(
            queued_why_screen(&view, status, "wait", LINE_COLUMNS),
            "b-4k7q0n2m8x5t  queued for 12s\n\
             status       waits in the queue of lab: job 7, PENDING (Resources)\n\
             next         wait\n"
        );
        let text = queued_why_screen(&view, &HOSTILE_TEXT.repeat(9), "wait", LINE_COLUMNS);
        for line in text.lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
        let json = WhyView::queued(view.task_id, status);
        assert_eq!((json.advice, json.verdict), (format!("It {status}."), WhyVerdict::Unknown));
    }

    #[test]
    fn every_verdict_fits_a_line_of_the_screen_of_show() {
        for verdict in WhyVerdict::ALL_VERDICTS {
            let phrase =
                verdict.phrase_with_certainty(Some(WaitingOn::Child), None, Certainty::Hard);
            let line = format!("silent for 23h 59m, {phrase}");
            let room = LINE_COLUMNS - LABEL_COLUMNS;
            assert!(line.len() <= room && !phrase.contains('_'), "{line}");
        }
    }

    #[test]
    fn no_line_exceeds_the_screen_or_is_forged() {
        let mut view = sample_view();
        view.tail = HOSTILE_TEXT.repeat(3);
        view.advice = "word ".repeat(60);
        for link in &mut view.chain {
            link.command = HOSTILE_TEXT.repeat(3);
            link.object = Some(HOSTILE_TEXT.to_owned());
            link.detail = Some(HOSTILE_TEXT.to_owned());
        }
        let text = why_screen(&view, LINE_COLUMNS);
        assert!(text.lines().count() < 24, "{text}");
        for line in text.lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
        for line in why_screen(&view, 40).lines() {
            assert_eq!(line, one_line(line, 40));
        }
        for columns in 0..20 {
            assert!(why_screen(&view, columns).contains("next"), "{columns}");
        }
    }
}
