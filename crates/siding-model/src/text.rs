//! Text for people and models, made from what tasks write.
//!
//! Owns the way from raw bytes to readable text ([`Folder`]), cutting text to a size
//! ([`head_and_tail`], [`cut_head`], [`cut_tail`]) and making foreign text safe to print in a line
//! of siding's own ([`one_line`]), among its own text ([`visible`]) or in rows of a screen
//! ([`wrap()`]). It must never hold more than a bounded part of its input: a task may write 100 MB
//! without a newline.

mod columns;
mod cut;
mod escape;
mod fold;
mod line;
mod repeats;
#[cfg(test)]
mod tests;
mod utf8;
mod wrap;

pub use columns::{one_line, visible};
pub use cut::{HeadAndTail, cut_head, cut_tail, head_and_tail, left_out};
pub use fold::{FoldOptions, Folder, Repeats, fold};
pub use line::LINE_HELD_MAX;
pub use wrap::{shown, width, wrap};
