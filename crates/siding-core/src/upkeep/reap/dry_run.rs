//! Predicts the steps of the reaper, without taking them.

use std::collections::HashSet;

use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::retention::RetentionLimits;

use super::{
    ReapError, ReapStep, RecordedState, TaskSurvey, expired, leftovers, orphan_processes,
    survey_all, tasks_being_stopped,
};
use crate::processes::tree::{self, SharedScan};
use crate::store::StateDir;
use crate::sys::procfs;

/// Returns the steps, grouped in the order in which the reaper would take them.
pub(super) fn plan_steps(
    root: &StateDir,
    limits: &RetentionLimits,
) -> Result<Vec<ReapStep>, ReapError> {
    let survey = survey_all(root)?;
    let mut steps = plan_recovery(root, &survey)?;
    let rescued_task: HashSet<TaskId> = steps.iter().filter_map(rescued_task).collect();
    steps.extend(tasks_being_stopped(root, &survey, |id| rescued_task.contains(&id)));
    let strays = orphan_processes::find_orphans(root, &survey);
    steps.extend(strays.incomplete_step());
    for (task_id, strays) in strays.orphans {
        steps.extend(strays.processes().map(|process| ReapStep::StrayEnded {
            task_id,
            pid: process.pid,
            command: tree::command_for_report(process.pid),
            signal: None,
        }));
    }
    let groups = leftovers::leftover_groups(root, &survey);
    steps.extend(groups.into_iter().map(|(task_id, _)| ReapStep::Cleared { task_id }));
    // A task whose strays are terminated may be removed in the same run.
    steps.extend(leftovers::plan_expired_tasks(root, &survey, &HashSet::new(), limits));
    let unborn = leftovers::unrecorded_tasks(root, &survey);
    steps.extend(unborn.into_iter().map(|task_id| ReapStep::NeverStarted { task_id }));
    let claims = leftovers::stale_claims(root)?;
    steps.extend(claims.into_iter().map(leftovers::StaleClaim::into_step));
    steps.extend(
        expired::find_expired_sessions(root, &survey, limits)
            .iter()
            .map(expired::ExpiredSession::to_step),
    );
    steps.extend(
        expired::find_expired_quarantine(root, &HashSet::new(), limits)
            .into_iter()
            .map(|old| old.to_step()),
    );
    Ok(steps)
}

fn rescued_task(step: &ReapStep) -> Option<TaskId> {
    if let ReapStep::Rescued { task_id } = step { Some(*task_id) } else { None }
}

fn plan_recovery(root: &StateDir, survey: &TaskSurvey) -> Result<Vec<ReapStep>, ReapError> {
    let marked: HashSet<TaskId> = root.live_tasks()?.into_iter().collect();
    let shared = SharedScan::default();
    let mut steps: Vec<ReapStep> = marked
        .iter()
        .filter(|id| !survey.tasks.contains_key(id))
        .map(|id| ReapStep::NeverStarted { task_id: *id })
        .collect();
    for (id, standing) in &survey.tasks {
        let task_id = *id;
        steps.extend(match standing {
            RecordedState::Live { shim, .. } if procfs::is_running(*shim) => {
                let stat = procfs::stat(shim.pid);
                stat.filter(|stat| stat.state == 'T').map(|_| ReapStep::Continued { task_id })
            }
            RecordedState::Live { .. } => plan_shimless_task(root, survey, &shared, task_id),
            RecordedState::Ended { shim, .. } => (marked.contains(id)
                && !procfs::is_running(*shim))
            .then_some(ReapStep::Cleared { task_id }),
            RecordedState::NeverRecorded => {
                marked.contains(id).then_some(ReapStep::NeverStarted { task_id })
            }
            RecordedState::Damaged { why } => {
                Some(ReapStep::Quarantined { task_id, path: None, why: why.to_string() })
            }
            RecordedState::TooNew { why } => {
                marked.contains(id).then(|| ReapStep::TooNew { task_id, why: why.to_string() })
            }
            RecordedState::Unreadable { source } => {
                Some(ReapStep::Failed { task_id, why: source.to_string() })
            }
        });
    }
    Ok(steps)
}

/// Returns the step for a task whose shim is dead, or `None` if another machine supervises the
/// task.
fn plan_shimless_task(
    root: &StateDir,
    survey: &TaskSurvey,
    look: &SharedScan,
    task_id: TaskId,
) -> Option<ReapStep> {
    let dir = root.task_dir(task_id).ok();
    if dir.as_ref().is_some_and(|dir| dir.other_machine().is_some()) {
        return None;
    }
    let folded = dir.and_then(|dir| dir.read().ok());
    let lives = folded.is_some_and(|folded| {
        folded.state.boot == survey.boot
            && !matches!(folded.state.lifecycle.phase(), Phase::Ended { .. })
            // If the processes cannot be listed, no end is recorded.
            && look.processes_of(root, &folded.state).map_or(true, |found| !found.is_empty())
    });
    Some(if lives {
        ReapStep::Rescued { task_id }
    } else {
        ReapStep::Closed { task_id, outcome: None }
    })
}
