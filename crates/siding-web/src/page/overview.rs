//! The page of all tasks: those that need a person, those that run, those that ended recently.

use maud::{Markup, html};
use siding_live::arrange::{SortKey, StateGroup, filter_tasks, sort_tasks};
use siding_live::{LiveTask, LiveView};
use siding_model::text::one_line;

use super::chrome::{NavItem, Page};
use super::{format, task_row};
use crate::context::WebContext;
use crate::query::{self, Query};

/// Maximum number of tasks of one list on a page.
const MAX_LISTED_TASKS: usize = 100;
/// Maximum size of the tasks of one list, in bytes. A page has three lists and stays below 200 kB.
const MAX_LIST_BYTES: usize = 60_000;
/// Maximum number of sessions that the search offers, those with the newest tasks.
const MAX_OFFERED_SESSIONS: usize = 30;
/// The groups of states that the page can be limited to.
const STATE_FILTERS: [&str; 4] = ["running", "failed", "stopped", "succeeded"];

/// Returns the page. `q` limits it to tasks that contain these words, `session` and `state` to
/// those of one session and state, and `skip` leaves out ended tasks that an earlier page showed.
pub(super) fn overview_page(context: &WebContext, query: &Query) -> Page {
    context.feed.sample(|_| true);
    let content = context.feed.read_fresh(|view| content(context, view, query));
    Page::new(NavItem::Overview, "Tasks", content)
        .with_value(selected_state(query).and_then(|_| query.number("skip")))
}

/// The tasks of the page.
struct TaskLists<'v> {
    needing: Vec<&'v LiveTask>,
    running: Vec<&'v LiveTask>,
    ended: Vec<&'v LiveTask>,
}

impl<'v> TaskLists<'v> {
    fn new(tasks: impl Iterator<Item = &'v LiveTask>) -> Self {
        let (mut needing, others): (Vec<&LiveTask>, Vec<&LiveTask>) =
            tasks.partition(|task| task.need.is_some());
        let (running, ended) = others.into_iter().partition(|task| task.is_live());
        sort_tasks(&mut needing, SortKey::Time);
        Self { needing, running, ended }
    }
}

fn content(context: &WebContext, view: &LiveView, query: &Query) -> Markup {
    let text = query.get("q").unwrap_or_default();
    let selected = filter_tasks(view.tasks(), text).filter(|task| is_selected(task, query));
    html! {
        h1 { "Tasks" }
        (search(view, query))
        div data-live="tasks" {
            (task_lists(&TaskLists::new(selected), query))
            @if !view.unreadable().is_empty() {
                p.need {
                    (view.unreadable().len())
                    " tasks cannot be read; " code { "siding ps" } " repairs or reports them"
                }
            }
        }
        @if !context.control {
            p.hint { "This page changes nothing. " code { "siding web --control" }
                " lets it stop, extend and release tasks, write input and acknowledge notices." }
        }
    }
}

fn task_lists(lists: &TaskLists<'_>, query: &Query) -> Markup {
    let TaskLists { needing, running, ended } = lists;
    // An invalid value is an error of the page.
    let skip = query.number("skip").unwrap_or_default().unwrap_or(0);
    let skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let ended_rows = render_rows(ended.get(skip..).unwrap_or_default());
    let next = skip.saturating_add(ended_rows.len());
    let later = ended.len().saturating_sub(next);
    let is_limited = ["q", "session", "state"].iter().any(|name| query.get(name).is_some());
    let running_count = task_row::count_running(running.iter().copied());
    let nothing = |text| if is_limited { "No task matches the search." } else { text };
    html! {
        @if skip == 0 {
            (section("needing", "Needs a person", &needing.len().to_string(), needing, None))
            (section("running", "Running", &running_count, running, Some(nothing("Nothing is \
                running. `siding run -- COMMAND` starts a task."))))
        }
        section #s-ended aria-labelledby="h-ended" {
            h2 #h-ended { "Ended " span.count { (ended.len()) } }
            @if ended.is_empty() { p.hint { (nothing("No task has ended.")) } }
            ul.tasks { @for row in &ended_rows { (row) } }
        }
        @if later > 0 {
            p { a href=(next_address(query, next)) { (later) " earlier tasks" } }
        }
    }
}

