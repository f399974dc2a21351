//! Whether a command goes to the background at once.

use std::time::Duration;

use super::expectation::Expectation;
use super::quantile::Quantile;
use super::slow::{SimpleCommand, slow};
use crate::outcome::Why;
use crate::span::human;

/// What the caller said about where to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// In the background.
    Background,
    /// In the foreground, however long it takes.
    Foreground,
    /// Nothing: the command decides.
    Nothing,
}

/// Why a command goes to the background at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtOnce {
    /// The caller asked for it.
    Asked,
    /// It usually takes longer than the caller would wait.
    Known(Expectation),
    /// It is known to everybody to take long; these are the words that tell.
    Heuristic(String),
}

impl AtOnce {
    /// Returns the word for it.
    #[must_use]
    pub const fn why(&self) -> Why {
        match self {
            Self::Asked => Why::Asked,
            Self::Known(_) => Why::Known,
            Self::Heuristic(_) => Why::Heuristic,
        }
    }

    /// Returns what to tell a caller who did not ask for it.
    #[must_use]
    pub fn reason(&self, budget: Duration) -> Option<String> {
        let budget = human(budget);
        match self {
            Self::Asked => None,
            Self::Known(Expectation { runs, median, .. }) => {
                let (over, ms) = match median {
                    Quantile::At(ms) => ("", ms),
                    Quantile::Over(ms) => ("over ", ms),
                };
                let usual = human(Duration::from_millis(*ms));
                Some(format!(
                    "in the background at once: it usually takes {over}{usual} (median of {runs} \
                     runs), longer than the budget of {budget}"
                ))
            }
            Self::Heuristic(words) => Some(format!(
                "in the background at once: `{words}` often takes longer than the budget of \
                 {budget}"
            )),
        }
    }
}

/// Decides whether a command goes to the background at once, `None` when its caller waits for it.
///
/// What was asked for comes first. Then what is `known`, asked for only when it matters: a median
/// over the `budget`. A median within it keeps the command in the foreground whatever it is
/// called. A command that is not known is judged by its words.
pub fn at_once(
    asked: Asked,
    budget: Duration,
    known: impl FnOnce() -> Option<Expectation>,
    commands: &[SimpleCommand],
) -> Option<AtOnce> {
    match asked {
        Asked::Background => return Some(AtOnce::Asked),
        Asked::Foreground => return None,
        Asked::Nothing => {}
    }
    let budget_ms = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
    match known() {
        Some(known) if known.median.is_over(budget_ms) => Some(AtOnce::Known(known)),
        // Cut short before the budget was over: that says nothing about the budget.
        Some(Expectation { median: Quantile::Over(_), .. }) | None => {
            slow(commands).map(AtOnce::Heuristic)
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Duration = Duration::from_secs(15);

    fn known(median: Quantile) -> Expectation {
        Expectation { runs: 4, median, p90: median }
    }

    fn make() -> Vec<SimpleCommand> {
        vec![SimpleCommand { words: vec![Some("make".to_owned())] }]
    }

    #[test]
    fn what_was_asked_for_comes_first() {
        let slow = || Some(known(Quantile::At(60_000)));
        let quick = || Some(known(Quantile::At(1)));
        assert_eq!(at_once(Asked::Background, BUDGET, quick, &[]), Some(AtOnce::Asked));
        assert_eq!(at_once(Asked::Foreground, BUDGET, slow, &make()), None);
        let unasked = || -> Option<Expectation> { panic!("nobody needs to know") };
        assert_eq!(at_once(Asked::Foreground, BUDGET, unasked, &make()), None);
    }

    #[test]
    fn what_is_known_comes_before_what_it_is_called() {
        let decide = |median| at_once(Asked::Nothing, BUDGET, || Some(known(median)), &make());
        let why = |found: Option<AtOnce>| found.map(|found| found.why());
        assert_eq!(why(decide(Quantile::At(15_001))), Some(Why::Known));
        assert_eq!(why(decide(Quantile::At(15_000))), None);
        assert_eq!(why(decide(Quantile::Over(15_000))), Some(Why::Known));
        // Stopped by impatient people after ten seconds: the words decide.
        assert_eq!(why(decide(Quantile::Over(10_000))), Some(Why::Heuristic));
        let found = at_once(Asked::Nothing, BUDGET, || None, &make());
        assert_eq!(found, Some(AtOnce::Heuristic("make".to_owned())));
        assert_eq!(at_once(Asked::Nothing, BUDGET, || None, &[]), None);
    }

    #[test]
    fn who_did_not_ask_is_told_why() {
        let told = |found: AtOnce| found.reason(BUDGET);
        assert_eq!(told(AtOnce::Asked), None);
        assert_eq!(
            told(AtOnce::Known(known(Quantile::At(250_000)))).as_deref(),
            Some(
                "in the background at once: it usually takes 4m 10s (median of 4 runs), longer \
                 than the budget of 15s"
            )
        );
        assert!(
            told(AtOnce::Known(known(Quantile::Over(1_800_000))))
                .is_some_and(|text| text.contains("usually takes over 30m (median"))
        );
        assert_eq!(
            told(AtOnce::Heuristic("cargo build".to_owned())).as_deref(),
            Some(
                "in the background at once: `cargo build` often takes longer than the budget of \
                 15s"
            )
        );
    }
}
