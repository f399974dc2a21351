//! The lines of `siding show` about the machine on which a task runs.

use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::TaskScreen;
use crate::render::color::TextStyle;
use crate::render::wrap::wrap_untrusted;

/// Maximum lines of the reason why a machine is not reachable.
const MAX_REASON_LINES: usize = 4;

impl TaskScreen {
    /// Adds the remote machine on which the task runs, and the user who sent the task here.
    pub(super) fn add_executor(&mut self, view: &TaskView) {
        if let Some(executor) = view.executor_text() {
            self.add_line("executor", &one_line(&executor, self.value_columns()));
        }
        if let Some(queued) = &view.queued {
            let start = queued.expected_start.as_ref().map(|start| self.zone.format(start));
            let says = queued.describe(start.as_deref());
            let lines = wrap_untrusted(&says, self.value_columns(), MAX_REASON_LINES);
            self.add_block("queued", &lines);
        }
        // The line about the queue already contains the number of the job.
        if let Some(job) = view.job_id.as_ref().filter(|_| view.queued.is_none()) {
            self.add_line("job", &one_line(job, self.value_columns()));
        }
        if view.restarts > 0 {
            self.add_line("restarts", &view.restarts.to_string());
        }
        if let Some(unreachable) = &view.unreachable {
            let says = unreachable.describe(&self.zone.format(&unreachable.since));
            let lines = wrap_untrusted(&says, self.value_columns(), MAX_REASON_LINES);
            let painted: Vec<_> =
                lines.iter().map(|line| self.color.apply(TextStyle::Warning, line)).collect();
            self.add_block("unreachable", &painted);
        }
        if let Some(loss) = view.input_loss {
            let lines = wrap_untrusted(&loss.describe(), self.value_columns(), MAX_REASON_LINES);
            let painted: Vec<_> =
                lines.iter().map(|line| self.color.apply(TextStyle::Bad, line)).collect();
            self.add_block("input", &painted);
        }
        if let Some(fetch) = &view.fetch {
            let lines = wrap_untrusted(&fetch.describe(), self.value_columns(), MAX_REASON_LINES);
            self.add_block("fetch", &lines);
        }
        if let Some(sender) = &view.sent_by {
            self.add_line("sent by", &one_line(sender, self.value_columns()));
        }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::file_sync::FetchFailure;
    use siding_model::mirror::InputLoss;
    use siding_model::task_view::{FetchView, QueuedView, UnreachableView};

    use super::super::task_screen;
    use super::*;
    use crate::render::LINE_COLUMNS;
    use crate::render::color::ColorMode;
    use crate::render::local_time::TimeZone;
    use crate::render::sample::{HOSTILE_TEXT, running_task};

    fn screen(view: &TaskView) -> String {
        task_screen(view, ColorMode::Off, LINE_COLUMNS, TimeZone::Utc)
    }

    #[test]
    fn a_job_in_a_queue_is_shown() {
        let mut view = running_task();
        view.executor = Some("cluster".to_owned());
        view.deadline_at = None;
        view.queued = Some(QueuedView {
            job_id: Some("7".to_owned()),
            state: "PENDING".to_owned(),
            reason: Some("Resources".to_owned()),
            expected_start: Some("2025-11-21T22:41:20.000Z".to_owned()),
        });
        let text = screen(&view);
        assert!(text.starts_with("b-4k7q0n2m8x5t  queued\n"), "{text}");
        assert!(text.contains("none yet: it counts from the start of the job"), "{text}");
        let line = "queued       job 7, PENDING (Resources), expected to start at\n             2025-11-21T22:41";
        assert!(text.contains(line), "{text}");
        assert!(!text.contains("restarts"), "{text}");
        view.restarts = 2;
        assert!(screen(&view).contains("\nrestarts     2\n"));
    }

    #[test]
    fn the_time_limit_of_a_job_is_shown_next_to_the_deadline_or_in_its_place() {
        // The text is wrapped.
        let words = |view: &TaskView| screen(view).split_whitespace().collect::<Vec<_>>().join(" ");
        let mut view = running_task();
        view.executor = Some("cluster".to_owned());
        view.job_ends_at = Some("2025-11-21T23:13:12.345Z".to_owned());
        let limit = "job limit 2025-11-21T23:13";
        let text = words(&view);
        assert!(text.contains(limit) && text.contains("`siding extend` moves"), "{text}");
        view.deadline_at.clone_from(&view.job_ends_at);
        let text = words(&view);
        assert!(text.contains("ends the job then, at its time limit"), "{text}");
        assert!(!text.contains(limit) && !text.contains("moves this time"), "{text}");
        // While a person waits, no deadline applies, but the cluster still enforces its time limit.
        view.deadline_at = None;
        let text = words(&view);
        assert!(text.contains("none, while a person waits in the foreground"), "{text}");
        assert!(text.contains(limit), "{text}");
    }

    #[test]
    fn the_number_of_a_job_and_its_wait_are_shown_after_the_queue() {
        let mut view = running_task();
        assert!(!screen(&view).contains("\nwaited "));
        view.executor = Some("cluster".to_owned());
        (view.job_id, view.queued_ms) = (Some("7".to_owned()), Some(12_000));
        let text = screen(&view);
        for line in ["job          7", "elapsed      15s", "waited       12s in the queue"] {
            assert!(text.lines().any(|shown| shown == line), "no `{line}` in\n{text}");
        }
        view.queued = Some(QueuedView {
            job_id: view.job_id.clone(),
            state: "PENDING".to_owned(),
            reason: None,
            expected_start: None,
        });
        let text = screen(&view);
        assert!(text.contains("\nqueued       job 7, PENDING\n"), "{text}");
        assert!(!text.contains("\njob ") && !text.contains("\nelapsed "), "{text}");
    }

    #[test]
    fn the_machine_and_an_interruption_are_shown() {
        let local = screen(&running_task());
        assert!(!local.contains("executor") && !local.contains("sent by"), "{local}");
        let mut view = running_task();
        view.executor = Some("build".to_owned());
        assert!(screen(&view).contains("\nexecutor     build\n"));
        view.machine = Some("build07".to_owned());
        view.unreachable = Some(UnreachableView {
            since: "2025-11-21T22:41:20.000Z".to_owned(),
            why: "ssh: timed out".to_owned(),
            stop_pending: true,
        });
        view.sent_by = Some("me@laptop".to_owned());
        let failure =
            FetchFailure { path: "b".to_owned(), why: "No such file or directory".to_owned() };
        view.fetch = Some(FetchView {
            directory: "/home/me".to_owned(),
            paths: vec!["a".to_owned(), "b".to_owned()],
            failed: Some(vec![failure]),
            skipped_links: None,
        });
        let text = screen(&view);
        assert!(text.starts_with("b-4k7q0n2m8x5t  unreachable\n"), "{text}");
        view.input_loss = Some(InputLoss { arrived_bytes: Some(292) });
        let incomplete = screen(&view);
        assert!(incomplete.contains("input        INCOMPLETE INPUT: its"), "{incomplete}");
        assert!(incomplete.contains(" 292") && !text.contains("INCOMPLETE"), "{incomplete}");
        for line in [
            "executor     build (build07)",
            "unreachable  since 2025-11-21T22:41:20.000Z, ssh: timed out; a stop is pending",
            "fetch        could not copy b: No such file or directory",
            "sent by      me@laptop",
        ] {
            assert!(text.lines().any(|shown| shown == line), "no `{line}` in\n{text}");
        }
    }

    #[test]
    fn names_of_machines_and_messages_of_ssh_are_escaped() {
        let hostile = || Some(HOSTILE_TEXT.to_owned());
        let unreachable = UnreachableView {
            since: HOSTILE_TEXT.to_owned(),
            why: HOSTILE_TEXT.repeat(9),
            stop_pending: false,
        };
        let fetch = FetchView {
            directory: HOSTILE_TEXT.to_owned(),
            paths: vec![HOSTILE_TEXT.to_owned()],
            failed: Some(Vec::new()),
            skipped_links: None,
        };
        let view = TaskView {
            executor: hostile(),
            machine: hostile(),
            unreachable: Some(unreachable),
            sent_by: hostile(),
            fetch: Some(fetch),
            ..running_task()
        };
        for line in screen(&view).lines() {
            assert_eq!(line, one_line(line, LINE_COLUMNS));
        }
    }
}
