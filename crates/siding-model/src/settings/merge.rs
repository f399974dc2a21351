//! Merges the layers of settings into the values in effect.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::{Key, KeyScope, Layer, Settings};
use super::origin::{Origin, SYSTEM_FILE, SettingSource};
use super::value::{RawValue, ValueError};
use crate::duration;
use crate::limits::{Limits, Thresholds};
use crate::unowned::UnownedReapMode;

/// A valid value and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerValue<V> {
    pub(super) value: V,
    pub(super) source: SettingSource,
}

/// A key that the system file has locked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyLock {
    pub(super) key: Key,
    pub(super) locked_by: Origin,
}

/// A mistake in one source of settings. The command that reads the settings fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSetting {
    /// The value is not valid for its key.
    #[error("{place}: {}{why}", Self::key_prefix(place, *key))]
    Value {
        /// The source of the value.
        place: SettingSource,
        /// The key that does not accept the value.
        key: Key,
        /// The mistake, and the allowed values.
        why: ValueError,
    },
    /// No setting has this name.
    #[error("{place}: unknown key `{name}`{}", Self::advice(*nearest))]
    UnknownKey {
        /// The source of the key.
        place: SettingSource,
        /// The rejected name, made safe to print.
        name: String,
        /// The key with the most similar name; `None` if no key is similar.
        nearest: Option<Key>,
    },
    /// A source other than the system file locks a key.
    #[error("{place}: `locked` is allowed in the system file only")]
    LockNotAllowed {
        /// The source of the lock.
        place: SettingSource,
    },
    /// The value of `locked` is not a list of keys.
    #[error("{place}: `locked` takes an array of key names, or a table of `key = true`")]
    BadLockList {
        /// The source of the lock.
        place: SettingSource,
    },
}

impl InvalidSetting {
    /// Returns the key for a message about a value in a file. A flag or variable, which the message
    /// names as the place, already says which setting is meant.
    fn key_prefix(place: &SettingSource, key: Key) -> String {
        if place.origin.path().is_some() { format!("`{key}`: ") } else { String::new() }
    }

    fn advice(nearest: Option<Key>) -> String {
        nearest.map_or_else(
            || "; `siding config show` lists all keys".to_owned(),
            |key| format!("; did you mean `{key}`?"),
        )
    }
}

/// The reason why a setting or a settings file was ignored. The command continues with the values
/// of the other layers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// A value for a locked key.
    #[error("{place}: `{key}` stays `{kept}`: it is locked by the {by}")]
    Locked {
        /// The source of the ignored value.
        place: SettingSource,
        /// The locked key.
        key: Key,
        /// The locked value, which stays in effect.
        kept: RawValue,
        /// The layer that locked the key.
        by: Origin,
    },
    /// A duration above the cap in effect.
    #[error("{}", over_cap_warning((place, *key), (*asked, *cap), by))]
    OverCap {
        /// The source of the ignored value.
        place: SettingSource,
        /// The key whose value is above the cap: `max_elapsed` or `max_elapsed_hard_cap`.
        key: Key,
        /// The value above the cap that the source requested.
        asked: Duration,
        /// The cap in effect.
        cap: Duration,
        /// The layer that set the cap.
        by: Origin,
    },
    /// A project's value for a key that only users and administrators may set.
    #[error(
        "{place}: `{key}` is not used: {}; set it in your own settings file",
        Self::beyond_project(*key)
    )]
    NotAllowedForProject {
        /// The source of the ignored value.
        place: SettingSource,
        /// The key that a project must not set.
        key: Key,
    },
    /// A project's network policy that allows more than the policy in effect.
    #[error(
        "{place}: `net` is `{asked}`, which is not stricter than `{kept}` ({by}); `{kept}` applies"
    )]
    LoosenedByProject {
        /// The source of the ignored value.
        place: SettingSource,
        /// The policy that the project requested.
        asked: RawValue,
        /// The policy in effect.
        kept: RawValue,
        /// The layer that set the policy in effect.
        by: Origin,
    },
    /// A host's settings file that cannot be used at all.
    #[error("`{path}`: {why}; its settings are not used", path = path.display())]
    HostFileUnusable {
        /// Path of the host's settings file.
        path: PathBuf,
        /// The reason why the file cannot be used.
        why: String,
    },
    /// An invalid value in a host's settings file.
    #[error("`{path}`: `{name}`: {why}; it is not used", path = path.display())]
    BadHostValue {
        /// Path of the host's settings file.
        path: PathBuf,
        /// Dotted name of the key in the host's file.
        name: &'static str,
        /// The mistake, and the allowed values.
        why: ValueError,
    },
    /// A project file that is owned by another user.
    #[error(
        "`{path}` belongs to user {owner} and is not used: its owner would decide which \
         commands run",
        path = path.display()
    )]
    ProjectOfOtherUser {
        /// Path of the project file.
        path: PathBuf,
        /// User id of the file's owner.
        owner: u32,
    },
}

