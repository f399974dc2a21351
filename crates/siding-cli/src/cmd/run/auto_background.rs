//! Decides whether a command starts in the background.

use std::time::Duration;

use siding_core::store::StateDir;
use siding_model::history::{self, AutoBackground, PlacementRequest};
use siding_model::outcome::Placement;
use siding_model::settings::Settings;
use siding_model::spec::TaskCommand;

use super::{Args, OnTimeout};
use crate::run_history;

/// The placement in which a command starts, and the caller's maximum wait.
#[derive(Debug)]
pub(super) struct ChosenPlacement {
    pub(super) placement: Placement,
    /// Maximum time that the caller waits; with `None` the caller waits until the command ends.
    pub(super) budget: Option<Duration>,
    /// Explanation for a caller that did not request the background; `None` if none is needed.
    pub(super) note: Option<String>,
}

/// Decides whether a command starts in the foreground or in the background. The history is opened
/// only if `auto_background` is on (by setting or flag) and no other setting, flag or budget
/// decides.
pub(super) fn choose_placement(
    args: &Args,
    settings: &Settings,
    root: &StateDir,
    (command, cwd): (&TaskCommand, &str),
    budget: Option<Duration>,
) -> ChosenPlacement {
    let foreground = ChosenPlacement { placement: Placement::Foreground, budget, note: None };
    let (asked, limit) = requested_mode(args, settings, budget);
    let known = || run_history::expectation(root, &command.display_for_kind(args.kind), cwd);
    let words = if asked == PlacementRequest::Unspecified {
        siding_guard::parse_task_command(command)
    } else {
        Vec::new()
    };
    let Some(found) = history::decide_auto_background(asked, limit, known, &words) else {
        return foreground;
    };
    let budget = match found {
        AutoBackground::Requested => budget,
        AutoBackground::Known(_) | AutoBackground::Heuristic(_) => Some(settings.settle),
    };
    let placement = Placement::Background { why: found.background_reason() };
    ChosenPlacement { placement, budget, note: found.explanation(limit) }
}

/// Returns the placement that the caller requested, and the budget with which the expected duration
/// is compared.
fn requested_mode(
    args: &Args,
    settings: &Settings,
    budget: Option<Duration>,
) -> (PlacementRequest, Duration) {
    let limit = budget.unwrap_or(settings.blocking_budget);
    let waits_to_the_end =
        args.budget.as_deref() == Some("none") || args.on_timeout == Some(OnTimeout::Stop);
    // By default a person at a terminal has no budget, sees the output and waits. Without a budget,
    // only a flag lets the command start in the background.
    let may_decide = settings.auto_background
        && settings.background_tasks
        && !waits_to_the_end
        && (budget.is_some() || args.auto_background);
    let asked = match (args.background, may_decide) {
        (true, _) => PlacementRequest::Background,
        (false, true) => PlacementRequest::Unspecified,
        (false, false) => PlacementRequest::Foreground,
    };
    (asked, limit)
}
