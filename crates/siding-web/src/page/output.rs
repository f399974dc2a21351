//! The output of a task as lines of a page, and as a download.

use http::{HeaderValue, Response, header};
use hyper::body::Bytes;
use maud::{Markup, html};
use siding_core::output::RawChunks;
use siding_core::store::TaskDir;
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use siding_model::size::format_size;
use siding_model::text::{CharStyle, StyledLineParser};
use tokio::sync::mpsc::{Sender, channel};

use crate::context::WebContext;
use crate::output_style::style_classes;
use crate::output_window::{self, LineEnd, OutputWindow, WINDOW_BYTES, WindowStart};
use crate::query::Query;

/// Maximum size of a window that a request may ask for, in bytes.
const MAX_WINDOW_BYTES: u64 = 4 * WINDOW_BYTES;
/// Size of a piece of a download, in bytes.
const DOWNLOAD_PIECE_BYTES: u64 = 256 << 10;

/// Returns the lines of a window as elements of a list on the page of the task. The id of each is
/// its offset, which stays the same as long as the task exists.
pub(crate) fn output_lines(window: &OutputWindow) -> Markup {
    let mut parser = StyledLineParser::default();
    html! {
        @for line in &window.lines {
            @let styled_line = parser.parse_line(&line.bytes);
            li id={ "b" (line.from) }
                data-open[line.end == LineEnd::Open]
                data-continued[line.end == LineEnd::Continued] {
                a href={ "?at=" (line.from) "#b" (line.from) } { (line.from) }
                code { @for (text, style) in styled_line.spans() { (styled(text, style)) } }
            }
        }
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
/// first line, or `before` the end of its last one.
pub(super) fn fragment(context: &WebContext, id: TaskId, query: &Query) -> Option<Markup> {
    let (dir, keep_head) = context.open_task(id)?;
    let max = query.number("max").unwrap_or(WINDOW_BYTES).clamp(1, MAX_WINDOW_BYTES);
    let window = match query.number("before") {
        Some(before) => {
            let start = WindowStart::Before(before);
            output_window::read_window(&dir, keep_head, start, max).ok()?
        }
        None => {
            let start = WindowStart::Exact(query.number("from").unwrap_or(0));
            output_window::read_window(&dir, keep_head, start, max).ok()?
        }
    };
    Some(html! {
        ol data-from=(window.from) data-next=(window.next) data-bytes=(window.bytes) {
            (output_lines(&window))
        }
    })
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
