//! Layers to settings.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::{Key, Layer, Settings};
use super::origin::{Origin, SettingSource};
use super::value::{RawValue, ValueError};
use crate::duration;
use crate::limits::{Limits, Thresholds};
use crate::unowned::UnownedReapMode;

/// A legal value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerValue<V> {
    pub(super) value: V,
    pub(super) source: SettingSource,
}

/// A key that keeps its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyLock {
    pub(super) key: Key,
    pub(super) locked_by: Origin,
}

/// A mistake in one source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSetting {
    /// A key got what it does not take.
    #[error("{place}: `{key}`: {why}")]
    Value {
        /// Where.
        place: SettingSource,
        /// Which key.
        key: Key,
        /// What is wrong, and what is allowed.
        why: ValueError,
    },
    /// There is no such key.
    #[error("{place}: unknown key `{name}`{}", Self::advice(*nearest))]
    UnknownKey {
        /// Where.
        place: SettingSource,
        /// The name, made safe to print.
        name: String,
        /// What may have been meant.
        nearest: Option<Key>,
    },
    /// Somebody else than the administrator locks a key.
    #[error("{place}: `locked` is allowed in the system file only")]
    LockNotAllowed {
        /// Where.
        place: SettingSource,
    },
    /// `locked` is something else than a list of keys.
    #[error("{place}: `locked` takes an array of key names, or a table of `key = true`")]
    BadLockList {
        /// Where.
        place: SettingSource,
    },
}

impl InvalidSetting {
    fn advice(nearest: Option<Key>) -> String {
        nearest.map_or_else(
            || "; `siding config show` lists all keys".to_owned(),
            |key| format!("; did you mean `{key}`?"),
        )
    }
}

/// Something that was not applied and need not stop anybody.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// A locked key was set.
    #[error("{place}: `{key}` stays `{kept}`: it is locked by the {by}")]
    Locked {
        /// Who tried.
        place: SettingSource,
        /// Which key.
        key: Key,
        /// The value in force.
        kept: RawValue,
        /// Who locked it.
        by: Origin,
    },
    /// A key was set to more than the cap in force.
    #[error(
        "{place}: `{key}` is `{}`, more than the cap of `{}` ({by}), which is used",
        duration::format_duration_exact(*asked),
        duration::format_duration_exact(*cap)
    )]
    OverCap {
        /// Who tried.
        place: SettingSource,
        /// Which key.
        key: Key,
        /// What was asked.
        asked: Duration,
        /// The cap in force.
        cap: Duration,
        /// Who set the cap.
        by: Origin,
    },
    /// A project set what is for persons and administrators alone.
    #[error(
        "{place}: `{key}` is not used: {}; set it in your own settings file",
        Self::beyond_project(*key)
    )]
    NotAllowedForProject {
        /// Who tried.
        place: SettingSource,
        /// Which key.
        key: Key,
    },
    /// A project's network policy lets through more than the one in force.
    #[error(
        "{place}: `net` is `{asked}`, which is not stricter than `{kept}` ({by}), which is used"
    )]
    LoosenedByProject {
        /// Who tried.
        place: SettingSource,
        /// What was asked.
        asked: RawValue,
        /// The policy in force.
        kept: RawValue,
        /// Who set it.
        by: Origin,
    },
    /// The host's settings file was left out.
    #[error("`{path}`: {why}; its settings are not used", path = path.display())]
    HostFileUnusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// One value of the host's settings file was left out.
    #[error("`{path}`: `{name}`: {why}; it is not used", path = path.display())]
    BadHostValue {
        /// The file.
        path: PathBuf,
        /// The host's name for the key.
        name: &'static str,
        /// What is wrong, and what is allowed.
        why: ValueError,
    },
    /// A project file that belongs to another user was left out.
    #[error(
        "`{path}` belongs to user {owner} and is not used: whoever writes it decides what runs",
        path = path.display()
    )]
    ProjectOfOtherUser {
        /// The file.
        path: PathBuf,
        /// Number of the user it belongs to.
        owner: u32,
    },
}

