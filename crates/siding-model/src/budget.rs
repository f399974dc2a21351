//! The blocking budget: how long a caller waits for a command (promises P13 and P16).
//!
//! The command line, the tools of the MCP server and of siding's own agent, and the hooks of a host
//! all call [`BudgetPolicy::decide`]. A call that specifies a wait gets this wait. Any other call
//! gets the budget when assistant mode is on (or `auto`, and no person at a terminal calls),
//! background tasks are enabled, and the caller is not a subagent; otherwise the caller waits until
//! the command ends.

use std::time::Duration;

use crate::settings::{AssistantMode, Key, Origin, Settings};

/// The settings that determine whether a caller waits for a budget, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetPolicy {
    /// Time after which a caller with a budget stops waiting, and the command continues in the
    /// background.
    pub budget: Duration,
    /// Whether calls without a specified wait get the budget: all, none, or all except those of a
    /// person at a terminal.
    pub assistant_mode: AssistantMode,
    /// Whether commands may go to the background.
    pub background_tasks: bool,
}

/// The properties of a call that affect its budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetCall {
    /// The wait that the call specifies, which has precedence over the policy.
    pub request: WaitRequest,
    /// Whether the caller is a subagent. A subagent gets no budget unless the call specifies one:
    /// it ends with its answer, so the notice about a command in the background could not reach it.
    pub is_subagent: bool,
    /// Whether a person at a terminal calls. With `assistant_mode = "auto"`, such a call gets no
    /// budget unless it specifies one.
    pub is_person: bool,
}

/// The wait that a call specifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitRequest {
    /// The call specifies no wait; the policy decides.
    Unspecified,
    /// The call asks to start the command in the background.
    Background,
    /// The call specifies a budget. The value is in [`BudgetPolicy::budget`], because the arguments
    /// of a call are the topmost layer of the settings.
    Budget,
    /// The call asks to wait for the end, however long that takes.
    UntilEnd,
}

/// How long a caller waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerWait {
    /// Until the command has started. The command then runs in the background.
    UntilStart,
    /// For at most this duration. The command then continues in the background.
    For(Duration),
    /// Until the command ends.
    UntilEnd,
}

/// How long a background start waits for an early failure if its caller expects a prompt answer,
/// but not an immediate one: a model that calls a tool, or a person (promise P10).
pub const EARLY_FAILURE_WAIT: Duration = Duration::from_millis(200);

impl Settings {
    /// Returns how long a background start by a person waits for an early end:
    /// [`EARLY_FAILURE_WAIT`] unless a source sets `settle`.
    #[must_use]
    pub fn person_settle(&self) -> Duration {
        let is_unset = *self.origin(Key::Settle) == Origin::BuiltIn;
        if is_unset { EARLY_FAILURE_WAIT } else { self.settle }
    }

    /// Returns the settings that determine budgets.
    #[must_use]
    pub const fn budget_policy(&self) -> BudgetPolicy {
        BudgetPolicy {
            budget: self.blocking_budget,
            assistant_mode: self.assistant_mode,
            background_tasks: self.background_tasks,
        }
    }
}

impl BudgetPolicy {
    /// Decides how long a caller waits.
    #[must_use]
    pub const fn decide(self, call: BudgetCall) -> CallerWait {
        match call.request {
            WaitRequest::Background => return CallerWait::UntilStart,
            WaitRequest::Budget => return CallerWait::For(self.budget),
            WaitRequest::UntilEnd => return CallerWait::UntilEnd,
            WaitRequest::Unspecified => {}
        }
        let is_assisted = match self.assistant_mode {
            AssistantMode::On => true,
            AssistantMode::Off => false,
            AssistantMode::Auto => !call.is_person,
        };
        if is_assisted && self.background_tasks && !call.is_subagent {
            CallerWait::For(self.budget)
        } else {
            CallerWait::UntilEnd
        }
    }
}

impl CallerWait {
    /// Returns the length of a wait that is limited by a budget, otherwise `None`.
    #[must_use]
    pub const fn budget(self) -> Option<Duration> {
        match self {
            Self::For(budget) => Some(budget),
            Self::UntilStart | Self::UntilEnd => None,
        }
    }
}

/// A shell call of a host. When the timeout of the call expires, the host moves the command to the
/// background, or kills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostCall<'c> {
    /// The command text.
    pub command: &'c str,
    /// The timeout that applies without siding: the call's own, otherwise the host's default.
    pub timeout: Duration,
    /// Whether the call asks for the background.
    pub is_background: bool,
    /// Whether the caller is a subagent of the host.
    pub is_subagent: bool,
    /// Whether the host can move commands to the background. Any other host kills each command at
    /// its timeout.
    pub can_move: bool,
}

impl BudgetPolicy {
    /// Decides the timeout of a host's shell call; `None` leaves the call as it is.
    ///
    /// A call keeps its timeout if the call gets no budget, or if the timeout does not exceed the
    /// budget. A call whose command the host would kill at the timeout also keeps its timeout,
    /// because a shorter one would shorten the command's life.
    #[must_use]
    pub fn decide_host_timeout(self, call: &HostCall<'_>) -> Option<Duration> {
        if !call.can_move || is_killed_at_timeout(call.command) {
            return None;
        }
        let request = match call.is_background {
            true => WaitRequest::Background,
            false => WaitRequest::Unspecified,
        };
        let budget_call = BudgetCall { request, is_subagent: call.is_subagent, is_person: false };
        self.decide(budget_call).budget().filter(|budget| *budget < call.timeout)
    }
}

