//! The failure classes that siding watches for, and the settings that arm their detectors.
//!
//! The classes are those of the incident that led to siding (anthropics/claude-code#51932). The
//! settings alone determine which detectors are armed.

use crate::limits::OnLimit;
use crate::net::NetPolicy;
use crate::settings::{Key, Settings};

/// A class of failure, and whether its detector is armed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureClass {
    /// Name of the class, such as `descriptor leak`.
    pub class: &'static str,
    /// The facts that reveal the failure.
    pub detector: &'static str,
    /// Whether the detector is armed with these settings.
    pub armed: bool,
    /// The action when the detector fires, such as `notice`, `stop` or `deny`.
    pub action: &'static str,
    /// The settings that arm the detector.
    pub settings: Vec<ArmingSetting>,
}

/// A setting that arms a detector.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmingSetting {
    /// Name of the setting in a settings file.
    pub key: &'static str,
    /// Value of the setting, in the syntax of a settings file.
    pub value: String,
    /// The settings layer that set the value.
    pub origin: &'static str,
}

/// Returns all failure classes: first those of the guard, the network policy and the deadline, then
/// those of resources.
#[must_use]
pub fn failure_classes(settings: &Settings) -> Vec<FailureClass> {
    let mut classes = launch_time_classes(settings);
    classes.extend(runtime_classes(settings));
    classes
}

/// Returns the classes of the guard, the network policy and the deadline, which apply from the
/// start of a command.
fn launch_time_classes(settings: &Settings) -> Vec<FailureClass> {
    let row = |class, detector, armed, action, keys: &[Key]| {
        let settings = arming_settings(settings, keys);
        FailureClass { class, detector, armed, action, settings }
    };
    vec![
        row("explicit destruction", "guard, on the parsed command", true, "deny", &[]),
        row("privileged bypass", "guard, on the parsed command", true, "ask", &[]),
        row(
            "unauthorized egress",
            "network policy, enforced by the kernel",
            settings.net != NetPolicy::Unrestricted,
            "deny",
            &[Key::Net],
        ),
        row(
            "silent stuck process",
            "deadline, and evidence of a stall",
            true,
            if settings.stall_after.is_zero() {
                "stop at the deadline"
            } else {
                "stop at the deadline, notice of a stall"
            },
            &[Key::MaxElapsed, Key::StallAfter],
        ),
    ]
}

/// Returns the classes of resources: those that a running task uses, and the socket files that
/// ended processes left.
fn runtime_classes(settings: &Settings) -> Vec<FailureClass> {
    let (limits, watch) = (settings.limits(), settings.watchdog_thresholds());
    let watched = |class, detector, is_limited: bool, is_watched: bool, keys: &[Key]| {
        let ends = is_limited && limits.on_limit == OnLimit::Stop;
        FailureClass {
            class,
            detector,
            armed: is_limited || is_watched,
            action: if ends { "stop" } else { "notice" },
            settings: arming_settings(settings, keys),
        }
    };
    vec![
        watched(
            "busy loop without output",
            "processor time grows, output does not",
            limits.cpu_spin_ms > 0,
            watch.cpu_spin_ms > 0,
            &[Key::WatchCpuSpin, Key::MaxCpuSpin],
        ),
        watched(
            "descriptor leak",
            "open descriptors of the tree",
            limits.fds > 0,
            watch.fds > 0,
            &[Key::WatchFds, Key::MaxFds],
        ),
        FailureClass {
            class: "socket-file accumulation",
            detector: "socket files that no process holds",
            armed: !settings.reap_sockets.is_empty(),
            action: "reap at session start",
            settings: arming_settings(settings, &[Key::ReapSockets]),
        },
        watched(
            "exfiltration in the background",
            "age of a connection that sends, bytes sent to each remote",
            limits.needs_connections(),
            watch.connection_age_ms > 0 || watch.sent > 0,
            &[Key::WatchConnectionAge, Key::WatchSent, Key::MaxConnectionAge, Key::MaxSent],
        ),
        watched(
            "memory",
            "memory of the tree, and what the machine has left",
            limits.memory > 0 || limits.min_available > 0,
            false,
            &[Key::MaxMemory, Key::MinAvailable],
        ),
        watched(
            "process count",
            "living processes of the tree",
            limits.processes > 0,
            false,
            &[Key::MaxProcesses],
        ),
        FailureClass {
            class: "disk",
            detector: "output kept",
            armed: true,
            action: "release the middle of the output",
            settings: arming_settings(settings, &[Key::OutputKeepHead, Key::OutputKeepTail]),
        },
    ]
}

fn arming_settings(settings: &Settings, keys: &[Key]) -> Vec<ArmingSetting> {
    let one = |key: &Key| ArmingSetting {
        key: key.name(),
        value: settings.value(*key).to_string(),
        origin: settings.origin(*key).layer(),
    };
    keys.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::size::Bytes;

    fn settings_with(change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::default();
        change(&mut settings);
        settings
    }

    fn disarmed_classes(settings: &Settings) -> Vec<&'static str> {
        let classes = failure_classes(settings);
        classes.iter().filter(|one| !one.armed).map(|one| one.class).collect()
    }

    #[test]
    fn detectors_without_a_required_user_value_are_armed_by_default() {
        let settings = Settings::default();
        assert_eq!(disarmed_classes(&settings), ["unauthorized egress", "memory", "process count"]);
        let no_watchdogs = settings_with(|settings| {
            settings.watch_cpu_spin = Duration::ZERO;
            settings.watch_fds = 0;
            settings.watch_connection_age = Duration::ZERO;
        });
        let watchdogs = ["busy loop without output", "descriptor leak"];
        let none = disarmed_classes(&no_watchdogs);
        assert!(watchdogs.iter().all(|class| none.contains(class)), "{none:?}");
        assert!(!none.contains(&"exfiltration in the background"), "sent bytes are still counted");
    }

    #[test]
    fn a_class_with_a_limit_states_the_limit_action() {
        let settings = settings_with(|settings| {
            settings.max_sent = Bytes::gib(2);
            settings.on_limit = OnLimit::Stop;
        });
        let actions: Vec<_> = failure_classes(&settings)
            .into_iter()
            .filter(|one| one.action == "stop")
            .map(|one| one.class)
            .collect();
        assert_eq!(actions, ["exfiltration in the background"]);
    }
}
