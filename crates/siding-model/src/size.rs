//! Sizes in bytes: parsing and formatting.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The units and their sizes: first the powers of 1024, then the powers of 1000, both in descending
/// order. A bare `K`, `M` or `G` is rejected, because some programs interpret it as a power of 1000
/// and others as a power of 1024.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
/// Number of [`UNITS`] that are powers of 1024. Sizes are formatted only with these units.
const BINARY_UNITS: usize = 4;

/// A number of bytes.
///
/// The number is formatted as a whole number of the largest possible unit (`8MiB`, `1500B`).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns `count` times 1024 bytes.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 10))
    }

    /// Returns the number as a `usize`, or `usize::MAX` if it does not fit.
    #[must_use]
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// Returns `count` times 1024 KiB.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 20))
    }

    /// Returns `count` times 1024 MiB.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Self(count.saturating_mul(1 << 30))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS[..BINARY_UNITS]
            .iter()
            .find(|(_, size)| self.0 > 0 && self.0.is_multiple_of(*size));
        match unit {
            Some((name, size)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A number of bytes per second, formatted as a size with `/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteRate(pub Bytes);

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

/// The error for a text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The text is neither a number nor a number with a known unit.
    #[error(
        "`{text}` is not a size; write bytes, or a whole number with B, KiB, MiB, GiB or TiB, as in `8MiB`"
    )]
    Unreadable {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
    /// The number of bytes does not fit into 64 bits.
    #[error("`{text}` is too large; at most `16777215TiB` is allowed")]
    TooLarge {
        /// The rejected text as it was passed, not escaped.
        text: String,
    },
}

impl FromStr for Bytes {
    type Err = SizeError;

    /// Parses a number of bytes, or a whole number and a unit, with or without a space between
    /// them.
    ///
    /// `KiB`, `MiB`, `GiB`, `TiB` are powers of 1024, `kB`, `MB`, `GB`, `TB` powers of 1000. Letter
    /// case is ignored.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let unreadable = || SizeError::Unreadable { text: text.to_owned() };
        let too_large = || SizeError::TooLarge { text: text.to_owned() };
        let trimmed = text.trim();
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = trimmed.split_at(digits);
        if number.is_empty() {
            return Err(unreadable());
        }
        let unit = unit.trim_start();
        let factor = UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, size)| *size)
            .or(unit.is_empty().then_some(1))
            .ok_or_else(unreadable)?;
        // The text consists of digits, so only a number that is too large fails to parse.
        let number: u64 = number.parse().map_err(|_| too_large())?;
        number.checked_mul(factor).map(Self).ok_or_else(too_large)
    }
}

/// Formats a size for a table, in at most seven columns: `812B`, `1.4KiB`, `56MiB`. The number is
/// rounded down.
#[must_use]
pub fn format_size(bytes: u64) -> String {
    match ScaledSize::new(bytes) {
        None => format!("{bytes}B"),
        Some(ScaledSize { whole, tenth, unit }) if whole < 10 && tenth > 0 => {
            format!("{whole}.{tenth}{unit}")
        }
        Some(ScaledSize { whole, unit, .. }) => format!("{whole}{unit}"),
    }
}

/// Formats a size for a sentence, in at most ten bytes: `1 byte`, `812 bytes`, `44.5 MiB`. The
/// number is rounded down.
#[must_use]
pub fn size_in_words(bytes: u64) -> String {
    match ScaledSize::new(bytes) {
        None if bytes == 1 => "1 byte".to_owned(),
        None => format!("{bytes} bytes"),
        Some(ScaledSize { whole, tenth, unit }) if whole < 100 && tenth > 0 => {
            format!("{whole}.{tenth} {unit}")
        }
        Some(ScaledSize { whole, unit, .. }) => format!("{whole} {unit}"),
    }
}

/// A size in the largest binary unit that it reaches, rounded down to a tenth of the unit.
struct ScaledSize {
    whole: u64,
    tenth: u64,
    unit: &'static str,
}

impl ScaledSize {
    /// Returns `None` for less than 1 KiB.
    fn new(bytes: u64) -> Option<Self> {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if bytes < 1024 {
            return None;
        }
        let mut unit = 0;
        let mut scaled = bytes;
        while scaled >= 1024 * 1024 {
            scaled /= 1024;
            unit += 1;
        }
        Some(Self { whole: scaled / 1024, tenth: scaled % 1024 * 10 / 1024, unit: UNITS[unit] })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_parsed_with_and_without_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("8MiB", 8 << 20),
            ("8 MiB", 8 << 20),
            (" 8mib ", 8 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
            ("32KiB", 32 << 10),
            ("5kB", 5000),
            ("5KB", 5000),
            ("3MB", 3_000_000),
            ("7B", 7),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_allowed() {
        for text in ["", "MiB", "8M", "8 G", "1.5GiB", "-1", "+1", "8MiBs", "0x10", "eight"] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert_eq!(error, SizeError::Unreadable { text: text.to_owned() });
            assert!(error.to_string().contains("8MiB"), "{error}");
        }
        for text in ["18446744073709551616", "16777216TiB", "99999999999999999999GiB"] {
            let error = text.parse::<Bytes>().expect_err(text);
            assert_eq!(error, SizeError::TooLarge { text: text.to_owned() });
        }
    }

    #[test]
    fn sizes_are_displayed_without_loss() {
        let shown =
            [0, 1, 1000, 1024, 1500, 8 << 20, 2 << 30, 3 << 40].map(|n| Bytes(n).to_string());
        assert_eq!(shown, ["0B", "1B", "1000B", "1KiB", "1500B", "8MiB", "2GiB", "3TiB"]);
        assert_eq!((Bytes::kib(32), Bytes::mib(8)), (Bytes(32 << 10), Bytes(8 << 20)));
        assert_eq!(Bytes::gib(u64::MAX), Bytes(u64::MAX));
    }

    proptest! {
        #[test]
        fn displayed_sizes_round_trip(number: u64, shift in 0_u32..41) {
            let bytes = Bytes(number >> shift << shift);
            prop_assert_eq!(bytes.to_string().parse(), Ok(bytes));
        }

        #[test]
        fn parsing_arbitrary_text_never_panics(text in "\\PC*") {
            let _best_effort = text.parse::<Bytes>();
        }
    }

    #[test]
    fn format_size_is_at_most_seven_columns() {
        let sizes = [0, 1023, 1024, 1500, 10_240, 1 << 20, 67_108_863, 3 << 30, u64::MAX];
        let shown = sizes.map(format_size);
        let expected = ["0B", "1023B", "1KiB", "1.4KiB", "10KiB", "1MiB", "63MiB", "3GiB", "15EiB"];
        assert_eq!(shown, expected);
        assert!(format_size(1_048_575).len() <= 7);
    }

    #[test]
    fn size_in_words_has_a_space_and_at_most_one_decimal() {
        for (bytes, words) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1500, "1.4 KiB"),
            (46_662_000, "44.5 MiB"),
            (67_108_863, "63.9 MiB"),
            (130 << 20, "130 MiB"),
            (1_048_575, "1023 KiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size_in_words(bytes), words);
            assert!(words.len() <= 10);
        }
    }
}
