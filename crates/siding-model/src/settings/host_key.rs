//! The keys that siding reads from a host's own settings file.

use std::fmt;
use std::path::{Path, PathBuf};

use super::keys::Key;
use super::suggest::nearest_name;
use super::value::printable;

/// A key in a host's settings file, written as `{"bash": {"NAME": …}}` or `{"bash.NAME": …}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKey {
    /// Sets `max_elapsed`, in seconds.
    MaxElapsedSeconds,
    /// Sets `max_elapsed_hard_cap`, in seconds.
    MaxElapsedSecondsHardCap,
    /// Sets `max_elapsed_hard_cap`; the spelling in earlier drafts of anthropics/claude-code#51932.
    MaxElapsedHardCap,
    /// Sets `kill_signal`, a name or a number.
    KillSignal,
    /// Sets `kill_grace`, in seconds.
    KillGraceSeconds,
}

impl HostKey {
    /// All keys that siding reads from a host's settings file.
    pub const KNOWN_KEYS: &'static [Self] = &[
        Self::MaxElapsedSeconds,
        Self::MaxElapsedSecondsHardCap,
        Self::MaxElapsedHardCap,
        Self::KillSignal,
        Self::KillGraceSeconds,
    ];

    /// The prefix of the dotted form, which is the name of the object that holds the keys.
    pub const KEY_PREFIX: &'static str = "bash.";

    /// Returns the dotted name, such as `bash.backgroundKillSignal`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MaxElapsedSeconds => "bash.backgroundMaxElapsedSeconds",
            Self::MaxElapsedSecondsHardCap => "bash.backgroundMaxElapsedSecondsHardCap",
            Self::MaxElapsedHardCap => "bash.backgroundMaxElapsedHardCap",
            Self::KillSignal => "bash.backgroundKillSignal",
            Self::KillGraceSeconds => "bash.backgroundKillGraceSeconds",
        }
    }

    /// Returns the name inside the `bash` object.
    #[must_use]
    pub fn short_name(self) -> &'static str {
        self.name().strip_prefix(Self::KEY_PREFIX).unwrap_or_default()
    }

    /// Returns the setting of siding that the host's key sets.
    #[must_use]
    pub const fn key(self) -> Key {
        match self {
            Self::MaxElapsedSeconds => Key::MaxElapsed,
            Self::MaxElapsedSecondsHardCap | Self::MaxElapsedHardCap => Key::MaxElapsedHardCap,
            Self::KillSignal => Key::KillSignal,
            Self::KillGraceSeconds => Key::KillGrace,
        }
    }

    /// Returns the current spelling of the key.
    #[must_use]
    pub const fn current_spelling(self) -> Self {
        match self {
            Self::MaxElapsedHardCap => Self::MaxElapsedSecondsHardCap,
            Self::MaxElapsedSeconds
            | Self::MaxElapsedSecondsHardCap
            | Self::KillSignal
            | Self::KillGraceSeconds => self,
        }
    }
}

/// A key in a host's settings file that resembles a [`HostKey`] but sets nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownHostKey {
    /// The host's settings file that contains the key.
    pub path: PathBuf,
    /// The dotted name, made safe to print.
    pub name: String,
    /// Dotted name of the known key with the most similar name, in the current spelling.
    pub nearest: &'static str,
}

impl UnknownHostKey {
    /// Returns the unknown key for a name inside the `bash` object. Returns `None` for a known key,
    /// for a name that is too long to compare, and for a name that does not start with
    /// `background`: such names are keys of the host itself.
    #[must_use]
    pub fn from_short_name(path: &Path, name: &str) -> Option<Self> {
        let is_known = HostKey::KNOWN_KEYS.iter().any(|key| key.short_name() == name);
        let begins_alike = name
            .get(..SHORT_NAME_PREFIX.len())
            .is_some_and(|beginning| beginning.eq_ignore_ascii_case(SHORT_NAME_PREFIX));
        if is_known || !begins_alike {
            return None;
        }
        let nearest = nearest_name(name, HostKey::KNOWN_KEYS.iter().map(|key| key.short_name()))?;
        let key = HostKey::KNOWN_KEYS.iter().find(|key| key.short_name() == nearest)?;
        let nearest = key.current_spelling().name();
        let name = printable(&format!("{}{name}", HostKey::KEY_PREFIX));
        Some(Self { path: path.to_owned(), name, nearest })
    }
}

/// Common prefix of all short names.
const SHORT_NAME_PREFIX: &str = "background";

impl fmt::Display for UnknownHostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`: unknown key `{}`; the nearest known key is `{}`",
            self.path.display(),
            self.name,
            self.nearest
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str) -> Option<&'static str> {
        UnknownHostKey::from_short_name(Path::new("/s.json"), name).map(|key| key.nearest)
    }

    #[test]
    fn every_known_host_key_is_accepted() {
        for key in HostKey::KNOWN_KEYS {
            assert!(key.short_name().starts_with(SHORT_NAME_PREFIX), "{key:?}");
            assert_eq!(finding(key.short_name()), None, "{key:?}");
        }
    }

    #[test]
    fn an_unknown_background_key_suggests_the_nearest_one() {
        for (name, nearest) in [
            ("backgroundMaxElapsedHardcap", "bash.backgroundMaxElapsedSecondsHardCap"),
            ("backgroundMaxElapsed", "bash.backgroundMaxElapsedSeconds"),
            ("backgroundkillsignal", "bash.backgroundKillSignal"),
            ("backgroundKillGrace", "bash.backgroundKillGraceSeconds"),
            ("BackgroundKillSignal", "bash.backgroundKillSignal"),
        ] {
            assert_eq!(finding(name), Some(nearest), "{name}");
        }
        for name in ["", "timeout", "backgroun", "日本語日本語"] {
            assert_eq!(finding(name), None, "{name}");
        }
        let key = UnknownHostKey::from_short_name(Path::new("/s.json"), "background\u{1b}[2J");
        let text = key.expect("unknown").to_string();
        assert!(text.starts_with("`/s.json`: unknown key `bash.background"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
