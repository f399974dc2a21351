//! Formats durations for people.

use std::time::Duration;

/// Formats a duration: `0.4 s` below a minute, `3 min 05 s` otherwise.
pub(crate) fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        return format!("{:.1} s", duration.as_secs_f64());
    }
    format!("{} min {:02} s", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_in_seconds_or_minutes() {
        assert_eq!(format_duration(Duration::from_millis(440)), "0.4 s");
        assert_eq!(format_duration(Duration::from_millis(59_900)), "59.9 s");
        assert_eq!(format_duration(Duration::from_secs(185)), "3 min 05 s");
    }
}
