//! Checks which network policies can be enforced on this machine.

use super::{Check, CheckState, CheckWeight};
use crate::net::policy;

/// Checks each restrictive policy by applying it to a process that exits immediately.
pub(super) fn checks() -> Vec<Check> {
    policy::SAMPLE_POLICIES.into_iter().skip(1).map(policy).collect()
}

fn policy((name, sample): (&'static str, &'static str)) -> Check {
    let works = sample.parse().map(|policy| policy::check_enforceable(&policy));
    let (state, found) = match works {
        Ok(Ok(())) => (CheckState::Ok, "works".to_owned()),
        Ok(Err(refused)) => {
            let obstacle =
                refused.kernel_obstacle().map_or_else(String::new, |why| format!("; {why}"));
            (CheckState::Missing, format!("{}{obstacle}", refused.source))
        }
        Err(error) => (CheckState::Missing, error.to_string()),
    };
    Check {
        name,
        state,
        weight: CheckWeight::Comfort,
        found,
        missing_guarantee: "a command with this policy is refused",
    }
}
