//! The table of settings. Everything about one key stands in one place: its name, kind, built-in
//! value, check and description.

use std::time::Duration;

use super::check::{above_zero, any, ending, program};
use super::host_budget::HostBudget;
use super::merge::{Given, Invalid, Lock, Warning};
use super::nearest::nearest;
use super::origin::{Origin, Place};
use super::value::{AssistantMode, RawValue, Value, ValueError, shown};
use super::webhook::Webhook;
use crate::foreign::{ForeignReap, Rule};
use crate::host::built_in_spare_programs;
use crate::limits::OnLimit;
use crate::net::NetPolicy;
use crate::signal::Signal;
use crate::size::{Bytes, Rate};
use crate::spec::OnLeaderExit;
use crate::watched::SocketPattern;

/// Makes [`Key`], [`Settings`] and [`Layer`] from the table below.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident $name:ident: $type:ty = $builtin:expr, $check:path;
    )+) => {
        /// Name of a setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Key {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Key {
            /// All keys, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name used in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)+ }
            }

            /// Returns what the setting is for.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            #[cfg(feature = "schema")]
            pub(super) fn schema(self) -> schemars::Schema {
                match self { $(Self::$variant => <$type as Value>::schema(),)+ }
            }
        }

        /// What is in force. Every value is legal.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
            /// The hard cap as it would be without project files.
            pub(super) cap_without_projects: Duration,
            /// Where each value comes from, in the order of [`Key::ALL`].
            pub(super) places: Vec<Place>,
            pub(super) locks: Vec<Lock>,
            pub(super) warnings: Vec<Warning>,
        }

        impl Default for Settings {
            /// Returns the built-in values.
            fn default() -> Self {
                Self {
                    $($name: $builtin,)+
                    cap_without_projects: HARD_CAP,
                    places: vec![Origin::BuiltIn.into(); Key::ALL.len()],
                    locks: Vec::new(),
                    warnings: Vec::new(),
                }
            }
        }

        impl Settings {
            /// Returns a value in the form in which a file would hold it.
            #[must_use]
            pub fn value(&self, key: Key) -> RawValue {
                match key { $(Key::$variant => self.$name.raw(),)+ }
            }

            pub(super) fn apply(&mut self, layer: Layer) {
                $(if let Some(given) = layer.$name
                    && self.admits(Key::$variant, &given, given.value == self.$name)
                {
                    self.$name = given.value;
                    self.places[Key::$variant as usize] = given.place;
                })+
                self.locks.extend(layer.locks);
            }
        }

        /// What one source sets: legal values, each with its place, and most of them absent.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Layer {
            $(pub(super) $name: Option<Given<$type>>,)+
            pub(super) locks: Vec<Lock>,
        }

        impl Layer {
            /// Takes a value.
            ///
            /// # Errors
            ///
            /// [`Invalid::Value`] when it is not what the key takes.
            pub fn set(&mut self, key: Key, raw: &RawValue, place: Place) -> Result<(), Invalid> {
                let result = match key {
                    $(Key::$variant => read::<$type>(raw, $check).map(|value| {
                        self.$name = Some(Given { value, place: place.clone() });
                    }),)+
                };
                result.map_err(|why| Invalid::Value { place, key, why })
            }
        }
    };
}

/// Returns seconds as a duration.
const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The built-in upper bound of every task's life.
const HARD_CAP: Duration = secs(14_400);

