//! When a step runs, by what became of the steps that it needs.

use std::fmt;

use super::state::StepStatus;

/// What is allowed, for whoever wrote something else.
const ALLOWED_CONDITIONS: &str =
    "write `success()`, `failure()`, `always()`, `success(STEP)` or `failure(STEP)`";

/// When a step runs, once all that it needs is over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// All of it went well.
    #[default]
    Success,
    /// Something of it has failed.
    Failure,
    /// Whatever became of it.
    Always,
    /// These went well, whatever became of the others.
    SuccessOf(NamedSteps),
    /// One of these has failed.
    FailureOf(NamedSteps),
}

/// Steps by a name: one, or all that came of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSteps {
    /// As it was written.
    pub name: String,
    /// Their places among the steps.
    pub steps: Vec<usize>,
}

impl Condition {
    /// Reads what was written. `find` has the steps of a name that may stand there.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is allowed.
    pub(super) fn parse(
        text: &str,
        find: impl Fn(&str) -> Option<Vec<usize>>,
    ) -> Result<Self, String> {
        let unknown = || format!("`if`: `{text}` is no condition; {ALLOWED_CONDITIONS}");
        let (word, rest) = text.trim().split_once('(').ok_or_else(unknown)?;
        let name = rest.strip_suffix(')').ok_or_else(unknown)?.trim();
        if name.is_empty() {
            return match word {
                "success" => Ok(Self::Success),
                "failure" => Ok(Self::Failure),
                "always" => Ok(Self::Always),
                _ => Err(unknown()),
            };
        }
        let named = || {
            let steps = find(name).ok_or_else(|| {
                format!("`if`: `{name}` is none of the steps that it needs; add it to `needs`")
            })?;
            Ok::<_, String>(NamedSteps { name: name.to_owned(), steps })
        };
        match word {
            "success" => Ok(Self::SuccessOf(named()?)),
            "failure" => Ok(Self::FailureOf(named()?)),
            _ => Err(unknown()),
        }
    }

    /// Whether it holds, when all of `needs` are over.
    pub(super) fn is_met(&self, needs: &[usize], states: &[StepStatus]) -> bool {
        let is = |state: StepStatus| move |step: &usize| states[*step] == state;
        match self {
            Self::Success => needs.iter().all(is(StepStatus::Ok)),
            Self::Failure => needs.iter().any(is(StepStatus::Failed)),
            Self::Always => true,
            Self::SuccessOf(named) => named.steps.iter().all(is(StepStatus::Ok)),
            Self::FailureOf(named) => named.steps.iter().any(is(StepStatus::Failed)),
        }
    }

    /// Whether it asks for a step that is there for failures: such a step is neither stopped nor left
    /// out when another one fails.
    #[must_use]
    pub const fn runs_after_failure(&self) -> bool {
        match self {
            Self::Success | Self::SuccessOf(_) => false,
            Self::Failure | Self::Always | Self::FailureOf(_) => true,
        }
    }

    /// Whether it can never hold for a step that needs nothing.
    pub(super) const fn requires_needs(&self) -> bool {
        matches!(self, Self::Failure)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => f.write_str("success()"),
            Self::Failure => f.write_str("failure()"),
            Self::Always => f.write_str("always()"),
            Self::SuccessOf(named) => write!(f, "success({})", named.name),
            Self::FailureOf(named) => write!(f, "failure({})", named.name),
        }
    }
}
