//! Which network policies are enforced here.

use super::{Check, State, Weight};
use crate::net;

/// Tries each on a process that ends at once.
pub(super) fn checks() -> Vec<Check> {
    net::EACH.into_iter().skip(1).map(policy).collect()
}

fn policy((name, sample): (&'static str, &'static str)) -> Check {
    let works = sample.parse().map(|policy| net::check(&policy));
    let (state, found) = match works {
        Ok(Ok(())) => (State::Ok, "works".to_owned()),
        Ok(Err(refused)) => {
            let obstacle = refused.obstacle().map_or_else(String::new, |why| format!("; {why}"));
            (State::Missing, format!("{}{obstacle}", refused.source))
        }
        Err(error) => (State::Missing, error.to_string()),
    };
    Check {
        name,
        state,
        weight: Weight::Comfort,
        found,
        without: "a command with this policy is refused",
    }
}
