//! Decides whether a command starts in the background.

use std::time::Duration;

use super::expectation::Expectation;
use super::known_slow::{SimpleCommand, known_slow_words};
use super::quantile::Quantile;
use crate::duration::format_duration;
use crate::outcome::BackgroundReason;

/// The placement that a caller requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlacementRequest {
    /// In the background, from the start.
    Background,
    /// In the foreground until the command ends.
    Foreground,
    /// No request: the command's history decides, or the list of slow commands if the history does
    /// not suffice.
    Unspecified,
}

/// The reason for starting a command in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AutoBackground {
    /// The caller requested the background.
    Requested,
    /// The command usually takes longer than the caller would wait.
    Known(Expectation),
    /// The command is in the built-in list of slow commands; the text holds the words that matched.
    Heuristic(String),
}

impl AutoBackground {
    /// Returns the reason in the form that the journal records.
    #[must_use]
    pub const fn background_reason(&self) -> BackgroundReason {
        match self {
            Self::Requested => BackgroundReason::Asked,
            Self::Known(_) => BackgroundReason::Known,
            Self::Heuristic(_) => BackgroundReason::Heuristic,
        }
    }

    /// Returns the explanation for a caller that did not request the background, otherwise `None`.
    #[must_use]
    pub fn explanation(&self, budget: Duration) -> Option<String> {
        let budget = format_duration(budget);
        match self {
            Self::Requested => None,
            Self::Known(Expectation { runs, median, .. }) => {
                let (over, ms) = match median {
                    Quantile::Exact(ms) => ("", ms),
                    Quantile::MoreThan(ms) => ("over ", ms),
                };
                let usual = format_duration(Duration::from_millis(*ms));
                Some(format!(
                    "in the background immediately: it usually takes {over}{usual} (median of {runs} \
                     runs), longer than the budget of {budget}"
                ))
            }
            Self::Heuristic(words) => Some(format!(
                "in the background immediately: `{words}` often takes longer than the budget of \
                 {budget}"
            )),
        }
    }
}

/// Decides whether a command starts in the background; `None` means that its caller waits for it.
///
/// The caller's request has precedence. Without a request `known` is called: a median above
/// `budget` starts the command in the background, and a median within `budget` keeps it in the
/// foreground. Without an expectation, or if only a lower bound of the median is known and this
/// bound is below `budget`, the built-in list of slow commands decides.
pub fn decide_auto_background(
    request: PlacementRequest,
    budget: Duration,
    known: impl FnOnce() -> Option<Expectation>,
    commands: &[SimpleCommand],
) -> Option<AutoBackground> {
    match request {
        PlacementRequest::Background => return Some(AutoBackground::Requested),
        PlacementRequest::Foreground => return None,
        PlacementRequest::Unspecified => {}
    }
    let budget_ms = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
    match known() {
        Some(known) if known.median.exceeds_ms(budget_ms) => Some(AutoBackground::Known(known)),
        // Too many runs were cut short before the budget had passed, so they do not show whether
        // the budget suffices.
        Some(Expectation { median: Quantile::MoreThan(_), .. }) | None => {
            known_slow_words(commands).map(AutoBackground::Heuristic)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_secs(15);

    fn expectation(median: Quantile) -> Expectation {
        Expectation { runs: 4, median, p90: median }
    }

    fn make_command() -> Vec<SimpleCommand> {
        vec![SimpleCommand { words: vec![Some("make".to_owned())] }]
    }

    #[test]
    fn an_explicit_request_takes_precedence() {
        let slow = || Some(expectation(Quantile::Exact(60_000)));
        let quick = || Some(expectation(Quantile::Exact(1)));
        assert_eq!(
            decide_auto_background(PlacementRequest::Background, BUDGET, quick, &[]),
            Some(AutoBackground::Requested)
        );
        assert_eq!(
            decide_auto_background(PlacementRequest::Foreground, BUDGET, slow, &make_command()),
            None
        );
        let unasked = || -> Option<Expectation> { panic!("the history is not needed") };
        assert_eq!(
            decide_auto_background(PlacementRequest::Foreground, BUDGET, unasked, &make_command()),
            None
        );
    }

    #[test]
    fn history_takes_precedence_over_the_command_words() {
        let decide = |median| {
            decide_auto_background(
                PlacementRequest::Unspecified,
                BUDGET,
                || Some(expectation(median)),
                &make_command(),
            )
        };
        let why = |found: Option<AutoBackground>| found.map(|found| found.background_reason());
        assert_eq!(why(decide(Quantile::Exact(15_001))), Some(BackgroundReason::Known));
        assert_eq!(why(decide(Quantile::Exact(15_000))), None);
        assert_eq!(why(decide(Quantile::MoreThan(15_000))), Some(BackgroundReason::Known));
        // These runs were stopped after ten seconds, within the budget, so the list of slow
        // commands decides.
        assert_eq!(why(decide(Quantile::MoreThan(10_000))), Some(BackgroundReason::Heuristic));
        let found =
            decide_auto_background(PlacementRequest::Unspecified, BUDGET, || None, &make_command());
        assert_eq!(found, Some(AutoBackground::Heuristic("make".to_owned())));
        assert_eq!(
            decide_auto_background(PlacementRequest::Unspecified, BUDGET, || None, &[]),
            None
        );
    }

    #[test]
    fn an_unrequested_background_start_is_explained() {
        let explanation = |found: AutoBackground| found.explanation(BUDGET);
        assert_eq!(explanation(AutoBackground::Requested), None);
        assert_eq!(
            explanation(AutoBackground::Known(expectation(Quantile::Exact(250_000)))).as_deref(),
            Some(
                "in the background immediately: it usually takes 4m 10s (median of 4 runs), longer \
                 than the budget of 15s"
            )
        );
        assert!(
            explanation(AutoBackground::Known(expectation(Quantile::MoreThan(1_800_000))))
                .is_some_and(|text| text.contains("usually takes over 30m (median"))
        );
        assert_eq!(
            explanation(AutoBackground::Heuristic("cargo build".to_owned())).as_deref(),
            Some(
                "in the background immediately: `cargo build` often takes longer than the budget of \
                 15s"
            )
        );
    }
}
