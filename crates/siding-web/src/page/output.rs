//! The output of a task as lines of a page, and as a download.

use http::{HeaderValue, Response, header};
use hyper::body::Bytes;
use maud::{Markup, html};
use siding_core::output::RawChunks;
use siding_core::store::TaskDir;
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use siding_model::size::format_size;
use siding_model::text::{CharStyle, StyledLine, StyledLineParser};
use tokio::sync::mpsc::{Sender, channel};

use crate::context::WebContext;
use crate::openapi::MIN_REQUESTED_BYTES;
use crate::output_style::style_classes;
use crate::output_window::{
    self, LineEnd, MAX_LINE_BYTES, OutputLine, OutputWindow, WINDOW_BYTES, WindowStart,
};
use crate::query::Query;

/// Maximum size of a window that a request may ask for, in bytes.
const MAX_WINDOW_BYTES: u64 = 4 * WINDOW_BYTES;
/// Size of a piece of a download, in bytes.
const DOWNLOAD_PIECE_BYTES: u64 = 256 << 10;

/// Maximum size of the lines of a window as markup, in bytes. The other parts of a page usually have
/// less than 40 kB, so that the page stays below 200 kB.
const MAX_MARKUP_BYTES: usize = 160_000;

/// Returns the lines of a window as elements of a list on the page of the task. The id of each is
/// its offset, which stays the same as long as the task exists.
pub(crate) fn output_lines(window: &OutputWindow) -> Markup {
    html! {
        @for row in &line_rows(&window.lines) { (row) }
        (gap_row(window))
    }
}

/// Removes the lines from a window that would make its markup too large, and returns the markup of
/// the others. Markup can be many times as large as the output: a color for each character, or
/// characters that are escaped.
pub(super) fn fit_lines(window: &mut OutputWindow, start: WindowStart) -> Markup {
    let rows = line_rows(&window.lines);
    let mut bytes: usize = rows.iter().map(|row| row.0.len()).sum();
    let mut kept = 0..rows.len();
    // The markup of a single line is smaller than the limit.
    while bytes > MAX_MARKUP_BYTES && kept.len() > 1 {
        let removed = if start.keeps_last_lines() { kept.next() } else { kept.next_back() };
        bytes -= removed.map_or(0, |index| rows[index].0.len());
    }
    window.retain_lines(kept.clone());
    html! {
        @for row in &rows[kept] { (row) }
        (gap_row(window))
    }
}

fn line_rows(lines: &[OutputLine]) -> Vec<Markup> {
    let mut parser = StyledLineParser::default();
    lines
        .iter()
        .map(|line| {
            let row = line_row(line, &parser.parse_line(&line.bytes));
            if row.0.len() <= MAX_MARKUP_BYTES {
                return row;
            }
            // A line that cursor movements overwrite many times is a long text. The markup of its
            // last states is smaller than the limit.
            let last_states = &line.bytes[line.bytes.len().saturating_sub(MAX_LINE_BYTES)..];
            line_row(line, &parser.parse_line(last_states))
        })
        .collect()
}

fn line_row(line: &OutputLine, styled_line: &StyledLine) -> Markup {
    html! {
        li id={ "b" (line.from) }
            data-open[line.end == LineEnd::Open]
            data-continued[line.end == LineEnd::Continued] {
            a href={ "?at=" (line.from) "#b" (line.from) } { (line.from) }
            code { @for (text, style) in styled_line.spans() { (styled(text, style)) } }
        }
    }
}

/// Returns an element for the released part of the output after the window, if there is one.
fn gap_row(window: &OutputWindow) -> Markup {
    html! {
        @if let Some(gap) = window.gap.filter(|gap| gap.to == window.next && window.end() < gap.to) {
            li.gap id={ "b" (gap.from) } {
                (format_size(gap.to - gap.from)) " from byte " (gap.from) " are no longer kept"
            }
        }
    }
}

fn styled(text: &str, style: CharStyle) -> Markup {
    html! {
        @if style == CharStyle::default() { (text) }
        @else { span class=(style_classes(style)) { (text) } }
    }
}

/// Returns the lines of the window that a script of the page requests: `from` is the start of its
/// first line, or `before` the end of its last one. `None` if the output cannot be read.
///
/// # Errors
///
/// A message for the user about an invalid value.
pub(super) fn fragment(
    context: &WebContext,
    id: TaskId,
    query: &Query,
) -> Result<Option<Markup>, String> {
    let (start, max) = requested_window(query)?;
    let Some((dir, keep_head)) = context.open_task(id) else { return Ok(None) };
    let read = output_window::read_window(&dir, keep_head, start, max);
    let Ok(mut window) = read else { return Ok(None) };
    let lines = fit_lines(&mut window, start);
    Ok(Some(html! {
        ol data-from=(window.from) data-next=(window.next) data-bytes=(window.bytes) { (lines) }
    }))
}

