//! The table of settings. Each key's name, type, built-in value, check, scope and description are
//! in one place.

use std::time::Duration;

use super::check::{
    accept_any, require_attach_idle, require_executor_name, require_nonzero, require_program_name,
    require_terminating_signal,
};
use super::executors::Executors;
use super::host_budget::HostBudget;
use super::merge::{InvalidSetting, KeyLock, LayerValue, SettingsWarning};
use super::origin::{Origin, SettingSource};
use super::suggest::nearest_key;
use super::value::{AssistantMode, RawValue, RunTerminal, Value, ValueError, printable};
use super::webhook::Webhook;
use crate::executor::LOCAL_EXECUTOR;
use crate::host::default_excluded_programs;
use crate::limits::OnLimit;
use crate::net::NetPolicy;
use crate::signal::Signal;
use crate::size::{ByteRate, Bytes};
use crate::socket_patterns::SocketPattern;
use crate::spec::OnLeaderExit;
use crate::terminal::DEFAULT_ATTACH_IDLE_MS;
use crate::unowned::{OrphanRule, UnownedReapMode};

/// Generates [`Key`], [`Settings`] and [`Layer`] from the table below.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident $name:ident: $type:ty = $builtin:expr, $check:path, $scope:ident;
    )+) => {
        /// The name of a setting.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Key {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Key {
            /// All keys, in the order in which they are displayed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name used in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)+ }
            }

            /// Returns the description of the setting.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// Returns which files may set the key.
            #[must_use]
            pub const fn scope(self) -> KeyScope {
                match self { $(Self::$variant => KeyScope::$scope,)+ }
            }

            #[cfg(feature = "schema")]
            pub(super) fn schema(self) -> schemars::Schema {
                match self { $(Self::$variant => <$type as Value>::schema(),)+ }
            }
        }

        /// The settings in effect. Every value is valid.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
            /// The value that `max_elapsed_hard_cap` has without project files.
            pub(super) cap_without_projects: Duration,
            /// The source of each value, in the order of [`Key::ALL`].
            pub(super) places: Vec<SettingSource>,
            pub(super) locks: Vec<KeyLock>,
            pub(super) warnings: Vec<SettingsWarning>,
        }

        impl Default for Settings {
            /// Returns the built-in values.
            fn default() -> Self {
                Self {
                    $($name: $builtin,)+
                    cap_without_projects: DEFAULT_HARD_CAP,
                    places: vec![Origin::BuiltIn.into(); Key::ALL.len()],
                    locks: Vec::new(),
                    warnings: Vec::new(),
                }
            }
        }

        impl Settings {
            /// Returns the value of a key in the form of a settings file.
            #[must_use]
            pub fn value(&self, key: Key) -> RawValue {
                match key { $(Key::$variant => self.$name.raw(),)+ }
            }

            pub(super) fn apply(&mut self, layer: Layer) {
                $(if let Some(given) = layer.$name
                    && self.may_apply(Key::$variant, &given, given.value == self.$name)
                {
                    self.$name = given.value;
                    self.places[Key::$variant as usize] = given.source;
                })+
                self.locks.extend(layer.locks);
            }
        }

        /// The settings of one source: the keys that the source sets, with their valid values and
        /// positions.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Layer {
            $(pub(super) $name: Option<LayerValue<$type>>,)+
            pub(super) locks: Vec<KeyLock>,
        }

        impl Layer {
            /// Sets the value of a key, and replaces an earlier value of this layer.
            ///
            /// # Errors
            ///
            /// Returns [`InvalidSetting::Value`] when the key does not accept the value.
            pub fn set(&mut self, key: Key, raw: &RawValue, place: SettingSource) -> Result<(), InvalidSetting> {
                let result = match key {
                    $(Key::$variant => read::<$type>(raw, $check).map(|value| {
                        self.$name = Some(LayerValue { value, source: place.clone() });
                    }),)+
                };
                result.map_err(|why| InvalidSetting::Value { place, key, why })
            }
        }
    };
}

/// The files that may set a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScope {
    /// All files, including those of a project, because the setting affects only the project's
    /// tasks.
    Project,
    /// All files except those of a project, because the setting affects more than the project's
    /// tasks. A cloned repository could otherwise remove records of other projects or kill other
    /// programs.
    UserOnly,
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The built-in upper bound of every task's lifetime.
const DEFAULT_HARD_CAP: Duration = secs(14_400);

