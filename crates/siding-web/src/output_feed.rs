//! Follows the output of tasks for the pages that show it.
//!
//! All pages of a task share one reader. It measures the output a few times per second, and makes
//! the lines of an update once, however many pages receive them. The writing task does not take
//! part: there is no watch on its file, which would make each of its writes slower, and no request
//! to its shim.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hyper::body::Bytes;
use siding_core::output::LineStart;
use siding_core::store::TaskDir;
use siding_live::LiveTask;
use siding_model::id::TaskId;
use tokio::sync::watch;

use crate::context::WebContext;
use crate::event_log::format_event;
use crate::output_window::{LineEnd, OutputReader, OutputWindow, WINDOW_BYTES, WindowStart};
use crate::page;

/// Interval at which the size of a followed output is read.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// Size of the part of a followed output that is sent in one message, in bytes. Rendered lines take
/// several times as much.
const FOLLOW_BYTES: u64 = 16 << 10;
/// Amount of unsent output beyond which a page skips to the end, in bytes.
const MAX_BEHIND_BYTES: u64 = 4 * WINDOW_BYTES;
/// Maximum number of parts of an update that are kept for other pages. The pages that read fast
/// are at the same offset.
const MAX_KEPT_PARTS: usize = 16;

/// The followed outputs. An output is followed as long as a page shows it.
#[derive(Debug, Default)]
pub(crate) struct OutputFeeds(Mutex<HashMap<TaskId, Weak<OutputFeed>>>);

/// The followed output of one task.
#[derive(Debug)]
pub(crate) struct OutputFeed {
    dir: TaskDir,
    keep_head: u64,
    sender: watch::Sender<OutputUpdate>,
    reader: tokio::sync::Mutex<SharedReader>,
}

/// The state of an output when it was last measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputUpdate {
    /// Whether the task had not ended before the output was measured.
    pub(crate) is_live: bool,
    bytes: u64,
}

/// The lines from an offset, as an event for the pages.
#[derive(Debug, Default)]
pub(crate) struct FollowedLines {
    pub(crate) event: Bytes,
    /// Offset at which the next lines start: an incomplete line is sent again when it has grown.
    pub(crate) next: u64,
    /// Offset after the last line.
    pub(crate) end: u64,
    /// Whether the measured output ends here.
    pub(crate) is_last: bool,
}

/// The reader that the pages of a task share.
#[derive(Debug, Default)]
struct SharedReader {
    /// The output as of the last update; `None` if there is none, or if it cannot be read.
    output: Option<OutputReader>,
    /// The lines that a page has received since the last update, by the offset of their start.
    parts: HashMap<u64, Arc<FollowedLines>>,
    /// The line that had no newline when it was last read. A progress bar is read from a recent
    /// state instead of its start.
    open_line: Option<LineStart>,
}

impl OutputFeeds {
    /// Returns the feed of a task, which is started for the first page; `None` if there is no such
    /// task.
    pub(crate) fn feed(&self, context: &Arc<WebContext>, id: TaskId) -> Option<Arc<OutputFeed>> {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&id).and_then(Weak::upgrade) {
            return Some(feed);
        }
        let (dir, keep_head) = context.open_task(id)?;
        let (sender, _receiver) = watch::channel(OutputUpdate { is_live: true, bytes: 0 });
        let reader = tokio::sync::Mutex::default();
        let feed = Arc::new(OutputFeed { dir, keep_head, sender, reader });
        feeds.retain(|_, feed| feed.strong_count() > 0);
        feeds.insert(id, Arc::downgrade(&feed));
        tokio::spawn(update_feed(Arc::clone(context), id, Arc::downgrade(&feed)));
        Some(feed)
    }
}

/// Measures an output at each interval until no page follows it.
async fn update_feed(context: Arc<WebContext>, id: TaskId, feed: Weak<OutputFeed>) {
    while let Some(feed) = feed.upgrade() {
        // The state is read before the output, so that an ended task has no more output.
        let is_live = context.feed.read(|view| view.task(id).is_some_and(LiveTask::is_live));
        feed.update(is_live).await;
        drop(feed);
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

impl OutputFeed {
    /// Returns a receiver of the updates.
    pub(crate) fn subscribe(&self) -> watch::Receiver<OutputUpdate> {
        self.sender.subscribe()
    }

    /// Measures the output, and informs the pages if it has changed.
    async fn update(&self, is_live: bool) {
        let mut reader = self.reader.lock().await;
        let opened = tokio::task::block_in_place(|| OutputReader::open(&self.dir, self.keep_head));
        let output = opened.unwrap_or_default();
        let bytes = output.as_ref().map_or(0, OutputReader::bytes);
        reader.output = output;
        let update = OutputUpdate { is_live, bytes };
        if *self.sender.borrow() != update {
            reader.parts.clear();
            self.sender.send_replace(update);
        }
    }

    /// Returns the lines from an offset, or the last ones if too many follow. Lines that another
    /// page has received already are not read again.
    pub(crate) async fn lines_from(&self, from: u64) -> Arc<FollowedLines> {
        let mut reader = self.reader.lock().await;
        if let Some(lines) = reader.parts.get(&from) {
            return Arc::clone(lines);
        }
        // An output that cannot be read has no lines now.
        let read = tokio::task::block_in_place(|| reader.read_lines(from));
        let lines = Arc::new(read.unwrap_or_default());
        if reader.parts.len() < MAX_KEPT_PARTS {
            reader.parts.insert(from, Arc::clone(&lines));
        }
        lines
    }
}

impl SharedReader {
    fn read_lines(&mut self, from: u64) -> io::Result<FollowedLines> {
        let Some(output) = &mut self.output else { return Ok(FollowedLines::default()) };
        let resumed = self.open_line.filter(|line| line.line == from);
        let start = resumed.map_or(WindowStart::Exact(from), WindowStart::Resumed);
        let mut window = output.read_window(start, FOLLOW_BYTES)?;
        if window.bytes.saturating_sub(window.next) > MAX_BEHIND_BYTES {
            window = output.read_window(WindowStart::End, FOLLOW_BYTES)?;
        }
        let open = window.lines.last().filter(|line| line.end == LineEnd::Open);
        let next = open.map_or(window.next, |line| line.from);
        if let Some(line) = open {
            self.open_line = Some(line.resume_point());
        }
        let end = window.end();
        Ok(FollowedLines {
            event: lines_event(&window, from, next),
            next,
            end,
            is_last: end >= window.bytes,
        })
    }
}

/// Returns the event with the lines of a window, whose id is the offset of the next ones.
fn lines_event(window: &OutputWindow, from: u64, next: u64) -> Bytes {
    let skipped = window.from.saturating_sub(from);
    let html = page::output_lines(window).into_string();
    let data = serde_json::json!({
        "from": window.from, "skipped": skipped, "bytes": window.bytes, "html": html,
    });
    format_event(&next.to_string(), "lines", &data.to_string()).into()
}
