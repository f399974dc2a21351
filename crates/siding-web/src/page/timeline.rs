//! The page of the timeline: tasks over time, as `siding timeline` draws them.

use std::time::Duration;

use maud::{Markup, PreEscaped, html};
use siding_core::session;
use siding_core::store::{StateDir, StoreError};
use siding_core::sys::clock;
use siding_core::task::timeline;
use siding_model::duration;
use siding_model::id::SessionId;
use siding_model::process::UnixMs;
use siding_model::text::one_line;
use siding_model::timeline::{
    SVG_GRID, SessionParents, SvgLinks, Timeline, TimelineGrid, TimelineWindow, render_svg,
    retain_sessions,
};

use super::chrome::{NavItem, Page};
use super::format;
use crate::context::WebContext;
use crate::query::{self, Query};

/// The periods to which the page has links.
const PERIODS: [&str; 6] = ["15m", "1h", "4h", "12h", "1d", "1w"];
/// The period without `since` in the address.
const DEFAULT_PERIOD: &str = "1h";
/// Maximum length of the period.
const MAX_PERIOD: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Shortest time between two refreshes of the page, in milliseconds: a timeline reads the journal of
/// each of its tasks.
const REFRESH_PAUSE_MS: u32 = 5_000;

/// Returns the page. `since` is the length of the period up to now, such as `8h`, `session` limits
/// the page to a session and its subagents, and `offset` is the difference between the viewer's
/// time zone and UTC in minutes, which a script knows.
pub(super) fn timeline_page(context: &WebContext, query: &Query) -> Page {
    let asked = query.get("since").unwrap_or(DEFAULT_PERIOD);
    let session = query.get("session");
    let offset_ms = parse_offset(query.get("offset"));
    let choice = parse_choice(asked, session);
    let drawn = choice.as_ref().ok().map(|(period, session)| {
        read_timeline(&context.root, *period, session.as_ref(), offset_ms)
    });
    let content = html! {
        h1 { "Timeline" }
        (period_links(asked, session))
        @match &drawn {
            None => {}
            Some(Err(error)) => p.need { (format::sentence(&one_line(&error.to_string(), 300))) },
            Some(Ok((timeline, unreadable))) => (picture(timeline, *unreadable)),
        }
    };
    Page::new(NavItem::Timeline, "Timeline", content).with_value(choice)
}

/// Returns the style rules for the picture. They are a separate file, because the content
/// security policy allows no style sheet inside a page.
pub(crate) fn style_sheet() -> String {
    let now = UnixMs(0);
    let window = TimelineWindow::fit(&[], now, 0);
    let empty = Timeline::new(window, SVG_GRID, Vec::new(), &SessionParents::new());
    let picture = render_svg(&empty, SvgLinks::None);
    split_style(&picture).1.to_owned()
}

/// Returns the period and the session of an address.
fn parse_choice(
    period: &str,
    session: Option<&str>,
) -> Result<(Duration, Option<SessionId>), String> {
    let period = duration::parse(period).map_err(|error| error.to_string())?;
    if period.is_zero() {
        return Err("the period is empty; give a duration such as `30m` or `8h`".to_owned());
    }
    let parse = |name: &str| {
        name.parse::<SessionId>().map_err(|_| format!("`{name}` is not the name of a session"))
    };
    let session = session.map(parse);
    Ok((period.min(MAX_PERIOD), session.transpose()?))
}

/// Returns the difference to UTC, in milliseconds, of a time zone that an address names in minutes;
/// `None` for the zone of the server.
fn parse_offset(minutes: Option<&str>) -> Option<i64> {
    const DAY_MINUTES: i64 = 24 * 60;
    let minutes: i64 = minutes?.parse().ok()?;
    (-DAY_MINUTES..DAY_MINUTES).contains(&minutes).then(|| minutes * 60_000)
}

