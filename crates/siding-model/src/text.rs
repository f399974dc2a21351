//! Text for people and models, made from what tasks write.
//!
//! Owns the way from raw bytes to readable text ([`OutputRenderer`]), cutting text to a size
//! ([`head_and_tail`], [`cut_head`], [`cut_tail`]) and making foreign text safe to print in a line
//! of siding's own ([`one_line`]), among its own text ([`visible`]) or in rows of a screen
//! ([`wrap()`]). It must never hold more than a bounded part of its input: a task may write 100 MB
//! without a newline.

mod escape_sequences;
mod line_buffer;
mod printable;
mod render;
mod repeated_lines;
#[cfg(test)]
mod tests;
mod truncate;
mod utf8;
mod wrap;

pub use line_buffer::MAX_HELD_LINE_BYTES;
pub use printable::{make_visible, one_line};
pub use render::{OutputRenderer, RenderOptions, RepeatMode, render_output};
pub use truncate::{HeadAndTail, cut_head, cut_tail, head_and_tail, omitted_marker};
pub use wrap::{display_width, visible_char, wrap_text};
