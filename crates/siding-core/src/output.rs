//! Reads a task's output: as pages, excerpts and summaries of rendered text, or as raw bytes.
//!
//! Offsets are stream offsets: they count the bytes that the task wrote. A stream offset is also an
//! offset in the output file, because released parts remain in the file as holes. Readers keep only
//! a bounded part of the output in memory, however much the task writes.
//!
//! ```text
//! file ─ Chunks ─ bytes, holes ─ LineSplitter ─ lines ─ FilterSink ─ DedupLines ─┬ HeadTail
//!                                                                                ├ Page
//!                                                                                └ WriterSink
//! ```

mod boundaries;
mod chunks;
mod dedup_lines;
mod error_lines;
mod handover;
mod head_tail;
mod line_filter;
mod line_redraw;
mod line_start;
mod lines;
mod matching;
mod number_pair;
mod output_times;
mod page;
mod raw;
mod read_cursor;
mod reader;
mod size;
mod stderr_spans;
mod summary;
mod tail_follow;
#[cfg(test)]
mod tests;
mod writer_sink;

pub use error_lines::looks_like_error;
pub use handover::handover_excerpt;
pub use head_tail::MIN_MARKED_TEXT_BYTES;
pub use line_filter::LineFilter;
pub use line_redraw::LineRedraw;
pub use line_start::{LineStart, ReadChunk, find_line_start};
pub use lines::ColorHandling;
pub use matching::{LineMatch, LineMatcher, MatchHandler, SIDING_LINE_PREFIX};
pub use output_times::{OutputTime, OutputTimesWriter, read_output_times};
pub use raw::{CopyResult, RawChunks, copy};
pub use read_cursor::{advance_read_cursor, load_read_cursor};
pub use reader::{
    Excerpt, MIN_PAGE_BYTES, OutputQuery, ReadSummary, StreamState, TextLimit, excerpt, last_line,
    last_lines_offset, read, read_with_colors,
};
pub use size::{OutputSize, find_gap, open, open_user_file, path};
pub use stderr_spans::{OutputSpan, OutputStream, SpanWriter, StderrSpans};
pub use summary::task_summary;
pub use tail_follow::TailFollower;
