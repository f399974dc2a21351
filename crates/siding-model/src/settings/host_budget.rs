//! The setting `budget`: the budget for a host's own shell calls.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::value::{RawValue, Value, ValueError, printable};
use crate::duration;

/// The word for [`HostBudget::Off`].
const OFF_WORD: &str = "off";

/// The time for which a host waits for one of its own shell calls before it moves the call to the
/// background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostBudget {
    /// siding does not change the time for which the host waits.
    #[default]
    Off,
    /// The host waits for this duration, which is at least a second.
    After(Duration),
}

impl HostBudget {
    const ALLOWED: &'static str = "`off` or a duration of at least a second, such as `15s`";
    /// Minimum budget. With a shorter one the host would move most commands to the background
    /// before they print anything.
    const MIN_BUDGET: Duration = Duration::from_secs(1);

    /// Returns the budget, or `None` for [`Self::Off`].
    #[must_use]
    pub const fn duration(self) -> Option<Duration> {
        match self {
            Self::Off => None,
            Self::After(budget) => Some(budget),
        }
    }
}

impl FromStr for HostBudget {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        if text == OFF_WORD {
            return Ok(Self::Off);
        }
        let budget = duration::parse(&printable(text))?;
        if budget < Self::MIN_BUDGET {
            return Err(ValueError::NotAllowed { found: printable(text), allowed: Self::ALLOWED });
        }
        Ok(Self::After(budget))
    }
}

impl fmt::Display for HostBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(OFF_WORD),
            Self::After(budget) => f.write_str(&duration::format_duration_exact(*budget)),
        }
    }
}

impl Value for HostBudget {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let text = raw.as_text().ok_or_else(|| ValueError::not_allowed(raw, Self::ALLOWED))?;
        text.parse()
    }

    fn raw(&self) -> RawValue {
        RawValue::Text(self.to_string())
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^ *(off|[0-9].*)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_off_or_at_least_a_second() {
        let read = |text: &str| text.parse::<HostBudget>();
        assert_eq!(read("off"), Ok(HostBudget::Off));
        let budget = HostBudget::After(Duration::from_secs(15));
        assert_eq!(read(" 15s "), Ok(budget));
        assert_eq!(budget.to_string().parse(), Ok(budget));
        for bad in ["", "15", "0s", "999ms", "on", "-1s"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let error = read("0s").expect_err("too short").to_string();
        assert!(error.contains("`off` or a duration"), "{error}");
    }
}