/// Returns the first tasks as elements of a list, as many as a list may contain.
fn render_rows(tasks: &[&LiveTask]) -> Vec<Markup> {
    let mut bytes = 0;
    let mut rows = Vec::new();
    for task in tasks.iter().take(MAX_LISTED_TASKS) {
        let row = task_row::row(task);
        bytes += row.0.len();
        // A single row is smaller than the limit, so the list is never empty.
        if bytes > MAX_LIST_BYTES {
            break;
        }
        rows.push(row);
    }
    rows
}

/// Returns the state to which an address limits the page; `None` for all states.
fn selected_state(query: &Query) -> Result<Option<&'static str>, String> {
    query.choice("state", &STATE_FILTERS)
}

fn is_selected(task: &LiveTask, query: &Query) -> bool {
    let is_session =
        query.get("session").is_none_or(|session| task.view.session_id.as_str() == session);
    let state = StateGroup::for_task(task).as_str();
    let is_state = selected_state(query).unwrap_or_default().is_none_or(|wanted| match wanted {
        // `running` selects every task that has not ended.
        "running" => task.is_live(),
        wanted => state == wanted,
    });
    is_session && is_state
}

fn section(
    id: &str,
    title: &str,
    count: &str,
    tasks: &[&LiveTask],
    when_empty: Option<&str>,
) -> Markup {
    let rows = render_rows(tasks);
    let hidden = tasks.len() - rows.len();
    html! {
        @if !tasks.is_empty() || when_empty.is_some() {
            // A script finds a section by its id, even after another one has appeared before it.
            section id={ "s-" (id) } aria-labelledby={ "h-" (id) } {
                h2 id={ "h-" (id) } { (title) " " span.count { (count) } }
                @if tasks.is_empty() { p.hint { (format::sentence(when_empty.unwrap_or_default())) } }
                ul.tasks { @for row in &rows { (row) } }
                @if hidden > 0 { p.hint { (hidden) " more; the search narrows the list" } }
            }
        }
    }
}

/// Returns the sessions of the newest tasks, and the selected one.
fn offered_sessions<'v>(view: &'v LiveView, selected: Option<&'v str>) -> Vec<&'v str> {
    let mut sessions: Vec<&str> = selected.into_iter().collect();
    for task in view.tasks() {
        let name = task.view.session_id.as_str();
        if sessions.len() < MAX_OFFERED_SESSIONS && !sessions.contains(&name) {
            sessions.push(name);
        }
    }
    sessions.sort_unstable();
    sessions
}

