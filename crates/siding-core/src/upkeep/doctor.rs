//! Checks the features of this machine, and names the guarantee that is weaker if a feature is
//! missing.
//!
//! Instead of comparing versions, a check uses the feature itself where that is harmless. For
//! example, checks lock a directory, connect a socket and punch a hole in a file.

mod kernel;
mod limits;
mod net;
mod state_dir;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;

/// The result of checking one feature of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// The name of the feature, such as `pidfd_open` or `free space`.
    pub name: &'static str,
    /// Whether the feature works on this machine.
    pub state: CheckState,
    /// Whether all of siding, a guarantee, or no promise depends on the feature.
    pub weight: CheckWeight,
    /// The result of the check, as text for a person.
    pub found: String,
    /// The consequence if the feature is missing, such as a weaker guarantee.
    pub missing_guarantee: &'static str,
}

/// Whether a feature works on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// The feature works without restriction.
    Ok,
    /// The feature is present, but restricted.
    Limited,
    /// The feature is missing, or using it failed.
    Missing,
}

impl CheckState {
    /// Returns the state as one word, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }

    /// Returns [`CheckState::Ok`] if the feature is present, otherwise [`CheckState::Missing`].
    const fn from_presence(there: bool) -> Self {
        if there { Self::Ok } else { Self::Missing }
    }
}

/// The extent to which siding depends on a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckWeight {
    /// siding cannot work without the feature.
    Needed,
    /// A guarantee is weaker without the feature.
    Guarantee,
    /// No promise of siding depends on the feature.
    Comfort,
}

/// Whether siding works on this machine, and keeps all of its guarantees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DoctorVerdict {
    /// Every guarantee holds.
    Whole,
    /// siding works, but a guarantee is weaker.
    Weaker,
    /// siding cannot work.
    Broken,
}

/// Checks this machine, the state directory `state`, which is created if it is missing, and the
/// shell that runs commands.
#[must_use]
pub fn run_checks(state: Option<&Path>, shell: &str) -> Vec<Check> {
    let mut checks = kernel::checks();
    checks.push(kernel::shell(shell));
    checks.extend(limits::checks());
    checks.extend(net::checks());
    checks.extend(state_dir::checks(state));
    checks
}

/// Returns the overall result of the checks.
#[must_use]
pub fn verdict(checks: &[Check]) -> DoctorVerdict {
    let bad =
        |check: &&Check| check.state != CheckState::Ok && check.weight != CheckWeight::Comfort;
    if checks
        .iter()
        .any(|check| (check.weight, check.state) == (CheckWeight::Needed, CheckState::Missing))
    {
        DoctorVerdict::Broken
    } else if checks.iter().any(|check| bad(&check)) {
        DoctorVerdict::Weaker
    } else {
        DoctorVerdict::Whole
    }
}

/// Returns the number in a file of the kernel, or `None` if the file is unreadable or contains no
/// number.
fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
