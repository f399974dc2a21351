//! `siding ps` at the terminal of a person: the tasks that need the person come first, then the
//! running ones. Ended tasks are counted, and listed only on request.

use std::collections::HashSet;

use siding_core::notices::Outbox;
use siding_core::store::StateDir;
use siding_core::sys::clock::{self, LocalTime};
use siding_core::task::listing;
use siding_model::id::{SessionId, TaskId};
use siding_model::outcome::OutcomeGroup;
use siding_model::person_need::{PersonNeed, is_failed_outcome};
use siding_model::process::UnixMs;
use siding_model::task_view::TaskView;

use crate::cmd::history::format_age;
use crate::context;
use crate::failure::Failure;
use crate::hyperlink::link_outputs;
use crate::render::color::ColorMode;
use crate::render::{self, PersonCells, out};
use crate::stdout;

/// Maximum number of failed tasks that are listed because their ends were not shown yet.
const MAX_UNREAD_FAILURES: usize = 5;
/// Maximum number of failed tasks, the latest ones, for which it is checked whether their ends were
/// shown.
const CHECKED_FAILURES: usize = 32;
/// Maximum number of ended tasks whose journals are read to find the one that ended last.
const LAST_END_CANDIDATES: usize = 64;

/// The selection of tasks in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListScope {
    /// The tasks that run, and failures that were not shown yet. The others are counted.
    Overview,
    /// All tasks that were read.
    All,
}

/// Numbers of ended tasks by the way they ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct EndedCounts {
    succeeded: usize,
    failed: usize,
    stopped: usize,
}

/// The text of a list of tasks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PersonList {
    /// The table; empty if no task is listed.
    pub(super) table: String,
    /// The tasks of the table, in the order of its rows.
    pub(super) listed: Vec<TaskView>,
    /// The line about the ended tasks; `None` if there are none, or all of them are listed.
    pub(super) summary: Option<String>,
}

/// Prints the tasks in `views`, which are sorted: running tasks first, then ended ones, the newest
/// of each first.
pub(super) fn print_list(
    root: &StateDir,
    views: Vec<TaskView>,
    scope: ListScope,
) -> Result<(), Failure> {
    let now = clock::unix_now();
    let notice = context::load_valid_settings().deadline_notice;
    let unread = find_unread_failures(root, &views);
    let need =
        |view: &TaskView| PersonNeed::for_task(view, unread.contains(&view.task_id), now, notice);
    let columns = stdout::table_columns();
    let list = format_list(views, need, scope, ColorMode::for_stdout(), columns);
    if !list.table.is_empty() {
        out::print(&link_outputs(&list.table, &list.listed, &std::io::stdout()))?;
    }
    if let Some(summary) = list.summary {
        render::print_note(&summary);
    }
    Ok(())
}

/// Formats the tasks in `views`, which are sorted as for [`print_list`]. `columns` is the width of
/// the screen.
pub(super) fn format_list(
    views: Vec<TaskView>,
    need: impl Fn(&TaskView) -> Option<PersonNeed>,
    scope: ListScope,
    color: ColorMode,
    columns: usize,
) -> PersonList {
    let now = clock::unix_now();
    let counts = EndedCounts::from_views(&views);
    let last_end = views.iter().filter_map(|view| view.ended_at.as_deref()).max();
    let last_end = last_end.and_then(UnixMs::from_rfc3339);
    let is_running = views.iter().any(|view| view.outcome.is_none());
    let has_unread = views.iter().any(|view| need(view) == Some(PersonNeed::UnreadFailure));
    let (views, cells): (Vec<TaskView>, Vec<PersonCells>) = arrange_rows(views, need, scope)
        .into_iter()
        .map(|(view, need)| {
            let cells = person_cells(&view, need, now);
            (view, cells)
        })
        .unzip();
    let table = if views.is_empty() {
        String::new()
    } else {
        render::person_table(&views, &cells, color, columns)
    };
    let summary = last_end.filter(|_| scope == ListScope::Overview).map(|last_end| {
        let age = (!is_running).then(|| format_age(last_end, now));
        format_summary(counts, age.as_deref(), has_unread)
    });
    PersonList { table, listed: views, summary }
}

