//! Signals of Linux, by name and number.
//!
//! The numbers are those of signal(7) for x86, ARM and most other architectures. This module only
//! names signals; siding-core sends them.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Names of the signals 1 to 31 without `SIG`, in the order of their numbers (signal(7)).
const SIGNAL_NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
/// Alternative names that are accepted but never written.
const SIGNAL_ALIASES: [(&str, u8); 4] = [("IOT", 6), ("CLD", 17), ("POLL", 29), ("UNUSED", 31)];
/// First real-time signal for programs. The C library reserves 32 and 33.
const RTMIN: u8 = 34;
/// Last real-time signal.
const RTMAX: u8 = 64;

/// A Linux signal with a number from 1 to 64.
///
/// A signal is formatted as `SIGTERM` or `SIGRTMIN+3`. A signal is parsed from a number, or from a
/// name with or without `SIG`, in upper or lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(NonZeroU8);

impl Signal {
    /// The terminal was closed. Many daemons reload their configuration instead of ending.
    pub const HUP: Self = Self::from_known_number(1);
    /// Interrupt from the keyboard (Ctrl-C).
    pub const INT: Self = Self::from_known_number(2);
    /// Quit from the keyboard.
    pub const QUIT: Self = Self::from_known_number(3);
    /// Immediate termination; it can be neither caught nor ignored.
    pub const KILL: Self = Self::from_known_number(9);
    /// A write to a pipe without a reader.
    pub const PIPE: Self = Self::from_known_number(13);
    /// A request to terminate.
    pub const TERM: Self = Self::from_known_number(15);
    /// A child has ended or stopped.
    pub const CHLD: Self = Self::from_known_number(17);
    /// Continuation after a stop.
    pub const CONT: Self = Self::from_known_number(18);
    /// Stop; it can be neither caught nor ignored.
    pub const STOP: Self = Self::from_known_number(19);
    /// Stop from the keyboard (Ctrl-Z).
    pub const TSTP: Self = Self::from_known_number(20);
    /// A read from the terminal by a background process.
    pub const TTIN: Self = Self::from_known_number(21);
    /// A write to the terminal, or a change of its mode, by a background process.
    pub const TTOU: Self = Self::from_known_number(22);
    /// The size of the terminal changed.
    pub const WINCH: Self = Self::from_known_number(28);
    /// The limit on processor time was exceeded (`RLIMIT_CPU`).
    pub const XCPU: Self = Self::from_known_number(24);
    /// A write exceeded the limit on the file size (`RLIMIT_FSIZE`).
    pub const XFSZ: Self = Self::from_known_number(25);

    const fn from_known_number(number: u8) -> Self {
        match NonZeroU8::new(number) {
            Some(number) => Self(number),
            None => panic!("no signal has the number 0"),
        }
    }

    /// Returns the signal with this number, or `None` outside 1 to 64.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        let number = u8::try_from(number).ok().filter(|number| *number <= RTMAX)?;
        NonZeroU8::new(number).map(Self)
    }

    /// Returns the signal's number.
    #[must_use]
    pub fn number(self) -> i32 {
        i32::from(self.0.get())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.get();
        match SIGNAL_NAMES.get(usize::from(number) - 1) {
            Some(name) => write!(f, "SIG{name}"),
            None if number == RTMIN => write!(f, "SIGRTMIN"),
            None if number > RTMIN => write!(f, "SIGRTMIN+{}", number - RTMIN),
            // The signals 32 and 33 have no name, but a process can be killed by them.
            None => write!(f, "SIG{number}"),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a signal; write a name such as `TERM`, `SIGINT` or `RTMIN+1`, or a number from 1 to 64"
)]
pub struct BadSignal {
    /// The rejected text as it was passed, not escaped.
    pub text: String,
}

impl FromStr for Signal {
    type Err = BadSignal;

