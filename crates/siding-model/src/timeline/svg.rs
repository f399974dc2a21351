//! Draws a timeline as SVG.
//!
//! The picture is self-contained: it has no script and loads nothing. Its colors follow the color
//! scheme of the viewer. No fact is shown only by a color, and each bar and mark has a title for a
//! pointer and a screen reader. Equal timelines and links give equal bytes.

mod style;

use std::fmt::Write as _;
use std::ops::Range;

use crate::process::UnixMs;
use crate::text::{display_width, escape_xml, one_line};

use super::axis::MINUTE_MS;
use super::{BarState, BarStatus, MarkKind, Timeline, TimelineBar, TimelineGrid, TimelineLane};
use super::{TimelineMark, TimelineRow};
use style::STYLE;

/// The resolution of a timeline that [`render_svg`] draws. A column is one unit, which is a pixel
/// at the natural size. The labels of the axis are in UTC; the caller may set another offset.
pub const SVG_GRID: TimelineGrid = TimelineGrid {
    columns: 690,
    min_bar_columns: 3,
    max_rows: 60,
    char_columns: 7,
    utc_offset_ms: 0,
};

/// The links of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SvgLinks<'a> {
    /// The picture has no links.
    None,
    /// The bar of a task is a link to the task's id after this relative path, such as `tasks/`.
    ToTasks(&'a str),
}

/// Left end of the first column.
const PLOT_LEFT: usize = 250;
const RIGHT_MARGIN: usize = 20;
const LEFT_MARGIN: usize = 12;
/// Baselines of the title and of the labels of the axis.
const TITLE_Y: usize = 22;
const AXIS_Y: usize = 46;
/// Top of the first lane.
const LANES_TOP: usize = 56;
const ROW_HEIGHT: usize = 22;
const BAR_HEIGHT: usize = 14;
/// Indent of a task below the task that started it, and of a session below its parent.
const INDENT: usize = 12;
/// Maximum indent, so that a label keeps enough room.
const MAX_INDENT: usize = 8 * INDENT;
/// Width of a character of a label, in tenths of a unit: 0.6 of the font size of 11.
const CHAR_TENTHS: usize = 66;
/// Number of leading characters of an id in a label. They are usually unique.
const ID_CHARS: usize = 6;
/// Radius of the circle of a mark.
const MARK_RADIUS: usize = 6;
/// Space between a bar and its note.
const NOTE_GAP: usize = 10;
/// Space between two items of the legend.
const LEGEND_GAP: usize = 22;
/// Minimum distance between a label of the axis and the word `now`.
const NOW_GAP: usize = 42;

/// Draws a timeline whose grid was [`SVG_GRID`].
#[must_use]
pub fn render_svg(timeline: &Timeline, links: SvgLinks<'_>) -> String {
    let rows: usize = timeline.lanes.iter().map(|lane| lane.rows.len() + 1).sum();
    let plot_bottom = LANES_TOP + rows.max(1) * ROW_HEIGHT;
    let mut picture = Picture { out: String::new(), timeline, links };
    let legend = picture.legend_rows();
    let height = plot_bottom + legend.len() * ROW_HEIGHT + ROW_HEIGHT / 2;
    picture.draw_head(height);
    picture.draw_axis(plot_bottom);
    let mut y = LANES_TOP;
    for lane in &timeline.lanes {
        picture.draw_lane(lane, &mut y);
    }
    picture.draw_now(plot_bottom);
    for (row, items) in legend.iter().enumerate() {
        let y = plot_bottom + (row + 1) * ROW_HEIGHT - 4;
        for (left, text) in items {
            picture.push_text("faint", *left, y, text);
        }
    }
    picture.out.push_str("</svg>\n");
    picture.out
}

struct Picture<'t> {
    out: String,
    timeline: &'t Timeline,
    links: SvgLinks<'t>,
}