fn search(view: &LiveView, query: &Query) -> Markup {
    let session = query.get("session");
    let sessions = offered_sessions(view, session);
    html! {
        form.search role="search" method="get" action="/" {
            label {
                "Search " input type="search" name="q" value=[query.get("q")]
                    placeholder="words of the command, id, directory";
            }
            label {
                "State "
                select name="state" {
                    option value="" { "all" }
                    @for state in STATE_FILTERS {
                        option value=(state) selected[query.get("state") == Some(state)] { (state) }
                    }
                }
            }
            @if sessions.len() > 1 || session.is_some() {
                label {
                    "Session "
                    select name="session" {
                        option value="" { "all" }
                        @for name in sessions {
                            option value=(name) selected[session == Some(name)] {
                                (one_line(name, 60))
                            }
                        }
                    }
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn next_address(query: &Query, skip: usize) -> String {
    let mut address = format!("/?skip={skip}");
    for name in ["q", "state", "session"] {
        if let Some(value) = query.get(name) {
            address.push_str(&format!("&{name}={}", query::encode(value)));
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use siding_model::id::{TaskId, TaskKind};
    use siding_model::outcome::Outcome;
    use siding_model::person_need::PersonNeed;
    use siding_model::sample::sample_task_view;
    use siding_model::task_view::{PhaseName, QueuedView, TaskView};

    use super::*;

    fn task(number: u64, command: &str, outcome: Option<Outcome>) -> LiveTask {
        let bits = TaskId::MIN_BITS + (number << 12);
        let task_id = TaskId::new(TaskKind::LocalBash, bits).expect("an id");
        let phase = if outcome.is_some() { PhaseName::Ended } else { PhaseName::Running };
        LiveTask::from_view(TaskView {
            task_id,
            session_id: "a-session-with-a-long-name".parse().expect("a name"),
            name: Some("n".repeat(60)),
            command: command.to_owned(),
            phase,
            outcome,
            ended_at: Some("2026-03-02T07:06:00.000Z".to_owned()),
            elapsed_ms: 60_000,
            expected_ms: Some(90_000),
            expected_runs: Some(5),
            ..sample_task_view()
        })
    }

    /// Returns 1,000 tasks: a hundred that run, and a hundred that need a person.
    fn many_tasks(command: &str) -> Vec<LiveTask> {
        (0..1_000)
            .map(|number| {
                let failed = Outcome::Exited { code: 3 };
                let mut task = task(number, command, (number >= 100).then_some(failed));
                task.need = (100..200).contains(&number).then_some(PersonNeed::UnreadFailure);
                task
            })
            .collect()
    }

    #[test]
    fn a_page_of_a_thousand_tasks_is_below_200_kb() {
        for command in ["cargo test".to_owned(), "x".repeat(4_000), "\"<&>\"".repeat(800)] {
            let tasks = many_tasks(&command);
            let lists = TaskLists::new(tasks.iter());
            let page = task_lists(&lists, &Query::parse("")).into_string();
            // The head of the page and the search are below 10 kB.
            assert!(page.len() < 190_000, "{} bytes of {command:.20}", page.len());
            assert!(page.contains("Needs a person") && page.contains("earlier tasks"), "{page}");
            for section in ["needing", "running", "ended"] {
                assert_eq!(page.matches(&format!("<section id=\"s-{section}\"")).count(), 1);
            }
        }
    }

    #[test]
    fn queued_tasks_are_counted_apart() {
        let mut tasks: Vec<LiveTask> = (0..5).map(|number| task(number, "make", None)).collect();
        for queued in tasks.iter_mut().take(2) {
            queued.view.queued = Some(QueuedView {
                job_id: Some("7".to_owned()),
                state: "PENDING".to_owned(),
                reason: None,
                expected_start: None,
            });
        }
        let page = task_lists(&TaskLists::new(tasks.iter()), &Query::default()).into_string();
        assert!(page.contains("Running <span class=\"count\">3, 2 queued</span>"), "{page}");
        let page = task_lists(&TaskLists::new(tasks[2..].iter()), &Query::default()).into_string();
        assert!(page.contains("Running <span class=\"count\">3</span>"), "{page}");
    }

    #[test]
    fn an_empty_list_shows_the_command_that_starts_a_task() {
        let nothing = TaskLists::new(std::iter::empty());
        let page = task_lists(&nothing, &Query::default()).into_string();
        assert!(page.contains("<code>siding run -- COMMAND</code> starts a task."), "{page}");
    }

    #[test]
    fn the_pages_together_show_each_ended_task_once() {
        let tasks = many_tasks(&"y".repeat(1_000));
        let lists = TaskLists::new(tasks.iter());
        let (mut skip, mut shown) = (0, Vec::new());
        loop {
            let page = task_lists(&lists, &Query::parse(&format!("skip={skip}"))).into_string();
            let ended = page.split("id=\"h-ended\"").nth(1).expect("the ended tasks");
            let before = shown.len();
            let ids = ended.split("id=\"t-").skip(1).filter_map(|row| row.split('"').next());
            shown.extend(ids.map(str::to_owned));
            assert!(shown.len() > before, "page {skip} is empty");
            skip = shown.len();
            if !page.contains("earlier tasks") {
                break;
            }
        }
        let mut expected: Vec<String> =
            lists.ended.iter().map(|task| task.view.task_id.to_string()).collect();
        expected.sort();
        shown.sort();
        assert_eq!(shown, expected);
    }
}