impl SettingsWarning {
    /// Returns the key whose value was ignored, and the source of the value; `None` if the warning
    /// is about a whole file or a file of a host.
    #[must_use]
    pub const fn ignored_value(&self) -> Option<(Key, &SettingSource)> {
        match self {
            Self::Locked { place, key, .. }
            | Self::OverCap { place, key, .. }
            | Self::NotAllowedForProject { place, key } => Some((*key, place)),
            Self::LoosenedByProject { place, .. } => Some((Key::Net, place)),
            Self::HostFileUnusable { .. }
            | Self::BadHostValue { .. }
            | Self::ProjectOfOtherUser { .. } => None,
        }
    }

    /// Returns why a new value is refused, for a value that would be ignored. Unlike the warning,
    /// the text names no line, because the value is not in the file.
    #[must_use]
    pub fn refusal(&self) -> String {
        match self {
            Self::Locked { key, kept, by, .. } => {
                format!("`{key}` stays `{kept}`: it is locked by the {by}")
            }
            Self::OverCap { key, asked, cap, by, .. } => {
                format!("`{key}`: {}", describe_over_cap((*asked, *cap), by))
            }
            Self::NotAllowedForProject { key, .. } => format!(
                "a project cannot set `{key}`: {}; set it in your own settings file",
                Self::beyond_project(*key)
            ),
            Self::LoosenedByProject { asked, kept, by, .. } => format!(
                "`net`: `{asked}` is not stricter than `{kept}` ({by}), and a project can only \
                 restrict it"
            ),
            Self::HostFileUnusable { .. }
            | Self::BadHostValue { .. }
            | Self::ProjectOfOtherUser { .. } => self.to_string(),
        }
    }

    /// Returns whether the warning is about a settings file of a host.
    #[must_use]
    pub const fn is_about_host(&self) -> bool {
        matches!(self, Self::HostFileUnusable { .. } | Self::BadHostValue { .. })
    }

    /// Returns why a project must not set a key.
    fn beyond_project(key: Key) -> &'static str {
        if key == Key::NotifyWebhook {
            "a project must not send your notices anywhere"
        } else if key == Key::Executor {
            "a project must not send your commands anywhere"
        } else {
            "it also affects other projects"
        }
    }
}

/// Returns the warning about a value above the cap. A flag is named without its setting, which the
/// caller has not written.
fn over_cap_warning(
    (place, key): (&SettingSource, Key),
    durations: (Duration, Duration),
    by: &Origin,
) -> String {
    let setting = match place.origin {
        Origin::Call { .. } => String::new(),
        Origin::BuiltIn
        | Origin::System { .. }
        | Origin::Host { .. }
        | Origin::User { .. }
        | Origin::Project { .. }
        | Origin::Environment { .. } => format!(" `{key}`:"),
    };
    format!("{place}:{setting} {}; the cap applies instead", describe_over_cap(durations, by))
}

/// Says that a value is above the cap, which layer sets the cap, and where it can be raised.
fn describe_over_cap((asked, cap): (Duration, Duration), by: &Origin) -> String {
    let raise = match by {
        Origin::BuiltIn => format!("only the system file `{SYSTEM_FILE}` can raise it"),
        Origin::System { .. } => "only this file can raise it".to_owned(),
        Origin::Host { .. }
        | Origin::User { .. }
        | Origin::Project { .. }
        | Origin::Environment { .. }
        | Origin::Call { .. } => "it can be raised there".to_owned(),
    };
    format!(
        "`{}` is more than the cap of `{}`, which `{}` sets ({by}; {raise})",
        duration::format_duration_exact(asked),
        duration::format_duration_exact(cap),
        Key::MaxElapsedHardCap
    )
}

/// A setting with its value and source, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingEntry<'s> {
    /// Key of the setting.
    pub key: Key,
    /// The value, in the form of a settings file.
    pub value: RawValue,
    /// The source of the value.
    pub source: &'s SettingSource,
    /// Whether the system file locks the key.
    pub locked: bool,
}

impl Settings {
    /// Returns the time from the start of a task to its deadline: the requested time, otherwise
    /// `max_elapsed`, but never more than the cap.
    #[must_use]
    pub fn deadline(&self, requested: Option<Duration>) -> Duration {
        requested.unwrap_or(self.max_elapsed).min(self.max_elapsed_hard_cap)
    }

    /// Merges the layers onto the built-in values. Each layer overrides the layers before it,
    /// except for keys that it must not set or that are locked, and values that it must not loosen.
    #[must_use]
    pub fn merge(layers: impl IntoIterator<Item = Layer>) -> Self {
        let mut settings = Self::default();
        for mut layer in layers {
            settings.reject_cap_raise(&mut layer);
            settings.reject_loosened_net(&mut layer);
            settings.apply(layer);
            if !matches!(settings.origin(Key::MaxElapsedHardCap), Origin::Project { .. }) {
                settings.cap_without_projects = settings.max_elapsed_hard_cap;
            }
        }
        settings.clamp_to_cap();
        settings
    }

