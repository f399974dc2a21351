//! Times in the time zone of a person.

use siding_core::sys::clock;
use siding_model::process::UnixMs;

use crate::caller;

/// Length of a time such as `2025-11-21T22:41:12`.
const SECONDS_LEN: usize = 19;

/// The time zone in which times are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeZone {
    /// UTC, as in JSON: `2025-11-21T22:41:12.345Z`.
    Utc,
    /// The zone of the person at the terminal: `2025-11-21 23:41:12 +01:00`.
    Local,
}

impl TimeZone {
    /// Returns the zone for standard output: a person reads local times.
    pub(crate) fn for_stdout() -> Self {
        if caller::is_person_at_stdout() { Self::Local } else { Self::Utc }
    }

    /// Formats a time that is given in UTC. A text that is not such a time is returned unchanged.
    pub(crate) fn format(self, utc: &str) -> String {
        match (self, UnixMs::from_rfc3339(utc)) {
            (Self::Local, Some(moment)) => clock::format_local_time(moment),
            (Self::Local, None) | (Self::Utc, _) => utc.to_owned(),
        }
    }

    /// Formats a time as [`Self::format`] does, to the second and without its zone.
    pub(crate) fn format_seconds(self, utc: &str) -> String {
        let time = self.format(utc);
        time.get(..SECONDS_LEN).unwrap_or(&time).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: &str = "2025-11-21T22:41:12.345Z";

    #[test]
    fn utc_is_printed_as_in_json() {
        assert_eq!(TimeZone::Utc.format(UTC), UTC);
        assert_eq!(TimeZone::Utc.format_seconds(UTC), "2025-11-21T22:41:12");
        assert_eq!(TimeZone::Local.format("soon"), "soon");
        assert_eq!(TimeZone::Local.format_seconds(UTC).len(), SECONDS_LEN);
    }
}
