//! The distribution of the durations of a command, as a drawing.

use maud::{Markup, html};

use super::format;

/// Width of the drawing, in units of its coordinates. The style sheet gives it at most 420 pixels, so
/// that its labels have nearly one size on wide and narrow pages.
const WIDTH: u64 = 400;
/// Size of the labels, in units.
const LABEL_SIZE: u64 = 13;
/// Top of the highest bar, below the labels of the lines.
const BARS_TOP: u64 = 50;
/// Bottom of the bars, above the labels of the axis.
const BARS_BOTTOM: u64 = 120;
const HEIGHT: u64 = 138;
/// Number of bars, each for an equal range of durations.
const BAR_COUNT: u64 = 40;
/// Distance between the baselines of the labels of two lines.
const LABEL_STEP: u64 = 15;

/// The duration of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunPoint {
    /// The duration, in milliseconds.
    pub(super) ms: u64,
    /// Whether the run failed.
    pub(super) is_failed: bool,
}

/// A duration that the drawing marks with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkedDuration {
    /// The name of the line.
    pub(super) label: &'static str,
    /// The duration, in milliseconds.
    pub(super) ms: u64,
}

/// The number of runs in one range of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct BarCounts {
    failed: u64,
    other: u64,
}

/// Draws the runs as bars and the marked durations as lines. The text next to the drawing has the
/// same numbers.
pub(super) fn distribution(runs: &[RunPoint], marks: &[MarkedDuration]) -> Markup {
    let durations = runs.iter().map(|run| run.ms).chain(marks.iter().map(|mark| mark.ms));
    let longest = durations.max().unwrap_or(0).max(1);
    let bars = count_bars(runs, longest);
    let highest = bars.iter().map(|bar| bar.failed + bar.other).max().unwrap_or(0).max(1);
    let width = WIDTH / BAR_COUNT;
    let longest_text = format::duration_ms(longest);
    html! {
        svg.distribution viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } font-size=(LABEL_SIZE) role="img"
            aria-label={ "Durations of " (runs.len()) " runs, up to " (longest_text) } {
            @for (x, bar) in (0..).map(|at| at * width).zip(&bars) {
                @let failed = scale(bar.failed, highest, BARS_BOTTOM - BARS_TOP);
                @let other = scale(bar.other, highest, BARS_BOTTOM - BARS_TOP);
                @if other > 0 {
                    rect x=(x) y=(BARS_BOTTOM - other) width=(width - 1) height=(other) {}
                }
                @if failed > 0 {
                    rect.failed x=(x) y=(BARS_BOTTOM - other - failed) width=(width - 1)
                        height=(failed) {}
                }
            }
            line.axis x1="0" y1=(BARS_BOTTOM) x2=(WIDTH) y2=(BARS_BOTTOM) {}
            text x="0" y=(HEIGHT - 2) { "0" }
            text x=(WIDTH) y=(HEIGHT - 2) text-anchor="end" { (longest_text) }
            @for (y, mark) in (1..).map(|at| at * LABEL_STEP).zip(marks) {
                @let x = scale(mark.ms, longest, WIDTH);
                @let is_left = x < WIDTH / 2;
                line.mark x1=(x) y1=(y) x2=(x) y2=(BARS_BOTTOM) {}
                text x=(if is_left { x + 4 } else { x - 4 }) y=(y)
                    text-anchor=(if is_left { "start" } else { "end" }) {
                    (mark.label) " " (format::duration_ms(mark.ms))
                }
            }
        }
    }
}

fn count_bars(runs: &[RunPoint], longest_ms: u64) -> Vec<BarCounts> {
    let mut bars = vec![BarCounts::default(); usize::try_from(BAR_COUNT).unwrap_or(0)];
    for run in runs {
        let at = scale(run.ms, longest_ms, BAR_COUNT).min(BAR_COUNT - 1);
        let Some(bar) = usize::try_from(at).ok().and_then(|at| bars.get_mut(at)) else { continue };
        if run.is_failed { bar.failed += 1 } else { bar.other += 1 }
    }
    bars
}

/// Returns the share of `value` in `whole` as a part of `size`, at most `size`.
fn scale(value: u64, whole: u64, size: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(size) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(size).min(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ms: u64, is_failed: bool) -> RunPoint {
        RunPoint { ms, is_failed }
    }

    #[test]
    fn runs_are_counted_by_duration_and_result() {
        let bars = count_bars(&[run(0, false), run(1, true), run(1_000, false)], 1_000);
        assert_eq!(bars[0], BarCounts { failed: 1, other: 1 });
        assert_eq!(bars[bars.len() - 1], BarCounts { failed: 0, other: 1 });
        assert_eq!(bars.iter().map(|bar| bar.failed + bar.other).sum::<u64>(), 3);
    }

    /// The drawing has a width of 340 pixels on a page of 360.
    #[test]
    fn labels_have_eleven_pixels_on_a_narrow_page() {
        const { assert!(LABEL_SIZE * 340 >= 11 * WIDTH) };
        let drawing = distribution(&[run(1, false)], &[]).into_string();
        assert!(drawing.contains("font-size=\"13\""), "{drawing}");
    }

    #[test]
    fn extreme_durations_stay_inside_of_the_drawing() {
        assert_eq!(scale(u64::MAX, u64::MAX, WIDTH), WIDTH);
        assert_eq!((scale(0, 0, WIDTH), scale(5, 0, WIDTH)), (0, WIDTH));
        let marks = [
            MarkedDuration { label: "median", ms: 0 },
            MarkedDuration { label: "this run", ms: u64::MAX },
        ];
        let drawing = distribution(&[run(u64::MAX, true)], &marks).into_string();
        assert!(drawing.contains("median 0s") && drawing.contains("x1=\"400\""), "{drawing}");
        let empty = distribution(&[], &[]).into_string();
        assert!(empty.contains("Durations of 0 runs"), "{empty}");
    }
}
