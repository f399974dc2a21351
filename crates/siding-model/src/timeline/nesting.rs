//! The tree of tasks below each session.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::id::{SessionId, TaskId};

use super::{SessionParents, TimelineTask};

/// Maximum number of parent sessions that are followed. A longer chain, such as a cycle in modified
/// files, is not followed to its end.
const MAX_PARENT_SESSIONS: usize = 32;

/// The tasks of a lane, before they are placed.
#[derive(Debug)]
pub(super) struct SessionTasks {
    /// The session; `None` for several sessions.
    pub(super) session_id: Option<SessionId>,
    pub(super) sessions: usize,
    /// Number of parent sessions that have a lane.
    pub(super) depth: usize,
    /// The tasks in the order of their rows, each with its depth. A task follows the task that
    /// started it.
    pub(super) tasks: Vec<(usize, TimelineTask)>,
}

/// Keeps the tasks of these sessions, and the tasks that were started inside them.
pub fn retain_sessions(tasks: &mut Vec<TimelineTask>, sessions: &HashSet<SessionId>) {
    tasks.sort_by_key(|task| (task.started_at, task.task_id));
    let mut kept: HashSet<TaskId> = HashSet::new();
    tasks.retain(|task| {
        let is_kept = sessions.contains(&task.session_id)
            || task.parent_task.is_some_and(|parent| kept.contains(&parent))
            || task.session_id.as_str().parse().is_ok_and(|owner: TaskId| kept.contains(&owner));
        if is_kept {
            kept.insert(task.task_id);
        }
        is_kept
    });
}

/// Divides tasks among sessions, in the order of the first task of each session; a session follows
/// its parent session.
///
/// A task belongs to the session of the outermost task inside which it was started. So the tasks of
/// a subagent or a workflow, which have a session of their own, are below the task of the subagent
/// or workflow. If that task is not in `tasks`, they have a lane of their own.
pub(super) fn nest_tasks(
    mut tasks: Vec<TimelineTask>,
    parents: &SessionParents,
) -> Vec<SessionTasks> {
    tasks.sort_by_key(|task| (task.started_at, task.task_id));
    let places: HashMap<TaskId, usize> =
        tasks.iter().enumerate().map(|(place, task)| (task.task_id, place)).collect();
    // Only an earlier task can be a parent, so there is no cycle.
    let parent_of = |place: usize, task: &TimelineTask| {
        let by_session = || task.session_id.as_str().parse().ok();
        let earlier = |id: TaskId| places.get(&id).copied().filter(|parent| *parent < place);
        task.parent_task.and_then(earlier).or_else(|| by_session().and_then(earlier))
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    let mut roots: Vec<(SessionId, Vec<usize>)> = Vec::new();
    let mut lane_of: HashMap<SessionId, usize> = HashMap::new();
    for (place, task) in tasks.iter().enumerate() {
        if let Some(parent) = parent_of(place, task) {
            children[parent].push(place);
            continue;
        }
        let lane = *lane_of.entry(task.session_id.clone()).or_insert_with(|| {
            roots.push((task.session_id.clone(), Vec::new()));
            roots.len() - 1
        });
        roots[lane].1.push(place);
    }
    let mut tasks: Vec<Option<TimelineTask>> = tasks.into_iter().map(Some).collect();
    let lanes = roots.into_iter().map(|(session_id, roots)| SessionTasks {
        session_id: Some(session_id),
        sessions: 1,
        depth: 0,
        tasks: preorder(roots, &children)
            .into_iter()
            .filter_map(|(depth, place)| Some((depth, tasks[place].take()?)))
            .collect(),
    });
    nest_sessions(lanes.collect(), parents)
}

/// Returns the tasks below these roots in preorder, each with its depth.
fn preorder(roots: Vec<usize>, children: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut pending: Vec<(usize, usize)> = roots.into_iter().rev().map(|root| (0, root)).collect();
    let mut ordered = Vec::new();
    while let Some((depth, place)) = pending.pop() {
        ordered.push((depth, place));
        pending.extend(children[place].iter().rev().map(|child| (depth + 1, *child)));
    }
    ordered
}

/// Moves each session behind its nearest parent session that has a lane.
fn nest_sessions(lanes: Vec<SessionTasks>, parents: &SessionParents) -> Vec<SessionTasks> {
    let places: BTreeMap<SessionId, usize> = lanes
        .iter()
        .enumerate()
        .filter_map(|(place, lane)| Some((lane.session_id.clone()?, place)))
        .collect();
    let parent_lane = |id: &SessionId| {
        let chain = std::iter::successors(parents.get(id), |parent| parents.get(*parent));
        chain.take(MAX_PARENT_SESSIONS).find_map(|parent| places.get(parent).copied())
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); lanes.len()];
    let mut roots = Vec::new();
    for (place, lane) in lanes.iter().enumerate() {
        match lane.session_id.as_ref().and_then(parent_lane).filter(|parent| *parent != place) {
            Some(parent) => children[parent].push(place),
            None => roots.push(place),
        }
    }
    let mut lanes: Vec<Option<SessionTasks>> = lanes.into_iter().map(Some).collect();
    let mut ordered = Vec::new();
    for (depth, place) in preorder(roots, &children) {
        ordered.extend(lanes[place].take().map(|lane| SessionTasks { depth, ..lane }));
    }
    // Sessions in a cycle, which only modified files can contain, are below no root.
    ordered.extend(lanes.into_iter().flatten());
    ordered
}
