//! Offsets at which text can begin or end.

use std::io;

use super::chunks::Chunks;

/// Number of bytes searched in one read.
const SCAN_STEP_BYTES: u64 = 256 << 10;
/// Number of bytes searched for the start of the next line.
const LINE_SEARCH_BYTES: usize = 64 << 10;
/// Maximum length of an incomplete escape sequence, in bytes. A longer sequence is treated as text.
const MAX_ESCAPE_BYTES: usize = 64;

/// Returns the last offset, up to `to`, that does not split a character or an escape sequence.
pub(super) fn complete_text_end(chunks: &Chunks, to: u64) -> io::Result<u64> {
    let from = to.saturating_sub(MAX_ESCAPE_BYTES as u64);
    let mut bytes = [0; MAX_ESCAPE_BYTES];
    let count = usize::try_from(to - from).unwrap_or(MAX_ESCAPE_BYTES);
    let count = chunks.fill_from(&mut bytes[..count], from)?;
    Ok(from + complete_len(&bytes[..count]) as u64)
}

/// Returns the offset after the first newline at or after `from`. If no newline follows within 64
/// KiB, returns the offset of the first character that begins at or after `from`.
pub(super) fn next_line_start(chunks: &Chunks, from: u64) -> io::Result<u64> {
    let mut bytes = vec![0; LINE_SEARCH_BYTES];
    let count = chunks.fill_from(&mut bytes, from)?;
    let bytes = &bytes[..count];
    let newline = bytes.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
    let character = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    Ok(from + newline.unwrap_or(character) as u64)
}

/// Returns the offset at which the last `count` lines between two offsets start: `to` if `count` is
/// zero, and `from` if there are fewer lines.
pub(super) fn last_lines_start(
    chunks: &Chunks,
    from: u64,
    to: u64,
    count: usize,
) -> io::Result<u64> {
    if count == 0 {
        return Ok(to);
    }
    let mut remaining = count;
    let mut bytes = vec![0; usize::try_from(SCAN_STEP_BYTES).unwrap_or(0)];
    let mut end = to;
    while end > from {
        let start = end.saturating_sub(SCAN_STEP_BYTES).max(from);
        let want = usize::try_from(end - start).unwrap_or(0);
        let read = chunks.fill_from(&mut bytes[..want], start)?;
        for (at, _) in bytes[..read].iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
            let line = start + at as u64 + 1;
            // A newline at the very end terminates the last line and starts no other.
            if line == to {
                continue;
            }
            remaining -= 1;
            if remaining == 0 {
                return Ok(line);
            }
        }
        end = start;
    }
    Ok(from)
}

/// Returns the length of the prefix that later bytes cannot change, which excludes an incomplete
/// character or escape sequence at the end.
pub(super) fn complete_len(bytes: &[u8]) -> usize {
    let len = bytes.len() - incomplete_char_len(bytes);
    let from = len.saturating_sub(MAX_ESCAPE_BYTES);
    match bytes[from..len].iter().rposition(|&byte| byte == 0x1b) {
        Some(escape) if is_incomplete_escape(&bytes[from + escape..len]) => from + escape,
        Some(_) | None => len,
    }
}

fn incomplete_char_len(bytes: &[u8]) -> usize {
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

fn is_incomplete_escape(sequence: &[u8]) -> bool {
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
    fn incomplete_characters_and_escapes_are_left_for_later() {
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
            assert_eq!(complete_len(bytes), kept, "{bytes:?}");
        }
        let endless = [b"\x1b]".as_slice(), &[b'x'; 100]].concat();
        assert_eq!(complete_len(&endless), endless.len());
    }
}