    /// Returns the limits with which a new task is started.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Limits {
            memory: self.max_memory.0,
            min_available: self.min_available.0,
            processes: u64::from(self.max_processes),
            fds: u64::from(self.max_fds),
            cpu_spin_ms: ms(self.max_cpu_spin),
            connection_age_ms: ms(self.max_connection_age),
            sent: self.max_sent.0,
            output_rate: self.max_output_rate.0.0,
            on_limit: self.on_limit,
        }
    }

    /// Returns the minimum age of unowned processes that may be terminated: the cap, determined
    /// without project files. A project must not lower this age, because the processes may come
    /// from another project.
    #[must_use]
    pub const fn unowned_min_age(&self) -> Duration {
        self.cap_without_projects
    }

    /// Returns what an automatic run of the reaper does with unowned processes. `is_reported` says
    /// whether an earlier run has already reported unowned processes on this machine.
    #[must_use]
    pub fn effective_unowned_reap(&self, is_reported: bool) -> UnownedReapMode {
        let is_chosen = *self.origin(Key::ForeignReap) != Origin::BuiltIn;
        self.foreign_reap.effective(is_chosen, is_reported)
    }

    /// Returns the thresholds of the watchdogs, except for resources that have a limit.
    #[must_use]
    pub fn watchdog_thresholds(&self) -> Thresholds {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let all = Thresholds {
            cpu_spin_ms: ms(self.watch_cpu_spin),
            fds: u64::from(self.watch_fds),
            connection_age_ms: ms(self.watch_connection_age),
            sent: self.watch_sent.0,
        };
        all.without_limited(&self.limits())
    }

    /// Returns the layer that set a key's value.
    #[must_use]
    pub fn origin(&self, key: Key) -> &Origin {
        &self.places[key as usize].origin
    }

    /// Returns the layer that set a key's value, with the line of the file.
    #[must_use]
    pub fn value_source(&self, key: Key) -> &SettingSource {
        &self.places[key as usize]
    }

    /// Returns whether the system file locked a key.
    #[must_use]
    pub fn is_locked(&self, key: Key) -> bool {
        self.locks.iter().any(|lock| lock.key == key)
    }

    /// Returns every setting with its value and source.
    pub fn entries(&self) -> impl Iterator<Item = SettingEntry<'_>> {
        Key::ALL.iter().map(|key| SettingEntry {
            key: *key,
            value: self.value(*key),
            source: &self.places[*key as usize],
            locked: self.is_locked(*key),
        })
    }

    /// Returns the warnings about ignored settings.
    #[must_use]
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }

    /// Adds a warning from the code that reads the sources.
    pub fn add_warning(&mut self, warning: SettingsWarning) {
        self.warnings.push(warning);
    }

    pub(super) fn may_apply<V>(
        &mut self,
        key: Key,
        layer_value: &LayerValue<V>,
        agrees: bool,
    ) -> bool {
        if key.scope() == KeyScope::UserOnly
            && matches!(layer_value.source.origin, Origin::Project { .. })
        {
            self.warnings.push(SettingsWarning::NotAllowedForProject {
                place: layer_value.source.clone(),
                key,
            });
            return false;
        }
        let Some(lock) = self.locks.iter().find(|lock| lock.key == key) else {
            return true;
        };
        let by = lock.locked_by.clone();
        let kept = self.value(key);
        // A value equal to the locked value changes nothing and needs no warning.
        if !agrees {
            let place = layer_value.source.clone();
            self.warnings.push(SettingsWarning::Locked { place, key, kept, by });
        }
        false
    }

    /// Drops a layer's cap that is above the cap in effect, unless the layer is the system file.
    ///
    /// Each other layer can only lower the cap of the layers below it, so that a project cannot
    /// raise a cap that the user lowered.
    fn reject_cap_raise(&mut self, layer: &mut Layer) {
        let cap = self.max_elapsed_hard_cap;
        let raise = layer.max_elapsed_hard_cap.take_if(|given| {
            given.value > cap && !matches!(given.source.origin, Origin::System { .. })
        });
        if let Some(given) = raise {
            self.warn_over_cap(Key::MaxElapsedHardCap, given.value, given.source);
        }
    }

    /// Lowers `max_elapsed` to the cap if it is above the cap.
    fn clamp_to_cap(&mut self) {
        if self.max_elapsed <= self.max_elapsed_hard_cap {
            return;
        }
        let cap_place = self.places[Key::MaxElapsedHardCap as usize].clone();
        let place = std::mem::replace(&mut self.places[Key::MaxElapsed as usize], cap_place);
        let requested = std::mem::replace(&mut self.max_elapsed, self.max_elapsed_hard_cap);
        // A built-in value above the cap needs no warning, because no source requested the value.
        if place.origin != Origin::BuiltIn {
            self.warn_over_cap(Key::MaxElapsed, requested, place);
        }
    }

    fn warn_over_cap(&mut self, key: Key, asked: Duration, place: SettingSource) {
        self.warnings.push(SettingsWarning::OverCap {
            place,
            key,
            asked,
            cap: self.max_elapsed_hard_cap,
            by: self.origin(Key::MaxElapsedHardCap).clone(),
        });
    }
}
