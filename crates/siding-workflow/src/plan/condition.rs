//! Conditions that decide, from the results of a step's needs, whether the step runs.

use std::fmt;

use crate::step_status::StepStatus;

/// The allowed conditions, for error messages.
const ALLOWED_CONDITIONS: &str =
    "write `success()`, `failure()`, `always()`, `success(STEP)` or `failure(STEP)`";

/// A condition of a step, evaluated when all needs of the step are finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Condition {
    /// All needs succeeded.
    #[default]
    Success,
    /// At least one need failed.
    Failure,
    /// The results of the needs do not matter.
    Always,
    /// All of these steps succeeded; other needs do not matter.
    SuccessOf(NamedSteps),
    /// At least one of these steps failed.
    FailureOf(NamedSteps),
}

/// The steps that a name in a condition denotes: one step, or all combinations of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSteps {
    /// The name, as written in the condition.
    pub name: String,
    /// The indexes of these steps in the plan.
    pub steps: Vec<usize>,
}

impl Condition {
    /// Parses a condition. `find` returns the indexes of the steps with a given name; `None` if
    /// there are none, or if the step's `needs` lack one of them.
    ///
    /// # Errors
    ///
    /// A description of the mistake and of its correction.
    pub(super) fn parse(
        text: &str,
        find: impl Fn(&str) -> Option<Vec<usize>>,
    ) -> Result<Self, String> {
        let unknown = || format!("`if`: `{text}` is not a condition; {ALLOWED_CONDITIONS}");
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
                format!("`if`: `{name}` is not one of its needs; add it to `needs`")
            })?;
            Ok::<_, String>(NamedSteps { name: name.to_owned(), steps })
        };
        match word {
            "success" => Ok(Self::SuccessOf(named()?)),
            "failure" => Ok(Self::FailureOf(named()?)),
            _ => Err(unknown()),
        }
    }

    /// Returns whether the condition is met. All of `needs` must be finished.
    pub(crate) fn is_met(&self, needs: &[usize], states: &[StepStatus]) -> bool {
        let is = |state: StepStatus| move |step: &usize| states[*step] == state;
        match self {
            Self::Success => needs.iter().all(is(StepStatus::Ok)),
            Self::Failure => needs.iter().any(is(StepStatus::Failed)),
            Self::Always => true,
            Self::SuccessOf(named) => named.steps.iter().all(is(StepStatus::Ok)),
            Self::FailureOf(named) => named.steps.iter().any(is(StepStatus::Failed)),
        }
    }

    /// Returns whether a step with this condition handles failures: such a step is neither stopped
    /// nor omitted when another step fails.
    #[must_use]
    pub const fn runs_after_failure(&self) -> bool {
        match self {
            Self::Success | Self::SuccessOf(_) => false,
            Self::Failure | Self::Always | Self::FailureOf(_) => true,
        }
    }

    /// Returns whether the condition can never be met by a step without needs.
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
