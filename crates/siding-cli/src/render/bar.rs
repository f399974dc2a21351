//! Draws progress as a bar, and past durations with block characters.

pub(super) use siding_model::advice::{format_progress, progress_bar};

/// Draws one bar for each number, the tallest for the largest: `▂▃▁█`.
pub(crate) fn sparkline(numbers: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = numbers.iter().copied().max().unwrap_or(0).max(1);
    let level = |number: &u64| {
        let level = u128::from(*number) * (LEVELS.len() as u128 - 1) / u128::from(most);
        LEVELS[usize::try_from(level).unwrap_or(0).min(LEVELS.len() - 1)]
    };
    numbers.iter().map(level).collect()
}

#[cfg(test)]
mod tests {
    use siding_model::task_view::TaskView;

    use super::super::sample::running_task;
    use super::*;

    #[test]
    fn a_bar_fills_with_progress() {
        let bars = [0, 49, 50, 99, 100, 101].map(|done| progress_bar(done, 100, 4));
        assert_eq!(bars, ["[----]", "[#---]", "[##--]", "[###-]", "[####]", "[###+]"]);
        assert_eq!(progress_bar(0, 0, 4), "[----]");
        assert_eq!(progress_bar(u64::MAX, u64::MAX, 4), "[####]");
    }

    #[test]
    fn progress_is_shown_only_with_a_usual_duration() {
        let mut view = TaskView { elapsed_ms: 120_000, ..running_task() };
        assert_eq!(format_progress(&view), None);
        view.expected_ms = Some(250_000);
        view.expected_p90_ms = Some(310_000);
        assert_eq!(format_progress(&view).as_deref(), Some("4m 10s, 2m in [####------]"));
        view.elapsed_ms = 400_000;
        assert_eq!(
            format_progress(&view).as_deref(),
            Some("4m 10s, 6m 40s in, longer than nine of ten runs [#########+]")
        );
    }

    #[test]
    fn a_sparkline_has_one_column_per_number() {
        assert_eq!(sparkline(&[0, 1, 4, 7]), "▁▂▅█");
        assert_eq!(sparkline(&[5, 5]), "██");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[u64::MAX, 1]), "█▁");
        assert_eq!(sparkline(&[]), "");
    }
}
