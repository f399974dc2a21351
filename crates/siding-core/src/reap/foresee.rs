//! What the reaper would do.

use std::collections::HashSet;

use siding_model::id::TaskId;
use siding_model::lifecycle::Phase;
use siding_model::retention::RetentionLimits;

use super::{ReapError, Standing, Step, Survey, forgotten, leaving, leftovers, look, strays};
use crate::store::Root;
use crate::sys::procfs;
use crate::tree::{self, SharedLook};

/// Returns the steps.
pub(super) fn steps(root: &Root, limits: &RetentionLimits) -> Result<Vec<Step>, ReapError> {
    let survey = look(root)?;
    let mut steps = recovered(root, &survey)?;
    let rescued: HashSet<TaskId> = steps.iter().filter_map(rescued).collect();
    steps.extend(leaving(root, &survey, |id| rescued.contains(&id)));
    let strays = strays::find(root, &survey);
    steps.extend(strays.trouble());
    for (task_id, strays) in strays.found {
        steps.extend(strays.processes().map(|process| Step::StrayEnded {
            task_id,
            pid: process.pid,
            command: tree::command_of(process.pid),
            signal: None,
        }));
    }
    let groups = leftovers::left_groups(root, &survey);
    steps.extend(groups.into_iter().map(|(task_id, _)| Step::Cleared { task_id }));
    // A task whose strays are ended may go in the same run.
    steps.extend(leftovers::would_expire(root, &survey, &HashSet::new(), limits));
    let unborn = leftovers::unborn_ids(root, &survey);
    steps.extend(unborn.into_iter().map(|task_id| Step::NeverStarted { task_id }));
    let claims = leftovers::stale_claims(root)?;
    steps.extend(claims.into_iter().map(|(name, task)| Step::Unclaimed { name, task }));
    steps.extend(forgotten::over(root, &survey, limits).iter().map(forgotten::Forgotten::step));
    steps.extend(
        forgotten::old_aside(root, &HashSet::new(), limits).into_iter().map(|old| old.step()),
    );
    Ok(steps)
}

fn rescued(step: &Step) -> Option<TaskId> {
    if let Step::Rescued { task_id } = step { Some(*task_id) } else { None }
}

fn recovered(root: &Root, survey: &Survey) -> Result<Vec<Step>, ReapError> {
    let marked: HashSet<TaskId> = root.live_tasks()?.into_iter().collect();
    let shared = SharedLook::default();
    let mut steps: Vec<Step> = marked
        .iter()
        .filter(|id| !survey.tasks.contains_key(id))
        .map(|id| Step::NeverStarted { task_id: *id })
        .collect();
    for (id, standing) in &survey.tasks {
        let task_id = *id;
        steps.extend(match standing {
            Standing::Live { shim, .. } if procfs::is_running(*shim) => {
                let stat = procfs::stat(shim.pid);
                stat.filter(|stat| stat.state == 'T').map(|_| Step::Continued { task_id })
            }
            Standing::Live { .. } => orphan(root, survey, &shared, task_id),
            Standing::Ended { shim, .. } => (marked.contains(id) && !procfs::is_running(*shim))
                .then_some(Step::Cleared { task_id }),
            Standing::Unborn => marked.contains(id).then_some(Step::NeverStarted { task_id }),
            Standing::Damaged { why } => {
                Some(Step::SetAside { task_id, path: None, why: why.to_string() })
            }
            Standing::TooNew { why } => {
                marked.contains(id).then(|| Step::TooNew { task_id, why: why.to_string() })
            }
            Standing::Unreadable { source } => {
                Some(Step::Failed { task_id, why: source.to_string() })
            }
        });
    }
    Ok(steps)
}

/// Returns what would become of a task whose shim is dead: nothing when another machine keeps it.
fn orphan(root: &Root, survey: &Survey, look: &SharedLook, task_id: TaskId) -> Option<Step> {
    let dir = root.task(task_id).ok();
    if dir.as_ref().is_some_and(|dir| dir.elsewhere().is_some()) {
        return None;
    }
    let folded = dir.and_then(|dir| dir.read().ok());
    let lives = folded.is_some_and(|folded| {
        folded.state.boot == survey.boot
            && !matches!(folded.state.lifecycle.phase(), Phase::Ended { .. })
            // Where that cannot be seen nothing is closed.
            && look.of(root, &folded.state).map_or(true, |found| !found.is_empty())
    });
    Some(if lives { Step::Rescued { task_id } } else { Step::Closed { task_id, outcome: None } })
}
