//! One look at a task's output.

use std::io;

use super::chunks::{Chunks, Flow};
use super::ends::{Content, Ends};
use super::extent::{BLOCK, gap_of};
use super::lines::Lines;
use super::repeats::Repeats;
use crate::store::TaskDir;

/// Raw bytes that are read for the beginning of a text that is cut. Progress bars shrink a
/// hundredfold, so this is more than what is shown.
const HEAD_RAW: u64 = 256 << 10;
/// Raw bytes that are read for its end.
const TAIL_RAW: u64 = 1 << 20;

/// Readable text of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The text: its beginning and its end, where there is too much of it.
    pub text: String,
    /// Whether something was left out, or is gone.
    pub truncated: bool,
}

/// Returns the output of a task as readable text of at most `max_bytes`.
///
/// Reads at most a few times that much, however much there is. What is left out is named in a
/// line of its own, with the command that shows it.
///
/// # Errors
///
/// The operating system's. A task without output has an empty text.
pub fn excerpt(dir: &TaskDir, keep_head: u64, max_bytes: usize) -> io::Result<Excerpt> {
    let Some(mut chunks) = Chunks::open(dir)? else { return Ok(Excerpt::default()) };
    let to = chunks.len()?;
    let sink = Repeats::new(Ends::new(Content::Stream(dir.id()), max_bytes));
    let sink = ends(&mut chunks, (0, to), keep_head, max_bytes, Lines::new(sink))?;
    let (text, truncated) = sink.into_sink().finish();
    Ok(Excerpt { text, truncated })
}

/// Reads the beginning and the end of a part, or all of it if that is not much more.
fn ends(
    chunks: &mut Chunks,
    (from, to): (u64, u64),
    keep_head: u64,
    max_bytes: usize,
    mut lines: Lines<Repeats<Ends>>,
) -> io::Result<Repeats<Ends>> {
    let head = HEAD_RAW.max(max_bytes as u64);
    let tail = TAIL_RAW.max((max_bytes as u64).saturating_mul(4));
    let (head_to, tail_from) = (from.saturating_add(head), to.saturating_sub(tail));
    if tail_from <= head_to {
        chunks.each(from, to, |piece| lines.piece(piece))?;
        return lines.finish();
    }
    chunks.each(from, head_to, |piece| lines.piece(piece))?;
    let tail_from = line_start(chunks, tail_from)?;
    let gap = gap_of(chunks.file(), to, keep_head)
        .filter(|gap| gap.from < tail_from && gap.to > head_to);
    match gap {
        None => lines.skip(head_to, tail_from)?,
        Some(gap) => {
            if gap.from > head_to {
                lines.skip(head_to, gap.from)?;
            }
            // What the file system says is gone is read as such.
            let gone_to = gap.to.min(tail_from);
            chunks.each(gap.from.max(head_to), gone_to, |piece| lines.piece(piece))?;
            if gone_to < tail_from {
                lines.skip(gone_to, tail_from)?;
            }
            Flow::On
        }
    };
    chunks.each(tail_from, to, |piece| lines.piece(piece))?;
    lines.finish()
}

/// Returns where the next line begins at or after an offset; when none does soon, where the next
/// character does.
fn line_start(chunks: &Chunks, from: u64) -> io::Result<u64> {
    let mut bytes = vec![0; 16 * usize::try_from(BLOCK).unwrap_or(4096)];
    let count = chunks.fill(&mut bytes, from)?;
    let bytes = &bytes[..count];
    let newline = bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
    let character = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    Ok(from + newline.unwrap_or(character) as u64)
}
