//! Follows the output of tasks for the pages that show it.
//!
//! All pages of a task share one reader. It measures the output a few times per second, and makes
//! the lines of an update once, however many pages receive them. The writing task does not take
//! part: there is no watch on its file, which would make each of its writes slower, and no request
//! to its shim.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper::body::Bytes;
use siding_core::output::LineStart;
use siding_core::store::TaskDir;
use siding_model::id::TaskId;
use tokio::sync::watch;

use crate::output_window::{LineEnd, OutputReader, OutputWindow, WINDOW_BYTES, WindowStart};

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

/// Makes the event with the lines of a window that was read from the first offset. The id of the
/// event is the second offset, at which the next lines start.
pub(crate) type MakeEvent = fn(&OutputWindow, u64, u64) -> Bytes;

/// The followed output of one task.
#[derive(Debug)]
pub(crate) struct OutputFeed {
    dir: TaskDir,
    keep_head: u64,
    make_event: MakeEvent,
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
    /// Returns the feed of a task. `start` starts it for the first page, or returns `None` if there
    /// is no such task.
    pub(crate) fn feed_or_start(
        &self,
        id: TaskId,
        start: impl FnOnce() -> Option<Arc<OutputFeed>>,
    ) -> Option<Arc<OutputFeed>> {
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = feeds.get(&id).and_then(Weak::upgrade) {
            return Some(feed);
        }
        let feed = start()?;
        feeds.retain(|_, feed| feed.strong_count() > 0);
        feeds.insert(id, Arc::downgrade(&feed));
        Some(feed)
    }
}

impl OutputFeed {
    /// Returns a feed that has measured nothing yet. `make_event` makes the events with the lines.
    pub(crate) fn new(dir: TaskDir, keep_head: u64, make_event: MakeEvent) -> Self {
        let (sender, _receiver) = watch::channel(OutputUpdate { is_live: true, bytes: 0 });
        Self { dir, keep_head, make_event, sender, reader: tokio::sync::Mutex::default() }
    }

    /// Returns a receiver of the updates.
    pub(crate) fn subscribe(&self) -> watch::Receiver<OutputUpdate> {
        self.sender.subscribe()
    }

    /// Measures the output, and informs the pages if it has changed.
    pub(crate) async fn update(&self, is_live: bool) {
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
        let read = tokio::task::block_in_place(|| reader.read_lines(from, self.make_event));
        let lines = Arc::new(read.unwrap_or_default());
        if reader.parts.len() < MAX_KEPT_PARTS {
            reader.parts.insert(from, Arc::clone(&lines));
        }
        lines
    }
}

impl SharedReader {
    fn read_lines(&mut self, from: u64, make_event: MakeEvent) -> io::Result<FollowedLines> {
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
            event: make_event(&window, from, next),
            next,
            end,
            is_last: end >= window.bytes,
        })
    }
}