/// Reads the tasks of a period. Returns their timeline, and the number of tasks that could not be
/// read.
fn read_timeline(
    root: &StateDir,
    period: Duration,
    session: Option<&SessionId>,
    offset_ms: Option<i64>,
) -> Result<(Timeline, usize), StoreError> {
    let now = clock::unix_now();
    let back_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let (mut tasks, mut unreadable) = (Vec::new(), 0);
    for (_, task) in timeline::read_tasks(root, now.plus_ms(back_ms.saturating_neg()))? {
        match task {
            Ok(task) => tasks.extend(task),
            Err(_) => unreadable += 1,
        }
    }
    if let Some(session) = session {
        retain_sessions(&mut tasks, &session::session_tree(root, session)?);
    }
    let window = TimelineWindow::fit(&tasks, now, back_ms);
    let parents = timeline::read_session_parents(root, &tasks);
    let utc_offset_ms = offset_ms.unwrap_or_else(|| clock::local_offset_ms(now));
    let grid = TimelineGrid { utc_offset_ms, ..SVG_GRID };
    Ok((Timeline::new(window, grid, tasks, &parents), unreadable))
}

fn period_links(asked: &str, session: Option<&str>) -> Markup {
    let suffix =
        session.map_or_else(String::new, |session| format!("&session={}", query::encode(session)));
    html! {
        nav.periods aria-label="Period" {
            span { "The last" }
            @for period in PERIODS {
                a href={ "/timeline?since=" (period) (suffix) }
                    aria-current=[(period == asked).then_some("true")] { (period) }
            }
            @if let Some(session) = session {
                span { "of session " code { (one_line(session, 60)) } " " a href={ "/timeline?since="
                    (query::encode(asked)) } { "all sessions" } }
            }
        }
    }
}

fn picture(timeline: &Timeline, unreadable: usize) -> Markup {
    let svg = render_svg(timeline, SvgLinks::ToTasks("/tasks/"));
    let (before, _, after) = split_style(&svg);
    let zone = format::zone_name(timeline.utc_offset_minutes * 60_000);
    html! {
        div data-live="timeline" data-pause=(REFRESH_PAUSE_MS)
            data-utc-offset=(timeline.utc_offset_minutes)
            data-refresh[timeline.counts.running > 0] {
            @if timeline.counts.tasks == 0 {
                p.hint { "No task ran in this period; a longer period shows more." }
            } @else {
                // siding-model draws the picture and escapes the text of tasks.
                div.wide role="region" aria-label="Timeline" tabindex="0" {
                    (PreEscaped(before)) (PreEscaped(after))
                }
                p.hint { "Times are in the zone " (zone) "." }
            }
            @if unreadable > 0 {
                p.need { (unreadable) " tasks cannot be read; " code { "siding ps" }
                    " repairs or reports them" }
            }
        }
        p.hint { "A bar is a link to its task. " code { "siding timeline --svg" }
            " writes the picture to a file; removed tasks are not shown." }
    }
}

/// Splits a picture into the part before its style sheet, the style sheet, and the part after it.
fn split_style(picture: &str) -> (&str, &str, &str) {
    let Some((before, rest)) = picture.split_once("<style>") else { return (picture, "", "") };
    let (style, after) = rest.split_once("</style>").unwrap_or((rest, ""));
    (before, style, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_is_separate_from_the_picture() {
        let style = style_sheet();
        assert!(style.contains(".siding-timeline text"), "{style}");
        assert!(!style.contains('<'), "{style}");
        assert_eq!(split_style("<svg><style>a{}</style><g/>"), ("<svg>", "a{}", "<g/>"));
        assert_eq!(split_style("<svg/>"), ("<svg/>", "", ""));
    }

    #[test]
    fn an_offset_is_less_than_a_day() {
        assert_eq!(parse_offset(Some("-210")), Some(-12_600_000));
        for text in [None, Some(""), Some("1440"), Some("-9223372036854775808"), Some("+1h")] {
            assert_eq!(parse_offset(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_period_is_a_duration_above_zero() {
        let period = |text| parse_choice(text, None).map(|(period, _)| period.as_secs());
        assert_eq!(period("90m"), Ok(5_400));
        assert_eq!(period("9999h"), Ok(MAX_PERIOD.as_secs()));
        assert!(period("0s").is_err() && period("soon").is_err());
        let (_, session) = parse_choice("1h", Some("build")).expect("a choice");
        assert_eq!(session.expect("a session").as_str(), "build");
        for period in PERIODS {
            assert!(parse_choice(period, None).is_ok(), "{period}");
        }
    }
}
