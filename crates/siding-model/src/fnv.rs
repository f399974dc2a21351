//! 64-bit FNV-1a (RFC 9923): the hash in the names of files on disk, of binary content in texts,
//! and of text that is compared with an earlier one.
//!
//! The standard library may change its hasher in any release, so its result cannot name a file that
//! a later build has to find. FNV is not collision-resistant, and an attacker can construct
//! collisions. Therefore a duplicate, and the record of an installation, is recognized by the full
//! text that was hashed. The list of exported tasks does not contain this text, because the address
//! of a collector may contain a secret.

/// The state of a hash, which further bytes extend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Returns the state extended by these bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: &[u8]) -> Self {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        Self(bytes.iter().fold(self.0, step))
    }

    /// Returns the hash as the 16 hexadecimal digits used in file names.
    #[must_use]
    pub fn to_hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A build whose hash differed from these test vectors would not find the files of other
    /// builds.
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
