//! What this machine offers, and which guarantee is weaker without.
//!
//! Every check looks at the thing itself where that is possible without harm: it opens, locks,
//! punches and connects in the state directory instead of asking for a version.

mod kernel;
mod limits;
mod net;
mod state_dir;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub state: CheckState,
    /// How much depends on it.
    pub weight: CheckWeight,
    /// What was found.
    pub found: String,
    /// What is weaker where it is missing.
    pub without: &'static str,
}

/// How a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// There, but not as much of it as there could be.
    Limited,
    /// Not there.
    Missing,
}

impl CheckState {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }

    /// Returns [`CheckState::Ok`] if it is there, else [`CheckState::Omission`].
    const fn from_presence(there: bool) -> Self {
        if there { Self::Ok } else { Self::Missing }
    }
}

/// How much depends on a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CheckWeight {
    /// siding cannot work where it is missing.
    Needed,
    /// A guarantee is weaker without it.
    Guarantee,
    /// Nothing that siding promises rests on it.
    Comfort,
}

/// What all checks come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DoctorVerdict {
    /// Every guarantee holds.
    Whole,
    /// siding works, and a guarantee is weaker.
    Weaker,
    /// siding cannot work.
    Broken,
}

/// Looks at this machine, at the state directory in `state`, which is made if it is missing, and
/// for the shell that runs commands.
#[must_use]
pub fn run_checks(state: Option<&Path>, shell: &str) -> Vec<Check> {
    let mut checks = kernel::checks();
    checks.push(kernel::shell(shell));
    checks.extend(limits::checks());
    checks.extend(net::checks());
    checks.extend(state_dir::checks(state));
    checks
}

/// Returns what checks come to.
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

/// Returns a number in a file of `/proc`, or `None`.
fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
