//! FNV-1a with 64 bits (RFC 9923): the hash of names that are kept on disk.
//!
//! The hasher of the standard library may change with any release, so its result is no name for
//! anything that the next build of siding has to find. Not for anything that an attacker chooses:
//! collisions are easy to make, and each user of a name tells two texts with the same one apart.

/// The hash of the bytes so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Returns the hash with more bytes behind it.
    #[must_use]
    pub fn with_bytes(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Returns the 16 hexadecimal digits that name it on disk.
    #[must_use]
    pub fn to_hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 9923. A build that hashes otherwise does not find what others have named.
    #[test]
    fn hashes_match_the_rfc_9923_vectors() {
        for (text, hex) in
            [("", "cbf29ce484222325"), ("a", "af63dc4c8601ec8c"), ("foobar", "85944171f73967e8")]
        {
            assert_eq!(Fnv1a::default().with_bytes(text.as_bytes()).to_hex(), hex, "{text}");
        }
        let parts = Fnv1a::default().with_bytes(b"foo").with_bytes(b"bar");
        assert_eq!(parts, Fnv1a::default().with_bytes(b"foobar"));
    }
}