settings! {
    /// How long a caller is kept waiting before its command goes on in the background.
    BlockingBudget blocking_budget: Duration = secs(15), any;
    /// Timeout that siding's hook gives to a shell call of Claude Code's main agent, at which the host
    /// moves the call to the background. `off` changes no call.
    Budget budget: HostBudget = HostBudget::Off, any;
    /// How long a task may live when nobody asked for more or less.
    MaxElapsed max_elapsed: Duration = secs(1_800), above_zero;
    /// Upper bound of every task's life. Only the system file can raise it.
    MaxElapsedHardCap max_elapsed_hard_cap: Duration = HARD_CAP, above_zero;
    /// Signal that asks a task to end, by name or number.
    KillSignal kill_signal: Signal = Signal::TERM, ending;
    /// Time between that signal and the kill. Zero kills at once.
    KillGrace kill_grace: Duration = secs(10), any;
    /// How long a session may be without its owner before its tasks are stopped.
    SessionGrace session_grace: Duration = secs(2), any;
    /// Whether the blocking budget applies: `auto` means unless a person's terminal reads.
    AssistantMode assistant_mode: AssistantMode = AssistantMode::Auto, any;
    /// Whether commands may go to the background at all.
    BackgroundTasks background_tasks: bool = true, any;
    /// Whether a command that is known to take longer than the budget starts in the background.
    AutoBackground auto_background: bool = false, any;
    /// What happens to processes that outlive the command's shell: `linger` or `reap`.
    OnLeaderExit on_leader_exit: OnLeaderExit = OnLeaderExit::Linger, any;
    /// Shell that runs commands given as one text, by name or path.
    Shell shell: String = "bash".to_owned(), program;
    /// How long an explicit background start waits for an early failure.
    Settle settle: Duration = secs(0), any;
    /// How long a task may be silent before what it does is put on record. `0s` never looks.
    StallAfter stall_after: Duration = secs(45), any;
    /// How long before the deadline of a task that may live ten minutes or more a notice is given.
    /// `0s` gives none.
    DeadlineNotice deadline_notice: Duration = secs(120), any;
    /// How long an adopted command may run before it is put on record, unless it leaves processes.
    AdoptKeepAfter adopt_keep_after: Duration = secs(2), any;
    /// Whether a host's process is watched: its commands in a sandbox are kept, and what it leaves is
    /// ended.
    SuperviseHosts supervise_hosts: bool = true, any;
    /// Programs that outlive the agent through which they were opened, by their names, unless they run
    /// headless; `editors` and `browsers` stand for the usual ones.
    SparePrograms spare_programs: Vec<String> = built_in_spare_programs(), any;
    /// How much memory a task may use; what its processes share counts once. `0` is no limit.
    MaxMemory max_memory: Bytes = Bytes(0), any;
    /// How much memory the machine is to have left (`MemAvailable`). Told of a task that alone could
    /// make up for what is missing. `0` is no limit.
    MinAvailable min_available: Bytes = Bytes(0), any;
    /// How many processes a task may have. `0` is no limit.
    MaxProcesses max_processes: u32 = 0, any;
    /// How many descriptors all processes of a task may have open together. `0` is no limit.
    MaxFds max_fds: u32 = 0, any;
    /// How long a task may compute at nine tenths of a core without output. `0s` is no limit.
    MaxCpuSpin max_cpu_spin: Duration = secs(0), any;
    /// How old a TCP connection of a task may become. `0s` is no limit.
    MaxConnectionAge max_connection_age: Duration = secs(0), any;
    /// How much a task may send over TCP to one remote address. `0` is no limit.
    MaxSent max_sent: Bytes = Bytes(0), any;
    /// How much a task may write a second, averaged over ten seconds. `0` is no limit.
    MaxOutputRate max_output_rate: Rate = Rate(Bytes(0)), any;
    /// What happens when a task passes a limit: `notice` puts it on record, `stop` ends the task.
    OnLimit on_limit: OnLimit = OnLimit::Notice, any;
    /// How long a background task may use nine tenths of a core without output before a notice is
    /// given. `0s` gives none.
    WatchCpuSpin watch_cpu_spin: Duration = secs(300), any;
    /// How many descriptors a background task may have open before a notice is given; processes with
    /// few are not counted. `0` gives none.
    WatchFds watch_fds: u32 = 4_096, any;
    /// How old a TCP connection of a background task may be and still send before a notice is given.
    /// `0s` gives none.
    WatchConnectionAge watch_connection_age: Duration = secs(1_800), any;
    /// How much a background task may send over TCP to one remote address before a notice is given.
    /// `0` gives none.
    WatchSent watch_sent: Bytes = Bytes::gib(1), any;
    /// What of the network a task may reach. A project can only make it stricter.
    Net net: NetPolicy = NetPolicy::Host, any;
    /// How much of a task's output is kept from its beginning.
    OutputKeepHead output_keep_head: Bytes = Bytes::mib(8), any;
    /// How much of a task's output is kept at its end.
    OutputKeepTail output_keep_tail: Bytes = Bytes::mib(56), above_zero;
    /// How much output text is printed at most.
    OutputMaxBytes output_max_bytes: Bytes = Bytes::kib(32), above_zero;
    /// How much output text a hand-over shows at most; `output_max_bytes` where that is less.
    HandoverMaxBytes handover_max_bytes: Bytes = Bytes::kib(4), above_zero;
    /// How long a wait lasts at most.
    WaitBound wait_bound: Duration = secs(14_400), above_zero;
    /// How long an ended task is kept.
    RetentionAge retention_age: Duration = secs(7 * 24 * 60 * 60), any;
    /// How many ended tasks are kept.
    RetentionTasks retention_tasks: u32 = 1_000, any;
    /// How much disk all ended tasks may take.
    RetentionBytes retention_bytes: Bytes = Bytes::gib(2), any;
    /// Whether `siding notices --notify` shows desktop notifications.
    NotifyDesktop notify_desktop: bool = false, any;
    /// Whether `siding notices --notify` rings the terminal's bell.
    NotifyBell notify_bell: bool = false, any;
    /// Socket files that are removed once nobody holds them: paths with `*` and `?` at their end.
    ReapSockets reap_sockets: Vec<SocketPattern> = SocketPattern::built_in(), any;
    /// Rules for what other programs left behind, for `siding reap --foreign`.
    ReapForeign reap_foreign: Vec<Rule> = Rule::built_in(), any;
    /// What session starts and the timer do with what the built-in rules find: `off`, `report` or `end`. The built-in `end` only reports the first time.
    ForeignReap foreign_reap: ForeignReap = ForeignReap::End, any;
    /// Address that `siding notices --notify` sends notices to, or `off`.
    NotifyWebhook notify_webhook: Webhook = Webhook::OFF, any;
    /// Whether the first hook of a host reports once a day what `siding report` shows.
    ReportDaily report_daily: bool = false, any;
}

