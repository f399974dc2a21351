//! The entry format of the files that describe parts of the output: two little-endian numbers of 8
//! bytes each.

/// Size of one entry, in bytes.
pub(super) const PAIR_BYTES: usize = 16;

/// Returns the bytes of an entry.
pub(super) fn encode(first: u64, second: u64) -> [u8; PAIR_BYTES] {
    let mut bytes = [0; PAIR_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// Returns the numbers of an entry of [`PAIR_BYTES`] bytes.
pub(super) fn decode(bytes: &[u8]) -> (u64, u64) {
    let number = |at: usize| {
        bytes[at..at + 8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
    };
    (number(0), number(8))
}