/// Reports that no task runs, and which task of these sessions ended last. `None` selects all
/// sessions.
pub(super) fn report_nothing_running(
    root: &StateDir,
    sessions: Option<&HashSet<SessionId>>,
) -> Result<(), Failure> {
    let ids = listing::most_recent(root, root.all_tasks()?, LAST_END_CANDIDATES);
    let views = listing::read_views(root, &ids, |view| view)?;
    let is_asked_for =
        |view: &TaskView| sessions.is_none_or(|sessions| sessions.contains(&view.session_id));
    let last = views
        .into_iter()
        .filter_map(|(_, view)| view.ok().flatten())
        .filter(|view| view.ended_at.is_some() && is_asked_for(view))
        .max_by(|a, b| a.ended_at.cmp(&b.ended_at));
    let Some(view) = last else {
        render::print_note("nothing is running; `siding run -- COMMAND` starts a task");
        return Ok(());
    };
    let ended = view.ended_at.as_deref().and_then(UnixMs::from_rfc3339);
    let age =
        ended.map_or_else(String::new, |at| format!(" {}", format_age(at, clock::unix_now())));
    render::print_note(&format!("nothing is running; the last task ended{age}:"));
    errln!("{}", render::ended_line(&view));
    Ok(())
}

/// Returns the failed tasks whose ends were neither returned to a caller nor shown in another way.
/// Only tasks of the implicit session are included, because agents receive the other notices.
fn find_unread_failures(root: &StateDir, views: &[TaskView]) -> HashSet<TaskId> {
    let failed: Vec<TaskId> = views
        .iter()
        .filter(|view| view.session_id.is_implicit())
        .filter(|view| view.outcome.as_ref().is_some_and(is_failed_outcome))
        .map(|view| view.task_id)
        .take(CHECKED_FAILURES)
        .collect();
    if failed.is_empty() {
        return HashSet::new();
    }
    // If the acknowledgements cannot be read, the list shows no unread failure; `siding notices`
    // reports the error.
    Outbox::for_terminal(root, SessionId::implicit())
        .and_then(|outbox| outbox.tasks_with_pending_end(&failed))
        .map(|ids| ids.into_iter().collect())
        .unwrap_or_default()
}

/// Selects the tasks of a list, and moves those that need the person to its top, the most urgent
/// first. Otherwise the order is kept.
fn arrange_rows(
    views: Vec<TaskView>,
    need: impl Fn(&TaskView) -> Option<PersonNeed>,
    scope: ListScope,
) -> Vec<(TaskView, Option<PersonNeed>)> {
    let mut failures = 0;
    let mut rows: Vec<_> = views
        .into_iter()
        .map(|view| {
            let need = need(&view);
            (view, need)
        })
        .filter(|(view, need)| {
            failures += usize::from(*need == Some(PersonNeed::UnreadFailure));
            scope == ListScope::All
                || view.outcome.is_none()
                || (need.is_some() && failures <= MAX_UNREAD_FAILURES)
        })
        .collect();
    rows.sort_by_key(|(_, need)| (need.is_none(), *need));
    rows
}

fn person_cells(view: &TaskView, need: Option<PersonNeed>, now: UnixMs) -> PersonCells {
    let attention = match need {
        Some(PersonNeed::Deadline) => Some("ends soon"),
        Some(PersonNeed::UnreadFailure) => Some("unread"),
        Some(PersonNeed::Action | PersonNeed::Unsupervised | PersonNeed::Limit) | None => {
            render::attention_label(view)
        }
    };
    let started = UnixMs::from_rfc3339(&view.started_at).and_then(clock::local_time);
    let started = started.zip(clock::local_time(now));
    let started = started.map_or_else(|| "-".to_owned(), |(at, now)| format_start(at, now));
    PersonCells { attention, started }
}