impl Key {
    /// Returns the key with this name in files.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }

    /// Returns whether a project's file may set it. What reaches beyond the project's own tasks it may
    /// not: a cloned repository would have other projects' records removed, or other programs killed.
    #[must_use]
    pub const fn is_for_projects(self) -> bool {
        !matches!(
            self,
            Self::RetentionAge
                | Self::RetentionTasks
                | Self::RetentionBytes
                | Self::ReapSockets
                | Self::ReapForeign
                | Self::ForeignReap
                | Self::SuperviseHosts
                | Self::SparePrograms
                | Self::NotifyWebhook
                // It tells an agent in one project of commands in others.
                | Self::ReportDaily
        )
    }

    /// Returns the environment variable that sets it, such as `SIDING_KILL_GRACE`.
    #[must_use]
    pub fn variable(self) -> String {
        format!("SIDING_{}", self.name().to_ascii_uppercase())
    }

    /// Returns the setting that a variable which sets none was most likely meant to set. `None` where
    /// it is like no other: siding has variables that are no settings.
    #[must_use]
    pub fn meant(variable: &str) -> Option<Self> {
        let name = variable.strip_prefix("SIDING_")?;
        nearest(name).filter(|key| key.variable() != variable)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Layer {
    /// Takes a value by the name of its key.
    ///
    /// # Errors
    ///
    /// [`Invalid::UnknownKey`] when there is no such key, [`Invalid::Value`] as in [`Self::set`].
    pub fn set_named(&mut self, name: &str, raw: &RawValue, place: Place) -> Result<(), Invalid> {
        let Some(key) = Key::from_name(name) else {
            return Err(Invalid::UnknownKey { place, name: shown(name), nearest: nearest(name) });
        };
        self.set(key, raw, place)
    }

    /// Locks a key by its name: no later layer can change it.
    ///
    /// # Errors
    ///
    /// [`Invalid::LockNotAllowed`] unless the place is the system file, [`Invalid::UnknownKey`]
    /// when there is no such key.
    pub fn lock(&mut self, name: &str, place: Place) -> Result<(), Invalid> {
        if !matches!(place.origin, Origin::System { .. }) {
            return Err(Invalid::LockNotAllowed { place });
        }
        let Some(key) = Key::from_name(name) else {
            return Err(Invalid::UnknownKey { place, name: shown(name), nearest: nearest(name) });
        };
        self.locks.push(Lock { key, by: place.origin });
        Ok(())
    }
}

fn read<V: Value>(
    raw: &RawValue,
    check: fn(&V) -> Result<(), &'static str>,
) -> Result<V, ValueError> {
    let value = V::read(raw)?;
    check(&value)
        .map_err(|allowed| ValueError::NotAllowed { found: shown(&raw.to_string()), allowed })?;
    Ok(value)
}
