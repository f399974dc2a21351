//! The bytes that puppet's `fill` writes, as a pure function of the offset, so that a test can
//! compute the output that it expects.

/// The format of the bytes that `fill` writes, and the size of each `write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillPattern {
    /// Numbered text lines of this many bytes, line break included; one `write` per line.
    Lines(usize),
    /// Binary blocks of this many bytes; one `write` per block. The bytes cycle through all values,
    /// across the blocks.
    Blocks(usize),
}

impl FillPattern {
    /// Returns the number of bytes in one full `write`.
    pub fn write_len(self) -> usize {
        match self {
            Self::Lines(len) | Self::Blocks(len) => len,
        }
    }

    /// Returns `len` bytes from offset `from`.
    pub fn bytes(self, from: u64, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        self.append(from, len, &mut bytes);
        bytes
    }

    /// Appends `len` bytes from offset `from` to `into`.
    pub fn append(self, from: u64, len: usize, into: &mut Vec<u8>) {
        let end = from + len as u64;
        match self {
            Self::Blocks(_) => into.extend((from..end).map(binary_byte)),
            Self::Lines(line) => {
                let line = line as u64;
                let mut at = from;
                while at < end {
                    let (number, first) = (at / line, at % line);
                    let last = line.min(first + (end - at));
                    append_line(number, line, first..last, into);
                    at += last - first;
                }
            }
        }
    }
}

/// Returns the byte at an offset. The bytes cycle through all values, in a different order in each
/// of 256 successive blocks of 256 bytes. A lost or duplicated range therefore changes the bytes
/// after it, unless its length is a multiple of 64 KiB.
fn binary_byte(offset: u64) -> u8 {
    (offset ^ (offset >> 8).wrapping_mul(37)) as u8
}

fn append_line(number: u64, len: u64, columns: std::ops::Range<u64>, into: &mut Vec<u8>) {
    const DIGITS: u64 = 12;
    for column in columns {
        into.push(if column == len - 1 {
            b'\n'
        } else if column < DIGITS {
            b'0' + (number / 10_u64.pow((DIGITS - 1 - column) as u32) % 10) as u8
        } else {
            b'a' + ((number + column) % 26) as u8
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_have_the_requested_length() {
        let text = String::from_utf8(FillPattern::Lines(20).bytes(0, 60)).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[2].starts_with("000000000002") && lines[2].len() == 19, "{text}");
    }

    #[test]
    fn generating_in_two_parts_gives_the_same_bytes() {
        for shape in [FillPattern::Lines(17), FillPattern::Lines(1), FillPattern::Blocks(64)] {
            let whole = shape.bytes(0, 1000);
            for cut in [1, 16, 17, 500, 999] {
                let mut parts = shape.bytes(0, cut);
                shape.append(cut as u64, 1000 - cut, &mut parts);
                assert_eq!(parts, whole, "{shape:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn blocks_hold_every_byte_value() {
        let mut seen = FillPattern::Blocks(256).bytes(0, 256);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 256);
    }
}