/// Returns whether Claude Code kills a command at its timeout instead of moving the command to the
/// background: it kills a command whose first word is `sleep`. White space, comments and continued
/// lines before this word are skipped; `(sleep 9)`, `time sleep 9` and `X=1 sleep 9` are moved
/// (observed with 27 forms in 2.1.330).
fn is_killed_at_timeout(command: &str) -> bool {
    let mut rest = command;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix('#') {
            rest = comment.split_once('\n').map_or("", |(_, next_lines)| next_lines);
        } else if let Some(continued) = rest.strip_prefix("\\\n") {
            rest = continued;
        } else {
            break;
        }
    }
    let word_end = rest.find(|c: char| c.is_whitespace() || ";&|<>()".contains(c));
    word_end.map_or(rest, |end| &rest[..end]) == "sleep"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Layer, RawValue};

    const BUDGET: Duration = Duration::from_secs(15);

    fn policies() -> impl Iterator<Item = BudgetPolicy> {
        [AssistantMode::Auto, AssistantMode::On, AssistantMode::Off].into_iter().flat_map(|mode| {
            [false, true].map(|background_tasks| BudgetPolicy {
                budget: BUDGET,
                assistant_mode: mode,
                background_tasks,
            })
        })
    }

    fn calls(request: WaitRequest) -> impl Iterator<Item = BudgetCall> {
        [false, true].into_iter().flat_map(move |is_subagent| {
            [false, true].map(|is_person| BudgetCall { request, is_subagent, is_person })
        })
    }

    #[test]
    fn an_explicit_wait_applies_under_every_policy() {
        for policy in policies() {
            for (request, wait) in [
                (WaitRequest::Background, CallerWait::UntilStart),
                (WaitRequest::Budget, CallerWait::For(BUDGET)),
                (WaitRequest::UntilEnd, CallerWait::UntilEnd),
            ] {
                for call in calls(request) {
                    assert_eq!(policy.decide(call), wait, "{policy:?} {call:?}");
                }
            }
        }
    }

    #[test]
    fn the_budget_applies_only_when_all_conditions_hold() {
        for policy in policies() {
            for call in calls(WaitRequest::Unspecified) {
                let is_assisted = match policy.assistant_mode {
                    AssistantMode::On => true,
                    AssistantMode::Off => false,
                    AssistantMode::Auto => !call.is_person,
                };
                let applies = is_assisted && policy.background_tasks && !call.is_subagent;
                let budget = policy.decide(call).budget();
                assert_eq!(budget, applies.then_some(BUDGET), "{policy:?} {call:?}");
            }
        }
    }

    #[test]
    fn the_budget_policy_comes_from_the_settings() {
        let policy = Settings::default().budget_policy();
        assert_eq!(policy.budget, BUDGET);
        assert_eq!(policy.assistant_mode, AssistantMode::Auto);
        assert!(policy.background_tasks);
    }

    #[test]
    fn a_person_sees_an_early_failure_unless_settle_is_set() {
        assert_eq!(Settings::default().person_settle(), EARLY_FAILURE_WAIT);
        let mut layer = Layer::default();
        let place = Origin::Call { flag: "--settle".to_owned() }.into();
        layer.set(Key::Settle, &RawValue::Text("0s".to_owned()), place).expect("legal");
        assert_eq!(Settings::merge([layer]).person_settle(), Duration::ZERO);
    }

    const HOST_CALL: HostCall<'static> = HostCall {
        command: "make",
        timeout: Duration::from_secs(120),
        is_background: false,
        is_subagent: false,
        can_move: true,
    };

    #[test]
    fn a_host_call_gets_the_budget_unless_it_is_exempt() {
        let policy = Settings::default().budget_policy();
        assert_eq!(policy.decide_host_timeout(&HOST_CALL), Some(BUDGET));
        for left_alone in [
            HostCall { timeout: BUDGET, ..HOST_CALL },
            HostCall { timeout: Duration::from_secs(3), ..HOST_CALL },
            HostCall { is_background: true, ..HOST_CALL },
            HostCall { is_subagent: true, ..HOST_CALL },
            HostCall { can_move: false, ..HOST_CALL },
            HostCall { command: "sleep 20; make", ..HOST_CALL },
        ] {
            assert_eq!(policy.decide_host_timeout(&left_alone), None, "{left_alone:?}");
        }
        let off = BudgetPolicy { assistant_mode: AssistantMode::Off, ..policy };
        assert_eq!(off.decide_host_timeout(&HOST_CALL), None);
        let disabled = BudgetPolicy { background_tasks: false, ..policy };
        assert_eq!(disabled.decide_host_timeout(&HOST_CALL), None);
    }

    /// The two lists were observed with Claude Code 2.1.330 (docs/claude-code.md).
    #[test]
    fn commands_starting_with_sleep_are_killed_at_their_timeout() {
        for killed in [
            "sleep 8; echo a",
            "  sleep 8",
            "sleep 8 | cat",
            "sleep 8 &\nwait",
            "# c\nsleep 8",
            "\n#c\n\n  # d\n\tsleep 8",
            "sleep 1.5s; make",
            "sleep 8 && echo done",
            "sleep",
            "sleep;make",
            "\\\nsleep 8",
        ] {
            assert!(is_killed_at_timeout(killed), "{killed:?}");
        }
        for moved in [
            "",
            "#sleep 8",
            "(sleep 8); echo a",
            "true; sleep 8",
            "cd /tmp && sleep 8",
            "X=1 sleep 8",
            "command sleep 8",
            "/bin/sleep 8",
            "\\sleep 8",
            "timeout 8 sleep 8",
            "{ sleep 8; }",
            "time sleep 8",
            "! sleep 8",
            "\"sleep\" 8",
            "exec sleep 8",
            "nohup sleep 8",
            "sleepx=1; make",
        ] {
            assert!(!is_killed_at_timeout(moved), "{moved:?}");
        }
    }
}