    fn from_str(text: &str) -> Result<Self, BadSignal> {
        let upper = text.trim().to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        parse_signal_name(name)
            .and_then(Self::from_number)
            .ok_or_else(|| BadSignal { text: text.to_owned() })
    }
}

fn parse_signal_name(name: &str) -> Option<i32> {
    if let Some(place) = SIGNAL_NAMES.iter().position(|known| *known == name) {
        return i32::try_from(place + 1).ok();
    }
    if let Some((_, number)) = SIGNAL_ALIASES.iter().find(|(known, _)| *known == name) {
        return Some(i32::from(*number));
    }
    if let Some(above) = name.strip_prefix("RTMIN") {
        let above = if above.is_empty() { 0 } else { parse_digits(above.strip_prefix('+')?)? };
        return check_real_time(i32::from(RTMIN).checked_add(above)?);
    }
    if let Some(below) = name.strip_prefix("RTMAX") {
        let below = if below.is_empty() { 0 } else { parse_digits(below.strip_prefix('-')?)? };
        return check_real_time(i32::from(RTMAX).checked_sub(below)?);
    }
    parse_digits(name)
}

fn check_real_time(number: i32) -> Option<i32> {
    (i32::from(RTMIN)..=i32::from(RTMAX)).contains(&number).then_some(number)
}

/// Parses decimal digits. A sign, which `str::parse` would accept, is rejected.
fn parse_digits(text: &str) -> Option<i32> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

impl Serialize for Signal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Signal {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Signal".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^SIG" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_round_trips_through_text_and_json() {
        for number in 1..=64 {
            let signal = Signal::from_number(number).expect("1 to 64 are signals");
            assert_eq!(signal.number(), number);
            assert_eq!(signal.to_string().parse(), Ok(signal));
            assert!(signal.to_string().starts_with("SIG"));
            let json = serde_json::to_string(&signal).expect("a signal is a JSON string");
            assert_eq!(serde_json::from_str::<Signal>(&json).expect("own JSON parses"), signal);
        }
    }

    #[test]
    fn names_numbers_and_aliases_are_parsed() {
        for text in ["TERM", "SIGTERM", "sigterm", "Term", "15", " TERM ", "SIG15"] {
            assert_eq!(text.parse(), Ok(Signal::TERM), "{text}");
        }
        for (text, number) in [
            ("KILL", 9),
            ("CLD", 17),
            ("POLL", 29),
            ("SYS", 31),
            ("RTMIN", 34),
            ("RTMIN+1", 35),
            ("SIGRTMIN+30", 64),
            ("RTMAX", 64),
            ("RTMAX-30", 34),
            ("32", 32),
        ] {
            assert_eq!(text.parse::<Signal>().map(Signal::number), Ok(number), "{text}");
        }
    }

    #[test]
    fn signals_are_displayed_by_their_usual_names() {
        let shown = |number| Signal::from_number(number).expect("a signal").to_string();
        assert_eq!(
            [1, 9, 15, 17, 29, 31, 32, 34, 37, 64].map(shown),
            [
                "SIGHUP",
                "SIGKILL",
                "SIGTERM",
                "SIGCHLD",
                "SIGIO",
                "SIGSYS",
                "SIG32",
                "SIGRTMIN",
                "SIGRTMIN+3",
                "SIGRTMIN+30"
            ]
        );
    }

    #[test]
    fn invalid_signals_are_rejected_with_advice() {
        for text in [
            "",
            "SIG",
            "0",
            "65",
            "-1",
            "+15",
            "TERMINATE",
            "RTMIN+31",
            "RTMIN-1",
            "RTMAX+1",
            "RTMAX-31",
            "RTMIN+",
            "99999999999",
            "1 5",
        ] {
            let error = text.parse::<Signal>().expect_err(text).to_string();
            assert!(error.contains("`TERM`") && error.contains(text), "{error}");
        }
        assert_eq!(Signal::from_number(0), None);
        assert_eq!(Signal::from_number(65), None);
        assert_eq!(Signal::from_number(-9), None);
    }
}
