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
mod extent;
mod lines;
mod repeats;
mod reading;

pub use extent::{Extent, FIFO, FILE, INPUT_FIFO, gap_of};
pub use reading::{Excerpt, excerpt};