/// Formats the time of a start on the present day as `14:05`, and of any other day as `Nov 21`.
fn format_start(start: LocalTime, now: LocalTime) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if (start.year, start.month, start.day) == (now.year, now.month, now.day) {
        return format!("{:02}:{:02}", start.hour, start.minute);
    }
    let month = MONTHS.get(usize::from(start.month).wrapping_sub(1)).copied().unwrap_or_default();
    format!("{month} {}", start.day)
}

/// Formats the line about the ended tasks. `last_end` is the age of the last end if no task runs.
fn format_summary(counts: EndedCounts, last_end: Option<&str>, has_unread: bool) -> String {
    let lead = if last_end.is_some() { "nothing is running; " } else { "" };
    let last = last_end.map_or_else(String::new, |age| format!(", the last {age}"));
    let unread = if has_unread { "; `siding notices` shows unread ends" } else { "" };
    format!("{lead}{}{last}; --all lists them{unread}", counts.format_counts())
}

impl EndedCounts {
    fn from_views(views: &[TaskView]) -> Self {
        let mut counts = Self::default();
        for outcome in views.iter().filter_map(|view| view.outcome.as_ref()) {
            *match outcome.group() {
                OutcomeGroup::Succeeded => &mut counts.succeeded,
                OutcomeGroup::Stopped => &mut counts.stopped,
                OutcomeGroup::Failed => &mut counts.failed,
            } += 1;
        }
        counts
    }