impl Picture<'_> {
    fn draw_head(&mut self, height: usize) {
        let width = PLOT_LEFT + self.timeline.columns + RIGHT_MARGIN;
        let (since, now) = (self.local(&self.timeline.since), self.local(&self.timeline.now));
        let until = match now.split_once(' ') {
            Some((date, time)) if since.starts_with(date) => time,
            Some(_) | None => &now,
        };
        let summary = self.timeline.counts.describe();
        // The content of an element with the role `img`, such as titles and links, is hidden from
        // screen readers.
        let _writing_to_string = write!(
            self.out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"siding-timeline\" role=\"group\" \
             aria-labelledby=\"timeline-title timeline-desc\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"ui-monospace, monospace\" font-size=\"11\">\n\
             <title id=\"timeline-title\">Timeline of tasks</title>\n\
             <desc id=\"timeline-desc\">{summary}, from {since} to {until}</desc>\n\
             <style>{STYLE}</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n"
        );
        self.push_text("title", LEFT_MARGIN, TITLE_Y, &format!("{summary}, {since} to {until}"));
    }

    fn draw_axis(&mut self, bottom: usize) {
        let now = self.timeline.now_column;
        for tick in &self.timeline.ticks {
            let x = PLOT_LEFT + tick.column;
            let _writing_to_string =
                writeln!(self.out, "<path class=\"grid\" d=\"M{x} {}V{bottom}\"/>", LANES_TOP - 4);
            if now.is_none_or(|now| now.abs_diff(tick.column) >= NOW_GAP) {
                self.push_text("tick", x, AXIS_Y, &tick.label);
            }
        }
    }

    fn draw_now(&mut self, bottom: usize) {
        let Some(column) = self.timeline.now_column else { return };
        let x = PLOT_LEFT + column;
        let _writing_to_string =
            writeln!(self.out, "<path class=\"now\" d=\"M{x} {}V{bottom}\"/>", LANES_TOP - 4);
        self.push_text("tick now", x, AXIS_Y, "now");
    }

    fn draw_lane(&mut self, lane: &TimelineLane, y: &mut usize) {
        let width = PLOT_LEFT + self.timeline.columns + RIGHT_MARGIN;
        let _writing_to_string = writeln!(
            self.out,
            "<rect class=\"lane\" y=\"{y}\" width=\"{width}\" height=\"{ROW_HEIGHT}\"/>"
        );
        let x = LEFT_MARGIN + (lane.depth * INDENT).min(MAX_INDENT);
        let name = lane.session_id.as_ref().map_or_else(
            || format!("{} other sessions", lane.sessions),
            |session| format!("session {session}"),
        );
        let chars = chars_in(width - x);
        let text = one_line(&format!("{name}: {}", lane.counts.describe()), chars);
        self.push_text("lane-name", x, *y + 15, &text);
        *y += ROW_HEIGHT;
        for row in &lane.rows {
            self.draw_row(row, *y);
            *y += ROW_HEIGHT;
        }
    }

    fn draw_row(&mut self, row: &TimelineRow, y: usize) {
        let x = LEFT_MARGIN + ((row.depth + 1) * INDENT).min(MAX_INDENT);
        let chars = chars_in(PLOT_LEFT - x - 8);
        let (class, label) = match row.bars.as_slice() {
            [TimelineBar { task: Some(task), .. }] => {
                let id: String = task.task_id.to_string().chars().take(ID_CHARS).collect();
                ("label", format!("{id} {}", task.title))
            }
            bars => {
                let tasks: usize = bars.iter().map(|bar| bar.counts.tasks).sum();
                ("faint", format!("{tasks} tasks"))
            }
        };
        self.push_text(class, x, y + 15, &one_line(&label, chars));
        for (place, bar) in row.bars.iter().enumerate() {
            let start = row.bars[..place].last().map_or(0, |previous| previous.to);
            let end = row.bars.get(place + 1).map_or(self.timeline.columns, |next| next.from);
            self.draw_bar(bar, y);
            self.draw_note(bar, y, start..end);
        }
    }

    /// Draws a bar and its marks.
    fn draw_bar(&mut self, bar: &TimelineBar, y: usize) {
        let link = match (self.links, &bar.task) {
            (SvgLinks::ToTasks(prefix), Some(task)) => {
                let target = escape_xml(&format!("{prefix}{}", task.task_id));
                let _writing_to_string = write!(self.out, "<a href=\"{target}\">");
                true
            }
            (SvgLinks::None, _) | (SvgLinks::ToTasks(_), None) => false,
        };
        let title = escape_xml(&self.bar_title(bar));
        let status = bar.status.as_str();
        let _writing_to_string =
            write!(self.out, "<g class=\"bar {status}\"><title>{title}</title>");
        let whole = [super::BarPart { from: bar.from, to: bar.to, state: BarState::Background }];
        for part in if bar.parts.is_empty() { &whole[..] } else { &bar.parts } {
            let height = part_height(part.state);
            let _writing_to_string = write!(
                self.out,
                "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{height}\"/>",
                part.state.as_str(),
                PLOT_LEFT + part.from,
                y + (ROW_HEIGHT - height) / 2,
                part.to - part.from,
            );
        }
        for mark in &bar.marks {
            self.draw_mark(mark, bar.status, y);
        }
        self.out.push_str("</g>");
        self.out.push_str(if link { "</a>\n" } else { "\n" });
    }

    fn draw_mark(&mut self, mark: &TimelineMark, status: BarStatus, y: usize) {
        let symbol = match mark.kind.symbol() {
            Some(symbol) => symbol,
            None if status == BarStatus::Failed => 'x',
            // The color and the note of the bar show this end.
            None => return,
        };
        let again =
            if mark.events > 1 { format!(" ({} times)", mark.events) } else { String::new() };
        let title =
            format!("{}: {}{again} at {}", mark.kind.legend(), mark.text, self.local(&mark.at));
        let (x, y) = (PLOT_LEFT + mark.column, y + ROW_HEIGHT / 2);
        let _writing_to_string = write!(
            self.out,
            "<g class=\"mark\"><title>{}</title><circle cx=\"{x}\" cy=\"{y}\" r=\"{MARK_RADIUS}\"/>\
             <text x=\"{x}\" y=\"{}\">{}</text></g>",
            escape_xml(&title),
            y + 3,
            escape_xml(&symbol.to_string()),
        );
    }

    /// Writes the note of a bar to the right of the bar, otherwise to its left, otherwise into it,
    /// in the longest form that has room. The columns in `free` belong to no other bar.
    fn draw_note(&mut self, bar: &TimelineBar, y: usize, free: Range<usize>) {
        let inside = bar.unmarked_columns(MARK_RADIUS).unwrap_or_default();
        let places = [bar.note(), bar.short_note()].into_iter().find_map(|note| {
            let width = text_width(&note) + NOTE_GAP;
            if bar.to + width <= free.end {
                Some(("note", bar.to + NOTE_GAP - 1, note))
            } else if bar.from >= free.start + width {
                Some(("note", bar.from - width, note))
            } else if inside.1 - inside.0 >= width + NOTE_GAP {
                Some(("note-inside", inside.0 + NOTE_GAP, note))
            } else {
                None
            }
        });
        if let Some((class, column, note)) = places {
            self.push_text(class, PLOT_LEFT + column, y + 15, &note);
        }
    }

    fn bar_title(&self, bar: &TimelineBar) -> String {
        let at = self.local(&bar.started_at);
        let note = bar.note();
        match &bar.task {
            Some(task)
                if bar.status == BarStatus::Running || bar.status == BarStatus::Succeeded =>
            {
                let status = bar.status.as_str();
                format!("{} {}: {status}, {note}, since {at}", task.task_id, task.title)
            }
            Some(task) => format!("{} {}: {note}, since {at}", task.task_id, task.title),
            None => format!("{note}, the first since {at}"),
        }
    }

    /// Returns the rows of the legend, which explains the marks and the parts of the bars. Each
    /// item has its distance from the left.
    fn legend_rows(&self) -> Vec<Vec<(usize, String)>> {
        let bars =
            || self.timeline.lanes.iter().flat_map(|lane| &lane.rows).flat_map(|row| &row.bars);
        let shapes = BarState::ALL.into_iter().filter_map(|state| {
            let is_used = bars().flat_map(|bar| &bar.parts).any(|part| part.state == state);
            let shape = match state {
                BarState::Foreground => "light bar",
                BarState::Background => "full bar",
                BarState::Lingering => "half-height bar",
                BarState::Stopping => "thin bar",
            };
            is_used.then(|| format!("{shape}: {}", state.as_str()))
        });
        let kinds = MarkKind::ALL.into_iter().filter_map(|kind| {
            let is_used = bars().flat_map(|bar| &bar.marks).any(|mark| mark.kind == kind);
            kind.symbol().filter(|_| is_used).map(|symbol| format!("{symbol} {}", kind.legend()))
        });
        let failed = bars()
            .any(|bar| bar.status == BarStatus::Failed && bar.task.is_some())
            .then(|| "x failed".to_owned());
        let mut rows: Vec<Vec<(usize, String)>> = Vec::new();
        let mut left = usize::MAX;
        for item in shapes.chain(kinds).chain(failed) {
            let width = text_width(&item);
            if left.saturating_add(width) > PLOT_LEFT + self.timeline.columns {
                rows.push(Vec::new());
                left = LEFT_MARGIN;
            }
            rows.last_mut().expect("a row was added").push((left, item));
            left += width + LEGEND_GAP;
        }
        rows
    }

    fn push_text(&mut self, class: &str, x: usize, y: usize, text: &str) {
        let text = escape_xml(text);
        let _writing_to_string =
            writeln!(self.out, "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>");
    }

    /// Formats a time of the timeline, which is RFC 3339 in UTC, as local time.
    fn local(&self, moment: &str) -> String {
        let offset_ms = self.timeline.utc_offset_minutes.saturating_mul(MINUTE_MS);
        UnixMs::from_rfc3339(moment).map_or_else(String::new, |at| at.format_local(offset_ms))
    }
}

const fn part_height(state: BarState) -> usize {
    match state {
        BarState::Foreground | BarState::Background => BAR_HEIGHT,
        BarState::Lingering => BAR_HEIGHT / 2,
        BarState::Stopping => BAR_HEIGHT / 4,
    }
}

/// Returns how many characters of a label fit into this width.
const fn chars_in(width: usize) -> usize {
    width * 10 / CHAR_TENTHS
}

fn text_width(text: &str) -> usize {
    (display_width(text) * CHAR_TENTHS).div_ceil(10)
}
