//! Places in the stream at which text can begin or end.

use std::io;

use super::chunks::Chunks;

/// Bytes looked through at once.
const STEP: u64 = 256 << 10;
/// Bytes in which the next line is looked for.
const NEAR: usize = 64 << 10;
/// Longest escape sequence that is waited for. A longer one is taken for text.
const SEQUENCE_MAX: usize = 64;

/// Returns where text can end when more may come behind `to`.
pub(super) fn settled_end(chunks: &Chunks, to: u64) -> io::Result<u64> {
    let from = to.saturating_sub(SEQUENCE_MAX as u64);
    let mut bytes = [0; SEQUENCE_MAX];
    let count = usize::try_from(to - from).unwrap_or(SEQUENCE_MAX);
    let count = chunks.fill(&mut bytes[..count], from)?;
    Ok(from + settled(&bytes[..count]) as u64)
}

/// Returns where the next line begins at or after an offset; when none does soon, where the next
/// character does.
pub(super) fn line_start(chunks: &Chunks, from: u64) -> io::Result<u64> {
    let mut bytes = vec![0; NEAR];
    let count = chunks.fill(&mut bytes, from)?;
    let bytes = &bytes[..count];
    let newline = bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
    let character = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    Ok(from + newline.unwrap_or(character) as u64)
}

/// Returns where the last `count` lines between two offsets begin.
pub(super) fn last_lines(chunks: &Chunks, from: u64, to: u64, count: usize) -> io::Result<u64> {
    let mut left = count;
    let mut bytes = vec![0; usize::try_from(STEP).unwrap_or(0)];
    let mut end = to;
    while end > from {
        let start = end.saturating_sub(STEP).max(from);
        let want = usize::try_from(end - start).unwrap_or(0);
        let read = chunks.fill(&mut bytes[..want], start)?;
        for (at, _) in bytes[..read].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let line = start + at as u64 + 1;
            // The newline at the very end ends the last line and begins none.
            if line == to {
                continue;
            }
            left -= 1;
            if left == 0 {
                return Ok(line);
            }
        }
        end = start;
    }
    Ok(from)
}

/// Returns how many of these bytes stand for themselves, whatever comes next: an unfinished
/// character or escape sequence at the end is left for the next look.
pub(super) fn settled(bytes: &[u8]) -> usize {
    let len = bytes.len() - unfinished_character(bytes);
    let from = len.saturating_sub(SEQUENCE_MAX);
    match bytes[from..len].iter().rposition(|&byte| byte == 0x1b) {
        Some(escape) if is_unfinished(&bytes[from + escape..len]) => from + escape,
        Some(_) | None => len,
    }
}

fn unfinished_character(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let length = match byte {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => return 0,
        };
        return if length > back + 1 { back + 1 } else { 0 };
    }
    0
}

/// Whether a sequence that begins with ESC lacks its end.
fn is_unfinished(sequence: &[u8]) -> bool {
    match sequence {
        [_] => true,
        [_, b'[', rest @ ..] => rest.iter().all(|byte| (0x20..0x40).contains(byte)),
        [_, b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => {
            !rest.iter().any(|byte| matches!(byte, 0x07 | b'\n'))
        }
        [_, rest @ ..] => rest.iter().all(|byte| (0x20..0x30).contains(byte)),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_is_left_for_later() {
        for (bytes, kept) in [
            (&b"abc"[..], 3),
            (b"", 0),
            (b"a\xc3", 1),
            (b"a\xc3\xa4", 3),
            (b"a\xe2\x82", 1),
            (b"a\xf0\x9f\x9a", 1),
            (b"a\xf0\x9f\x9a\x82", 5),
            (b"a\xff", 2),
            (b"a\x80\x80\x80\x80", 5),
            (b"a\x1b", 1),
            (b"a\x1b[3", 1),
            (b"a\x1b[31m", 6),
            (b"a\x1b]0;title", 1),
            (b"a\x1b]0;title\x07", 11),
            (b"a\x1b(", 1),
            (b"a\x1b[31\xc3", 1),
        ] {
            assert_eq!(settled(bytes), kept, "{bytes:?}");
        }
        let endless = [b"\x1b]".as_slice(), &[b'x'; 100]].concat();
        assert_eq!(settled(&endless), endless.len());
    }
}
