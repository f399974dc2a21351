//! Where output that still grows can be cut without tearing something apart.

/// Longest escape sequence that is waited for. A longer one is taken for text.
const SEQUENCE_MAX: usize = 64;

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
