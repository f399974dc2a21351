//! Reading a task's output.
//!
//! Offsets are stream offsets: they count the bytes that the task wrote and are offsets in the
//! file as well, since what is released in the middle stays a hole there. Nothing in here holds
//! more than a bounded part of the output, whatever the task wrote.
//!
//! ```text
//! file ─ Chunks ─ raw bytes, holes ─ Lines ─ folded lines ─ Select ─ Repeats ─ Ends
//!                                                                            ├ Page
//!                                                                            └ a caller's function
//! ```

mod chunks;
mod ends;
mod errors;
mod extent;
mod following;
mod handover;
mod lines;
mod matching;
mod page;
mod places;
mod pour;
mod raw;
mod reading;
mod repeats;
mod seen;
mod select;
mod summary;
#[cfg(test)]
mod tests;

pub use ends::MARKED_MIN;
pub use extent::{Extent, FIFO, FILE, INPUT_FIFO, TAKING, gap_of, open, open_own, path};
pub use following::Following;
pub use handover::so_far;
pub use matching::{Hit, Hits, Matching};
pub use raw::{Copied, Pieces, copy};
pub use reading::{Excerpt, PAGE_MIN, Query, Reading, Size, Stream, excerpt, last_lines, read};
pub use seen::{mark_seen, seen};
pub use select::Choose;
pub use summary::gist;