impl SettingsWarning {
    /// Returns whether it is about a settings file of the host.
    #[must_use]
    pub const fn is_about_host(&self) -> bool {
        matches!(self, Self::HostFileUnusable { .. } | Self::BadHostValue { .. })
    }

    /// Returns why a project must not set a key.
    fn beyond_project(key: Key) -> &'static str {
        if key == Key::NotifyWebhook {
            "a project must not send your notices anywhere"
        } else {
            "it holds for what other projects have as well"
        }
    }
}

/// One setting, for showing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingEntry<'s> {
    /// Which.
    pub key: Key,
    /// Its value, in the form in which a file would hold it.
    pub value: RawValue,
    /// Where that comes from.
    pub source: &'s SettingSource,
    /// Whether the system file locked it.
    pub locked: bool,
}

impl Settings {
    /// Returns what is in force when these layers lie on the built-in one, the lowest first.
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

    /// Returns the limits of a task.
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

    /// Returns the age from which foreign orphans may be ended: the hard cap, which a project's file
    /// cannot lower here, because the orphans may be another project's.
    #[must_use]
    pub const fn unowned_min_age(&self) -> Duration {
        self.cap_without_projects
    }

    /// Returns what a run of the reaper that nobody asked for does about foreign orphans.
    #[must_use]
    pub fn effective_unowned_reap(&self, is_reported: bool) -> UnownedReapMode {
        let is_chosen = *self.origin(Key::ForeignReap) != Origin::BuiltIn;
        self.foreign_reap.effective(is_chosen, is_reported)
    }

    /// Returns the thresholds of the watchdogs that no limit replaces.
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

    /// Returns who set a key.
    #[must_use]
    pub fn origin(&self, key: Key) -> &Origin {
        &self.places[key as usize].origin
    }

    /// Returns whether the system file locked a key.
    #[must_use]
    pub fn is_locked(&self, key: Key) -> bool {
        self.locks.iter().any(|lock| lock.key == key)
    }

    /// Returns every setting with its value and place.
    pub fn entries(&self) -> impl Iterator<Item = SettingEntry<'_>> {
        Key::ALL.iter().map(|key| SettingEntry {
            key: *key,
            value: self.value(*key),
            source: &self.places[*key as usize],
            locked: self.is_locked(*key),
        })
    }

    /// Returns what was not applied, and why.
    #[must_use]
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }

    /// Adds what a reader of sources left out.
    pub fn add_warning(&mut self, warning: SettingsWarning) {
        self.warnings.push(warning);
    }

    pub(super) fn may_apply<V>(
        &mut self,
        key: Key,
        layer_value: &LayerValue<V>,
        agrees: bool,
    ) -> bool {
        if !key.is_allowed_for_projects()
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
        // Agreeing with a locked value is no attempt to change it.
        if !agrees {
            let place = layer_value.source.clone();
            self.warnings.push(SettingsWarning::Locked { place, key, kept, by });
        }
        false
    }

    /// Drops a cap above the one in force, unless it is the administrator's.
    ///
    /// Each layer can only lower what the layers below it set, so that a user's own lower cap
    /// also holds against a project.
    fn reject_cap_raise(&mut self, layer: &mut Layer) {
        let cap = self.max_elapsed_hard_cap;
        let raise = layer.max_elapsed_hard_cap.take_if(|given| {
            given.value > cap && !matches!(given.source.origin, Origin::System { .. })
        });
        if let Some(given) = raise {
            self.warn_over_cap(Key::MaxElapsedHardCap, given.value, given.source);
        }
    }

    /// Brings `max_elapsed` down to the cap.
    fn clamp_to_cap(&mut self) {
        if self.max_elapsed <= self.max_elapsed_hard_cap {
            return;
        }
        let cap_place = self.places[Key::MaxElapsedHardCap as usize].clone();
        let place = std::mem::replace(&mut self.places[Key::MaxElapsed as usize], cap_place);
        let requested = std::mem::replace(&mut self.max_elapsed, self.max_elapsed_hard_cap);
        // A lower cap is no surprise to those who never asked for the built-in value.
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
