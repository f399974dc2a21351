//! The history: the usual duration and result of each command, and the earlier runs of one.

use maud::{Markup, html};
use siding_history::Filter;
use siding_model::history::{Expectation, Quantile, Run, RunSummary};
use siding_model::size::format_size;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use super::chrome::{self, NavItem};
use super::format;
use super::table::{CellKind, table};
use crate::context::WebContext;
use crate::query::{self, Query};

/// Maximum number of commands on the page.
const MAX_LISTED_COMMANDS: usize = 100;
/// Maximum number of earlier runs in the picture of a command.
const MAX_SHOWN_RUNS: usize = 50;
/// Size of the picture, in units of the drawing.
const PICTURE_WIDTH: f64 = 600.0;
const PICTURE_HEIGHT: f64 = 60.0;

/// Returns the page of all commands. `q` selects those that begin with these words.
pub(super) fn history_page(context: &WebContext, query: &Query) -> Markup {
    let filter = Filter::new(query.get("q"), None);
    let found =
        siding_history::query_best_effort(&context.root, |history| history.summaries(&filter));
    let content = html! {
        h1 { "History" }
        form.search role="search" method="get" action="/history" {
            label { "Command " input type="search" name="q" value=[query.get("q")]
                placeholder="its first words"; }
            button type="submit" { "Show" }
        }
        @match found.map(|found| found.value) {
            None => p.need { "The history cannot be read; " code { "siding doctor" } " checks it." },
            Some(all) => (summary_table(&all)),
        }
    };
    chrome::wrap(context, NavItem::History, "History", &content)
}

const COLUMNS: [(&str, CellKind); 7] = [
    ("Command", CellKind::Text),
    ("Runs", CellKind::Number),
    ("Median", CellKind::Number),
    ("9 of 10", CellKind::Number),
    ("OK", CellKind::Number),
    ("Memory", CellKind::Number),
    ("Last", CellKind::Text),
];

fn summary_table(all: &[RunSummary]) -> Markup {
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

fn cells(summary: &RunSummary) -> Vec<Markup> {
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
        html! { (format::short_outcome(&last.outcome)) ", " (format::clock_time(last.ended)) },
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
    let filter = Filter::new(Some(&view.command), Some(&view.cwd));
    let found = siding_history::query_best_effort(&context.root, |history| {
        history.runs(&filter, MAX_SHOWN_RUNS)
    });
    let runs: Vec<Run> = found.map(|found| found.value).unwrap_or_default();
    let usual = Expectation::from_runs(&runs);
    html! {
        @if !runs.is_empty() {
            section aria-labelledby="h-history" {
                h2 #h-history { "Earlier runs of this command " span.count { (runs.len()) } }
                @if let Some(usual) = usual {
                    p { "Half of the runs take at most " (quantile(Some(usual.median)))
                        ", nine of ten at most " (quantile(Some(usual.p90))) "." }
                }
                (picture(&runs, view))
                ul.runs {
                    @for run in runs.iter().take(10) {
                        li {
                            a href={ "/tasks/" (run.task_id) } { (format::clock_time(run.ended)) }
                            " " (format::short_outcome(&run.outcome))
                            @if let Some(ms) = run.ran_ms { " after " (format::duration_ms(ms)) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a drawing with a mark for each run at its duration, and a line for the present task. The
/// text next to it has the same numbers.
fn picture(runs: &[Run], view: &TaskView) -> Markup {
    let longest = runs.iter().filter_map(|run| run.ran_ms).max().unwrap_or(0).max(view.elapsed_ms);
    let x = |ms: u64| position(ms, longest);
    html! {
        svg.runs-picture viewBox={ "0 0 " (PICTURE_WIDTH) " " (PICTURE_HEIGHT) } role="img"
            aria-label={ "Durations of " (runs.len()) " runs, up to " (format::duration_ms(longest)) } {
            line.axis x1="0" y1="50" x2=(PICTURE_WIDTH) y2="50" {}
            @for run in runs {
                @if let Some(ms) = run.ran_ms {
                    circle cx=(x(ms)) cy="30" r="5" data-outcome=(outcome_class(run)) {}
                }
            }
            line.now x1=(x(view.elapsed_ms)) y1="5" x2=(x(view.elapsed_ms)) y2="50" {}
        }
    }
}

fn outcome_class(run: &Run) -> &'static str {
    if siding_model::person_need::is_failed_outcome(&run.outcome) { "failed" } else { "other" }
}

/// Returns the horizontal position of a duration in the picture.
fn position(ms: u64, longest_ms: u64) -> String {
    const MARGIN: f64 = 8.0;
    // Whole steps of a thousandth are exact enough for a drawing.
    let share = u128::from(ms) * 1000 / u128::from(longest_ms.max(1));
    let share = f64::from(u16::try_from(share).unwrap_or(1000)) / 1000.0;
    format!("{:.1}", MARGIN + share * (PICTURE_WIDTH - 2.0 * MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_run_is_at_the_right_margin() {
        assert_eq!(position(0, 1000), "8.0");
        assert_eq!(position(1000, 1000), "592.0");
        assert_eq!(position(0, 0), "8.0");
        assert_eq!(position(u64::MAX, u64::MAX), "592.0");
    }
}