/// Returns the start and the maximum size of the requested window. A larger size than the largest
/// gets a window of that size.
fn requested_window(query: &Query) -> Result<(WindowStart, u64), String> {
    query.check_names(&["from", "before", "max"])?;
    let max = query.size("max", MIN_REQUESTED_BYTES)?.unwrap_or(WINDOW_BYTES);
    let start = match query.bytes("before")? {
        Some(before) => WindowStart::Before(before),
        None => WindowStart::Exact(query.bytes("from")?.unwrap_or(0)),
    };
    Ok((start, max.min(MAX_WINDOW_BYTES)))
}

/// Returns the exact bytes that are kept, as a file that the browser stores and never shows.
pub(super) fn download(context: &WebContext, id: TaskId) -> Option<Response<ResponseBody>> {
    let (dir, _) = context.open_task(id)?;
    let (sender, receiver) = channel(2);
    tokio::task::spawn_blocking(move || {
        // A failed read ends the download early, and the browser shows that.
        let _best_effort = send_pieces(&dir, &sender);
    });
    let mut response = siding_http::stream_response(receiver, "application/octet-stream");
    let name = format!("attachment; filename=\"{id}.log\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Some(response)
}

fn send_pieces(dir: &TaskDir, sender: &Sender<Bytes>) -> std::io::Result<()> {
    let Some(mut chunks) = RawChunks::open(dir)? else { return Ok(()) };
    let end = chunks.written_bytes()?;
    let (mut at, mut piece) = (0, Vec::new());
    while at < end {
        let to = end.min(at + DOWNLOAD_PIECE_BYTES);
        if let Some(gap) = chunks.read_chunk(at, to, &mut piece)? {
            at = gap.to.max(at + 1);
            continue;
        }
        if piece.is_empty() || sender.blocking_send(Bytes::copy_from_slice(&piece)).is_err() {
            break;
        }
        at += piece.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a window of lines that all have this text.
    fn window_of(text: &[u8], count: usize) -> OutputWindow {
        let line_bytes = text.len() as u64 + 1;
        let lines: Vec<OutputLine> = (0..)
            .map(|index| index * line_bytes)
            .map(|from| OutputLine {
                from,
                bytes_from: from,
                bytes: text.to_vec(),
                end: LineEnd::Newline,
            })
            .take(count)
            .collect();
        let bytes = line_bytes * count as u64;
        OutputWindow { from: 0, next: bytes, bytes, gap: None, lines }
    }

    #[test]
    fn colors_and_escapes_cannot_make_a_page_large() {
        let colors: String = (0..12).map(|color| format!("\x1b[1;4;38;5;{color}m+")).collect();
        let columns = "\x1b[1m\x1b[200Cx".repeat(340);
        for text in [colors.as_str(), &"\"".repeat(100), &columns, "a line without any color"] {
            let count = WINDOW_BYTES / (text.len() as u64 + 1);
            let whole = window_of(text.as_bytes(), usize::try_from(count).expect("a count"));
            for start in [WindowStart::End, WindowStart::Before(whole.bytes)] {
                let mut window = whole.clone();
                let shown = fit_lines(&mut window, start).into_string();
                assert!(shown.len() <= MAX_MARKUP_BYTES, "{} bytes of {text:.40}", shown.len());
                assert_eq!(shown.matches("<li").count(), window.lines.len());
                assert_eq!(window.lines.last(), whole.lines.last());
                assert_eq!((window.from, window.next), (window.lines[0].from, whole.next));
            }
            for start in [WindowStart::Line(0), WindowStart::Exact(0)] {
                let mut window = whole.clone();
                let shown = fit_lines(&mut window, start).into_string();
                assert!(shown.len() <= MAX_MARKUP_BYTES, "{} bytes of {text:.40}", shown.len());
                assert_eq!((window.from, window.lines.first()), (0, whole.lines.first()));
                assert_eq!(window.next, window.end(), "the next window starts after the last line");
            }
        }
        let overwritten = format!("\r{columns}").repeat(16);
        let row = output_lines(&window_of(overwritten.as_bytes(), 1)).into_string();
        assert!(row.len() <= MAX_MARKUP_BYTES, "{} bytes", row.len());
        let mut small = window_of(b"ok", 20);
        assert_eq!(fit_lines(&mut small, WindowStart::End).0, output_lines(&small).0);
        assert_eq!(small, window_of(b"ok", 20));
    }
}
