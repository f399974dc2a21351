//! Times in the time zone of a person.

use siding_core::sys::clock;
use siding_model::process::UnixMs;

use crate::caller;

const MINUTE_MS: i64 = 60_000;
/// Length of a time such as `2025-11-21T22:41:12`.
const SECONDS_LEN: usize = 19;

/// The time zone in which times are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeZone {
    /// As in JSON: `2025-11-21T22:41:12.345Z`.
    Utc,
    /// That of a person: `2025-11-21 23:41:12 +01:00`.
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
            (Self::Local, Some(moment)) => {
                format_with_offset(moment, clock::local_offset_ms(moment))
            }
            (Self::Local, None) | (Self::Utc, _) => utc.to_owned(),
        }
    }

    /// Formats a time as [`Self::format`] does, to the second and without its zone.
    pub(crate) fn format_seconds(self, utc: &str) -> String {
        let time = self.format(utc);
        time.get(..SECONDS_LEN).unwrap_or(&time).to_owned()
    }
}

fn format_with_offset(moment: UnixMs, offset_ms: i64) -> String {
    let local = moment.plus_ms(offset_ms).rfc3339().replace('T', " ");
    let seconds = local.get(..SECONDS_LEN).unwrap_or(&local);
    let sign = if offset_ms < 0 { '-' } else { '+' };
    let minutes = offset_ms.unsigned_abs() / MINUTE_MS.unsigned_abs();
    format!("{seconds} {sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: &str = "2025-11-21T22:41:12.345Z";

    #[test]
    fn a_local_time_has_the_offset_of_its_zone() {
        let moment = UnixMs::from_rfc3339(UTC).expect("a time");
        let format = |minutes| format_with_offset(moment, minutes * MINUTE_MS);
        assert_eq!(format(0), "2025-11-21 22:41:12 +00:00");
        assert_eq!(format(120), "2025-11-22 00:41:12 +02:00");
        assert_eq!(format(-330), "2025-11-21 17:11:12 -05:30");
    }

    #[test]
    fn utc_is_printed_as_in_json() {
        assert_eq!(TimeZone::Utc.format(UTC), UTC);
        assert_eq!(TimeZone::Utc.format_seconds(UTC), "2025-11-21T22:41:12");
        assert_eq!(TimeZone::Local.format("soon"), "soon");
        assert_eq!(TimeZone::Local.format_seconds(UTC).len(), SECONDS_LEN);
    }
}
