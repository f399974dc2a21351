//! The history: the usual duration and result of each command, and the earlier runs of one.

use maud::{Markup, html};
use siding_history::Filter;
use siding_model::history::{Expectation, Quantile, Run};
use siding_model::size::format_size;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::chrome::{NavItem, Page};
use super::command_order::{self, CommandOrder, CommandRow};
use super::duration_chart::{MarkedDuration, RunPoint, distribution};
use super::format;
use super::table::{CellKind, table};
use crate::context::WebContext;
use crate::query::{self, Query};

/// Maximum number of commands on the page.
const MAX_LISTED_COMMANDS: usize = 100;
/// Maximum number of earlier runs in the drawing of a command.
const MAX_SHOWN_RUNS: usize = 50;

/// Returns the page of all commands. `q` selects those that begin with these words, and `sort` is
/// their order.
pub(super) fn history_page(context: &WebContext, query: &Query) -> Page {
    let sort = query.choice("sort", &CommandOrder::ALL.map(|(_, name, _)| name));
    let order = CommandOrder::from_name(sort.clone().unwrap_or_default());
    let filter = Filter::new(query.get("q"), None);
    let found =
        siding_history::query_best_effort(&context.root, |history| history.summaries(&filter));
    let content = html! {
        h1 { "History" }
        form.search role="search" method="get" action="/history" {
            label { "Command " input type="search" name="q" value=[query.get("q")]
                placeholder="first words of a command"; }
            @if let Ok(Some(name)) = &sort { input type="hidden" name="sort" value=(name); }
            button type="submit" { "Show" }
        }
        (order_links(query, order))
        @match found.map(|found| found.value) {
            None => p.need { "The history cannot be read; " code { "siding doctor" } " checks it." },
            Some(all) => {
                @let rows = context.feed.read(|view| command_order::add_outputs(view, all));
                (summary_table(rows, order))
            },
        }
    };
    Page::new(NavItem::History, "History", content).with_value(sort)
}

const COLUMNS: [(&str, CellKind); 8] = [
    ("Command", CellKind::Text),
    ("Runs", CellKind::Number),
    ("Median", CellKind::Number),
    ("9 of 10", CellKind::Number),
    ("OK", CellKind::Number),
    ("Memory", CellKind::Number),
    ("Output", CellKind::Number),
    ("Last", CellKind::Text),
];

fn order_links(query: &Query, current: CommandOrder) -> Markup {
    let words = query.get("q").map_or_else(String::new, |q| format!("&q={}", query::encode(q)));
    html! {
        nav.periods aria-label="Order" {
            span { "First the" }
            @for (order, name, label) in CommandOrder::ALL {
                a href={ "/history?sort=" (name) (words) }
                    aria-current=[(order == current).then_some("true")] { (label) }
            }
        }
    }
}

fn summary_table(mut all: Vec<CommandRow>, order: CommandOrder) -> Markup {
    command_order::sort_commands(&mut all, order);
    html! {
        @if all.is_empty() { p.hint { "No command has ended yet." } }
        @else {
            (table(&COLUMNS, all.iter().take(MAX_LISTED_COMMANDS).map(cells)))
            @if all.len() > MAX_LISTED_COMMANDS {
                p.hint { (all.len() - MAX_LISTED_COMMANDS) " more; the search narrows the list" }
            }
        }
    }
}

fn cells(row: &CommandRow) -> Vec<Markup> {
    let summary = &row.summary;
    let usual = summary.expectation;
    let rate = summary.success_rate().map(|rate| format!("{:.0}%", (rate * 100.0).floor()));
    let last = &summary.last;
    vec![
        html! {
            a.command href={ "/?q=" (query::encode(&one_line(&last.command, 60))) } {
                (one_line(&last.command, 120))
            }
            " " span.hint { (one_line(&last.cwd, 80)) }
        },
        html! { (summary.runs) },
        html! { (quantile(usual.map(|usual| usual.median))) },
        html! { (quantile(usual.map(|usual| usual.p90))) },
        html! { (rate.as_deref().unwrap_or("-")) },
        html! { (summary.peak_memory.map_or_else(|| "-".to_owned(), format_size)) },
        html! { (row.output_bytes.map_or_else(|| "-".to_owned(), format_size)) },
        html! { (format::short_outcome(&last.outcome)) ", " (format::time_element(last.ended)) },
    ]
}

fn quantile(value: Option<Quantile>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Quantile::Exact(ms)) => format::duration_ms(ms),
        Some(Quantile::MoreThan(ms)) => format!(">{}", format::duration_ms(ms)),
    }
}

/// Returns the earlier runs of a task's command in the same directory.
pub(super) fn of_task(context: &WebContext, view: &TaskView) -> Markup {
    let filter = Filter::new(Some(&view.command), Some(&view.history_directory()));
    let found = siding_history::query_best_effort(&context.root, |history| {
        history.runs(&filter, MAX_SHOWN_RUNS)
    });
    let runs: Vec<Run> = found.map(|found| found.value).unwrap_or_default();
    let usual = Expectation::from_runs(&runs);
    let median = usual.and_then(|usual| usual.median.exact_ms());
    let p90 = usual.and_then(|usual| usual.p90.exact_ms());
    let marks: Vec<MarkedDuration> =
        [("median", median), ("9 of 10", p90), ("this run", Some(view.elapsed_ms))]
            .into_iter()
            .filter_map(|(label, ms)| Some(MarkedDuration { label, ms: ms? }))
            .collect();
    let points: Vec<RunPoint> = runs.iter().filter_map(run_point).collect();
    html! {
        @if !runs.is_empty() {
            section aria-labelledby="h-history" {
                h2 #h-history { "Runs of this command " span.count { (runs.len()) } }
                @if let Some(usual) = usual {
                    p { "Half of the runs take at most " (quantile(Some(usual.median)))
                        ", nine of ten at most " (quantile(Some(usual.p90))) "; this one "
                        @if view.outcome.is_some() { "took " } @else { "has taken " }
                        (format::duration_ms(view.elapsed_ms)) "." }
                }
                (distribution(&points, &marks))
                ul.runs {
                    @for run in runs.iter().take(10) {
                        li {
                            a href={ "/tasks/" (run.task_id) } { (format::time_element(run.ended)) }
                            " " (format::short_outcome(&run.outcome))
                            @if let Some(ms) = run.ran_ms { " after " (format::duration_ms(ms)) }
                        }
                    }
                }
            }
        }
    }
}

fn run_point(run: &Run) -> Option<RunPoint> {
    let is_failed = siding_model::person_need::is_failed_outcome(&run.outcome);
    run.ran_ms.map(|ms| RunPoint { ms, is_failed })
}