settings! {
    /// How long a caller waits for its command before the command continues in the background. A
    /// person at a terminal waits until the end unless `assistant_mode` is `on`.
    BlockingBudget blocking_budget: Duration = secs(15), accept_any, Project;
    /// Timeout that siding's hook sets for a shell call of Claude Code's main agent; when it
    /// passes, the host moves the call to the background. With `off` the hook sets no timeout.
    Budget budget: HostBudget = HostBudget::Off, accept_any, Project;
    /// Time after which a task is terminated unless its call sets another one. While a person waits
    /// for the task in the foreground, this time does not count. `siding extend` moves the
    /// deadline.
    MaxElapsed max_elapsed: Duration = secs(1_800), require_nonzero, Project;
    /// Upper bound of every task's time limit. Only the system file can raise it.
    MaxElapsedHardCap max_elapsed_hard_cap: Duration = DEFAULT_HARD_CAP, require_nonzero, Project;
    /// Signal that requests the termination of a task, by name or number.
    KillSignal kill_signal: Signal = Signal::TERM, require_terminating_signal, Project;
    /// Time between that signal and the kill. `0s` kills immediately.
    KillGrace kill_grace: Duration = secs(10), accept_any, Project;
    /// How long a session may be without its owner before its tasks are stopped.
    SessionGrace session_grace: Duration = secs(2), accept_any, Project;
    /// Whether the blocking budget applies; `auto` applies it unless a person at a terminal
    /// calls.
    AssistantMode assistant_mode: AssistantMode = AssistantMode::Auto, accept_any, Project;
    /// Whether `siding run` gives the command of a person at a terminal a terminal of its own;
    /// `never` leaves that to `--pty`.
    RunTerminal run_terminal: RunTerminal = RunTerminal::Auto, accept_any, Project;
    /// Time without a keystroke after which the terminal of a task that a person has taken is given
    /// back to agents; from `1s` to `1h`.
    AttachIdle attach_idle: Duration = Duration::from_millis(DEFAULT_ATTACH_IDLE_MS), require_attach_idle, Project;
    /// Whether commands may run in the background.
    BackgroundTasks background_tasks: bool = true, accept_any, Project;
    /// Whether a command that is known to take longer than the budget starts in the background.
    AutoBackground auto_background: bool = false, accept_any, Project;
    /// Processes that outlive the command's shell continue (`linger`), or are terminated with it
    /// (`reap`).
    OnLeaderExit on_leader_exit: OnLeaderExit = OnLeaderExit::Linger, accept_any, Project;
    /// Shell for commands that are given as one text, by name or path.
    Shell shell: String = "bash".to_owned(), require_program_name, Project;
    /// How long an explicit background start waits for an early failure.
    Settle settle: Duration = secs(0), accept_any, Project;
    /// Silence after which a stall is recorded. `0s` disables the detection.
    StallAfter stall_after: Duration = secs(45), accept_any, Project;
    /// How long before the deadline a notice is given, for tasks that may run ten minutes or
    /// longer. `0s` disables it.
    DeadlineNotice deadline_notice: Duration = secs(120), accept_any, Project;
    /// How long an adopted command must run to be recorded as a task, unless it leaves processes.
    AdoptKeepAfter adopt_keep_after: Duration = secs(2), accept_any, Project;
    /// Whether a host's process is supervised: its sandboxed commands become tasks, and the
    /// processes that it leaves are terminated.
    SuperviseHosts supervise_hosts: bool = true, accept_any, UserOnly;
    /// Names of programs that outlive the agent that opened them, unless they run headless;
    /// `editors` and `browsers` stand for the usual ones.
    SparePrograms spare_programs: Vec<String> = default_excluded_programs(), accept_any, UserOnly;
    /// Maximum memory of a task; shared memory counts once. `0` means no limit.
    MaxMemory max_memory: Bytes = Bytes(0), accept_any, Project;
    /// Memory that must remain available on the machine (`MemAvailable`). A task breaches this
    /// limit if its end alone would make up for the shortage. `0` means no limit.
    MinAvailable min_available: Bytes = Bytes(0), accept_any, Project;
    /// Maximum number of processes of a task. `0` means no limit.
    MaxProcesses max_processes: u32 = 0, accept_any, Project;
    /// Maximum number of open descriptors of all processes of a task. `0` means no limit.
    MaxFds max_fds: u32 = 0, accept_any, Project;
    /// How long a task may use nine tenths of a core without output. `0s` means no limit.
    MaxCpuSpin max_cpu_spin: Duration = secs(0), accept_any, Project;
    /// Greatest age of a TCP connection of a task. `0s` means no limit.
    MaxConnectionAge max_connection_age: Duration = secs(0), accept_any, Project;
    /// Maximum amount of data that a task may send over TCP to one remote address. `0` means no
    /// limit.
    MaxSent max_sent: Bytes = Bytes(0), accept_any, Project;
    /// Greatest output rate of a task, averaged over ten seconds. `0` means no limit.
    MaxOutputRate max_output_rate: ByteRate = ByteRate(Bytes(0)), accept_any, Project;
    /// Action when a task exceeds a limit: `notice` records it, `stop` stops the task.
    OnLimit on_limit: OnLimit = OnLimit::Notice, accept_any, Project;
    /// How long a background task may use nine tenths of a core without output before a notice is
    /// given. `0s` disables it.
    WatchCpuSpin watch_cpu_spin: Duration = secs(300), accept_any, Project;
    /// Maximum number of open descriptors of a background task before a notice is given; processes
    /// with few are not counted. `0` disables it.
    WatchFds watch_fds: u32 = 4_096, accept_any, Project;
    /// Age of a TCP connection of a background task at which a notice is given if it still sends.
    /// `0s` disables it.
    WatchConnectionAge watch_connection_age: Duration = secs(1_800), accept_any, Project;
    /// Maximum amount of data that a background task may send over TCP to one remote address before
    /// a notice is given. `0` disables it.
    WatchSent watch_sent: Bytes = Bytes::gib(1), accept_any, Project;
    /// The part of the network that a task may reach. A project can only restrict it.
    Net net: NetPolicy = NetPolicy::Unrestricted, accept_any, Project;
    /// Machines over ssh, and Slurm clusters, on which commands can run: a table `[executor.NAME]` for
    /// each.
    Executor executor: Executors = Executors::default(), accept_any, UserOnly;
    /// Executor of a command whose call names none; `local` is this machine.
    DefaultExecutor default_executor: String = LOCAL_EXECUTOR.to_owned(), require_executor_name, Project;
    /// Size of the beginning of a task's output that is kept.
    OutputKeepHead output_keep_head: Bytes = Bytes::mib(8), accept_any, Project;
    /// Size of the end of a task's output that is kept.
    OutputKeepTail output_keep_tail: Bytes = Bytes::mib(56), require_nonzero, Project;
    /// Maximum output text that is printed.
    OutputMaxBytes output_max_bytes: Bytes = Bytes::kib(32), require_nonzero, Project;
    /// Maximum output text in a hand-over; never more than `output_max_bytes`.
    HandoverMaxBytes handover_max_bytes: Bytes = Bytes::kib(4), require_nonzero, Project;
    /// Longest duration of a wait.
    WaitBound wait_bound: Duration = secs(14_400), require_nonzero, Project;
    /// Longest time for which an ended task is kept.
    RetentionAge retention_age: Duration = secs(7 * 24 * 60 * 60), accept_any, UserOnly;
    /// Maximum number of ended tasks that are kept.
    RetentionTasks retention_tasks: u32 = 1_000, accept_any, UserOnly;
    /// Maximum disk space for all ended tasks.
    RetentionBytes retention_bytes: Bytes = Bytes::gib(2), accept_any, UserOnly;
    /// Whether `siding notices --notify` shows desktop notifications.
    NotifyDesktop notify_desktop: bool = false, accept_any, Project;
    /// Whether `siding notices --notify` rings the terminal's bell.
    NotifyBell notify_bell: bool = false, accept_any, Project;
    /// Socket files that are removed when no process holds them: paths that may have `*` and `?` in
    /// the last component.
    ReapSockets reap_sockets: Vec<SocketPattern> = SocketPattern::built_in(), accept_any, UserOnly;
    /// Rules for leftover processes of other programs, for `siding reap --foreign`.
    ReapForeign reap_foreign: Vec<OrphanRule> = OrphanRule::built_in(), accept_any, UserOnly;
    /// Action of session starts and the timer on processes that the built-in rules match: `off`,
    /// `report` or `end`. The built-in `end` only reports the first time.
    ForeignReap foreign_reap: UnownedReapMode = UnownedReapMode::End, accept_any, UserOnly;
    /// Address to which `siding notices --notify` sends notices, or `off`.
    NotifyWebhook notify_webhook: Webhook = Webhook::OFF, accept_any, UserOnly;
    // The report would reveal commands of other projects to the agent of this one.
    /// Whether the first start of a session or prompt each day shows the summary of `siding report`.
    ReportDaily report_daily: bool = false, accept_any, UserOnly;
    // Other users may be permitted to read the journal.
    /// Whether starts, stops and ends of tasks, and reaped processes, are sent to the journal of
    /// systemd.
    LogJournald log_journald: bool = false, accept_any, UserOnly;
}

