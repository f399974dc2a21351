//! Conversion of task output to text for people and models.
//!
//! This module owns the conversion of raw bytes to readable text ([`OutputRenderer`]) and to lines
//! with colors ([`StyledLineParser`]), truncation ([`head_and_tail`], [`cut_head`], [`cut_tail`]),
//! and the escaping of untrusted text for one line of siding's own output ([`one_line`]), for
//! several lines ([`make_visible`]), for the rows of a screen ([`wrap_text`]) and for XML
//! ([`escape_xml`]). siding's own sentences are wrapped between words ([`wrap_words`],
//! [`wrap_message`]). [`Utf8Decoder`] decodes output that arrives in pieces. [`OutputRenderer`],
//! [`StyledLineParser`] and [`HeadAndTail`] hold a bounded part of their input, because a task may
//! write 100 MB without a newline.

mod char_style;
mod colors;
mod escape_sequences;
mod line_buffer;
mod locale;
mod printable;
mod render;
mod repeated_lines;
mod styled_lines;
#[cfg(test)]
mod tests;
mod truncate;
mod utf8;
mod wrap;
mod xml;

pub use char_style::{CharStyle, TextColor};
pub use colors::{decode_colors, encoded_colors};
pub use line_buffer::MAX_HELD_LINE_BYTES;
pub use locale::CharacterSet;
pub use printable::{make_visible, one_line};
pub use render::{OutputRenderer, RenderOptions, RepeatMode, render_output};
pub use styled_lines::{StyledLine, StyledLineParser};
pub use truncate::{HeadAndTail, cut_head, cut_tail, head_and_tail, omitted_marker};
pub use utf8::Utf8Decoder;
pub use wrap::{display_width, printed_width, visible_char, wrap_message, wrap_text, wrap_words};
pub use xml::escape_xml;