    fn format_counts(self) -> String {
        let total = self.succeeded + self.failed + self.stopped;
        let parts: Vec<String> = [
            (self.succeeded, "with exit code 0"),
            (self.failed, "failed"),
            (self.stopped, "stopped"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
        let tasks = if total == 1 { "task has" } else { "tasks have" };
        format!("{total} {tasks} ended ({})", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use siding_model::evidence::{AttentionView, Certainty, WhyVerdict};
    use siding_model::outcome::Outcome;

    use super::*;
    use crate::render::sample::{ended_task, running_task, sample_breach};

    const NOTICE: Duration = Duration::from_secs(120);
    /// A moment long before the deadline of [`running_task`].
    const START: &str = "2025-11-21T22:41:12.345Z";

    fn moment(text: &str) -> UnixMs {
        UnixMs::from_rfc3339(text).expect("a time")
    }

    fn stalled_task(verdict: WhyVerdict) -> TaskView {
        let attention = AttentionView {
            verdict,
            waiting_on: None,
            awaited_input: None,
            certainty: Certainty::Soft,
            silent_ms: 60_000,
            advice: String::new(),
        };
        TaskView { attention: Some(attention), ..running_task() }
    }

    #[test]
    fn a_question_a_near_deadline_and_an_unread_failure_need_the_person() {
        let need =
            |view: &TaskView, now: &str| PersonNeed::for_task(view, true, moment(now), NOTICE);
        assert_eq!(need(&running_task(), START), None);
        for verdict in WhyVerdict::ALL_VERDICTS {
            let is_action = matches!(
                verdict,
                WhyVerdict::InputWait
                    | WhyVerdict::InputLikely
                    | WhyVerdict::PasswordLikely
                    | WhyVerdict::TtyStopped
                    | WhyVerdict::Stopped
            );
            let expected = is_action.then_some(PersonNeed::Action);
            assert_eq!(need(&stalled_task(verdict), START), expected, "{verdict:?}");
        }
        // The task has a time limit of 30 minutes.
        let old = TaskView { elapsed_ms: 29 * 60_000, ..running_task() };
        assert_eq!(need(&old, "2025-11-21T23:10:12.345Z"), Some(PersonNeed::Deadline));
        let short = TaskView { elapsed_ms: 60_000, ..running_task() };
        assert_eq!(need(&short, "2025-11-21T23:10:12.345Z"), None, "its limit is two minutes");
        let over = TaskView { breaches: vec![sample_breach()], ..running_task() };
        assert_eq!(need(&over, START), Some(PersonNeed::Limit));
        let failed = ended_task(Outcome::Exited { code: 7 });
        assert_eq!(need(&failed, START), Some(PersonNeed::UnreadFailure));
        assert_eq!(PersonNeed::for_task(&failed, false, moment(START), NOTICE), None);
        for harmless in [Outcome::Exited { code: 0 }, Outcome::Stopped { by: "user".to_owned() }] {
            assert_eq!(need(&ended_task(harmless), START), None);
        }
    }

    #[test]
    fn tasks_that_need_the_person_are_listed_first_and_other_ended_tasks_are_left_out() {
        let named = |name: &str, view: TaskView| TaskView { name: Some(name.to_owned()), ..view };
        let failed = || ended_task(Outcome::Exited { code: 7 });
        let mut views = vec![
            named("newest", running_task()),
            named("over", running_task()),
            named("asks", stalled_task(WhyVerdict::InputWait)),
            named("oldest", running_task()),
            named("done", ended_task(Outcome::Exited { code: 0 })),
        ];
        views.extend((0..7).map(|number| named(&format!("unread {number}"), failed())));
        views.push(named("read", failed()));
        let need = |view: &TaskView| match view.name.as_deref() {
            Some("over") => Some(PersonNeed::Limit),
            Some("asks") => Some(PersonNeed::Action),
            Some(name) if name.starts_with("unread") => Some(PersonNeed::UnreadFailure),
            Some(_) | None => None,
        };
        let names = |scope| -> Vec<String> {
            let rows = arrange_rows(views.clone(), need, scope).into_iter();
            rows.filter_map(|(view, _)| view.name).collect()
        };
        assert_eq!(
            names(ListScope::Overview),
            [
                "asks", "over", "unread 0", "unread 1", "unread 2", "unread 3", "unread 4",
                "newest", "oldest"
            ]
        );
        let all = names(ListScope::All);
        assert_eq!(all.len(), views.len());
        assert_eq!(all[..3], ["asks", "over", "unread 0"]);
        assert_eq!(all[9..], ["newest", "oldest", "done", "read"]);
    }

    #[test]
    fn ended_tasks_are_summarized_in_one_sentence() {
        let ends = [
            Outcome::Exited { code: 0 },
            Outcome::Exited { code: 0 },
            Outcome::Exited { code: 7 },
            Outcome::Lost { why: "a crash".to_owned() },
            Outcome::Released { by: "user".to_owned() },
        ];
        let mut views: Vec<TaskView> = ends.into_iter().map(ended_task).collect();
        views.push(running_task());
        let counts = EndedCounts::from_views(&views);
        assert_eq!(counts, EndedCounts { succeeded: 2, failed: 2, stopped: 1 });
        assert_eq!(
            format_summary(counts, None, true),
            "5 tasks have ended (2 with exit code 0, 2 failed, 1 stopped); --all lists them; \
             `siding notices` shows unread ends"
        );
        let one = EndedCounts { failed: 1, ..EndedCounts::default() };
        assert_eq!(
            format_summary(one, Some("3m ago"), false),
            "nothing is running; 1 task has ended (1 failed), the last 3m ago; --all lists them"
        );
    }

    #[test]
    fn a_start_is_shown_as_a_time_today_and_as_a_date_otherwise() {
        let now = LocalTime { year: 2026, month: 3, day: 2, hour: 9, minute: 5 };
        let earlier = LocalTime { hour: 7, ..now };
        assert_eq!(format_start(earlier, now), "07:05");
        assert_eq!(format_start(LocalTime { day: 1, ..earlier }, now), "Mar 1");
        assert_eq!(format_start(LocalTime { year: 2025, month: 12, ..earlier }, now), "Dec 2");
    }

    #[test]
    fn the_attention_column_names_the_reason() {
        let label = |view: &TaskView, need| person_cells(view, need, moment(START)).attention;
        assert_eq!(label(&running_task(), None), None);
        assert_eq!(label(&running_task(), Some(PersonNeed::Deadline)), Some("ends soon"));
        let asks = stalled_task(WhyVerdict::PasswordLikely);
        assert_eq!(label(&asks, Some(PersonNeed::Action)), Some("password"));
        let failed = ended_task(Outcome::Exited { code: 7 });
        assert_eq!(label(&failed, Some(PersonNeed::UnreadFailure)), Some("unread"));
    }
}