impl Key {
    /// Returns the key with this name in settings files.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }

    /// Returns the key with the most similar name; `None` if no name is similar.
    #[must_use]
    pub fn nearest(name: &str) -> Option<Self> {
        nearest_key(name)
    }

    /// Formats a value of the key for a person: a zero that switches the setting off is shown as
    /// `no limit` or `off`.
    #[must_use]
    pub fn format_value(self, value: &RawValue) -> String {
        let text = value.to_string();
        let is_zero = ["0", "0s", "0B", "0B/s"].contains(&text.as_str());
        match self.zero_meaning().filter(|_| is_zero) {
            Some(meaning) => meaning.to_owned(),
            None => text,
        }
    }

    /// Returns the meaning of zero for a key that zero switches off; `None` for any other key.
    fn zero_meaning(self) -> Option<&'static str> {
        const NO_LIMIT: [Key; 8] = [
            Key::MaxMemory,
            Key::MinAvailable,
            Key::MaxProcesses,
            Key::MaxFds,
            Key::MaxCpuSpin,
            Key::MaxConnectionAge,
            Key::MaxSent,
            Key::MaxOutputRate,
        ];
        const OFF: [Key; 6] = [
            Key::StallAfter,
            Key::DeadlineNotice,
            Key::WatchCpuSpin,
            Key::WatchFds,
            Key::WatchConnectionAge,
            Key::WatchSent,
        ];
        if NO_LIMIT.contains(&self) {
            Some("no limit")
        } else {
            OFF.contains(&self).then_some("off")
        }
    }

    /// Prefix of the environment variables that set a setting.
    pub const VARIABLE_PREFIX: &str = "SIDING_";

    /// Returns the environment variable of the setting, such as `SIDING_KILL_GRACE`.
    #[must_use]
    pub fn env_var(self) -> String {
        format!("{}{}", Self::VARIABLE_PREFIX, self.name().to_ascii_uppercase())
    }

    /// Returns the setting that an unknown environment variable was most likely meant to set.
    /// Returns `None` when no setting has a similar name, because siding may read the variable for
    /// another purpose.
    #[must_use]
    pub fn suggest_for_variable(variable: &str) -> Option<Self> {
        let name = variable.strip_prefix(Self::VARIABLE_PREFIX)?;
        nearest_key(name).filter(|key| key.env_var() != variable)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Layer {
    /// Sets a value by the name of its key.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidSetting::UnknownKey`] when there is no such key, and
    /// [`InvalidSetting::Value`] under the conditions of [`Self::set`].
    pub fn set_by_name(
        &mut self,
        name: &str,
        raw: &RawValue,
        place: SettingSource,
    ) -> Result<(), InvalidSetting> {
        let Some(key) = Key::from_name(name) else {
            return Err(InvalidSetting::UnknownKey {
                place,
                name: printable(name),
                nearest: nearest_key(name),
            });
        };
        self.set(key, raw, place)
    }

    /// Locks a key by its name, so that no higher layer can change the key's value.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidSetting::LockNotAllowed`] unless the source is the system file, and
    /// [`InvalidSetting::UnknownKey`] when there is no such key.
    pub fn lock(&mut self, name: &str, place: SettingSource) -> Result<(), InvalidSetting> {
        if !matches!(place.origin, Origin::System { .. }) {
            return Err(InvalidSetting::LockNotAllowed { place });
        }
        let Some(key) = Key::from_name(name) else {
            return Err(InvalidSetting::UnknownKey {
                place,
                name: printable(name),
                nearest: nearest_key(name),
            });
        };
        self.locks.push(KeyLock { key, locked_by: place.origin });
        Ok(())
    }
}

fn read<V: Value>(
    raw: &RawValue,
    check: fn(&V) -> Result<(), &'static str>,
) -> Result<V, ValueError> {
    let value = V::read(raw)?;
    check(&value).map_err(|allowed| ValueError::NotAllowed {
        found: printable(&raw.to_string()),
        allowed,
    })?;
    Ok(value)
}
