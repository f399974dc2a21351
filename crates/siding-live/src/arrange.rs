//! Selects, sorts and groups tasks for display. All functions are pure.

use std::cmp::{Ordering, Reverse};

use siding_model::id::{SessionId, TaskKind};
use siding_model::outcome::{Outcome, OutcomeGroup};
use siding_model::task_view::PhaseName;

use crate::task::LiveTask;
use crate::usage::TaskUsage;

/// The way in which a list of tasks is divided into groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Grouping {
    /// One group with all tasks.
    #[default]
    Flat,
    /// A group for each session.
    Session,
    /// A group for each kind of task.
    Kind,
    /// A group for each [`StateGroup`].
    State,
}

impl Grouping {
    /// All groupings, in the order in which a key cycles through them.
    pub const ALL_GROUPINGS: [Self; 4] = [Self::Flat, Self::Session, Self::Kind, Self::State];

    /// Returns the name in text and in addresses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Session => "session",
            Self::Kind => "kind",
            Self::State => "state",
        }
    }
}

/// The property by which the tasks of a group are sorted. Tasks without a value come last, such as
/// ended tasks when the key is the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Running tasks first, the newest first; then ended ones, the last to end first.
    #[default]
    Time,
    /// In the order of [`StateGroup`].
    State,
    /// Alphabetically by [`TaskView::title`](siding_model::task_view::TaskView::title): the name, if
    /// the task has one, and the command.
    Name,
    /// The longest duration first.
    Elapsed,
    /// The largest share of the usual duration first.
    Usual,
    /// The longest silence first.
    Silence,
    /// The highest CPU usage first.
    Cpu,
    /// The most memory first.
    Memory,
    /// The most processes first.
    Processes,
    /// The lowest listening port first.
    Ports,
    /// The highest output rate first.
    Rate,
    /// The most bytes of output first.
    Output,
    /// The most unread notices first.
    Notices,
    /// Alphabetically by the name of the session.
    Session,
}

impl SortKey {
    /// All sort keys, in the order in which a key cycles through them.
    pub const ALL_KEYS: [Self; 14] = [
        Self::Time,
        Self::State,
        Self::Name,
        Self::Elapsed,
        Self::Usual,
        Self::Silence,
        Self::Cpu,
        Self::Memory,
        Self::Processes,
        Self::Ports,
        Self::Rate,
        Self::Output,
        Self::Notices,
        Self::Session,
    ];

    /// Returns the name in text and in addresses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::State => "state",
            Self::Name => "name",
            Self::Elapsed => "elapsed",
            Self::Usual => "usual",
            Self::Silence => "silence",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Ports => "ports",
            Self::Rate => "rate",
            Self::Output => "output",
            Self::Notices => "notices",
            Self::Session => "session",
        }
    }

    /// Returns whether the order depends on the values that
    /// [`LiveView::sample`](crate::LiveView::sample) measures, so that all running tasks must be
    /// measured for it.
    #[must_use]
    pub const fn needs_sample(self) -> bool {
        match self {
            Self::Silence
            | Self::Cpu
            | Self::Memory
            | Self::Processes
            | Self::Ports
            | Self::Rate
            | Self::Output => true,
            Self::Time
            | Self::State
            | Self::Name
            | Self::Elapsed
            | Self::Usual
            | Self::Notices
            | Self::Session => false,
        }
    }
}

/// The property that the tasks of a group share. Groups of the same urgency are ordered by this
/// key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// All tasks.
    All,
    /// The tasks of a session.
    Session(SessionId),
    /// The tasks of a kind.
    Kind(TaskKind),
    /// The tasks in a state.
    State(StateGroup),
}

impl GroupKey {
    /// Returns the heading of the group.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::All => "all",
            Self::Session(id) => id.as_str(),
            Self::Kind(kind) => kind.label(),
            Self::State(state) => state.as_str(),
        }
    }
}

/// The state of a task as a group, in the order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateGroup {
    /// The command has not been started yet.
    Starting,
    /// The command runs.
    Running,
    /// The command has ended, and descendants are alive.
    Lingering,
    /// The task is being stopped.
    Stopping,
    /// The task ended neither with exit code 0 nor on request.
    Failed,
    /// The task was stopped or released on request.
    Stopped,
    /// The command ended with exit code 0.
    Succeeded,
}

impl StateGroup {
    /// Returns the group of a task.
    #[must_use]
    pub fn for_task(task: &LiveTask) -> Self {
        match task.view.outcome.as_ref().map(Outcome::group) {
            Some(OutcomeGroup::Failed) => Self::Failed,
            Some(OutcomeGroup::Succeeded) => Self::Succeeded,
            Some(OutcomeGroup::Stopped) => Self::Stopped,
            None => match task.view.phase {
                PhaseName::Starting => Self::Starting,
                PhaseName::Running => Self::Running,
                PhaseName::Lingering => Self::Lingering,
                // A task without an outcome has not ended.
                PhaseName::Stopping | PhaseName::Ended => Self::Stopping,
            },
        }
    }

    /// Returns the name in text and in addresses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Lingering => "lingering",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Succeeded => "succeeded",
        }
    }
}

/// A group of tasks with a heading.
#[derive(Debug, Clone)]
pub struct GroupedTasks<'t> {
    /// The property that the tasks share.
    pub key: GroupKey,
    /// The tasks, sorted; never empty.
    pub tasks: Vec<&'t LiveTask>,
}

/// Returns the tasks that a text selects. Each word of the text must occur in the task's id, name,
/// command, session, directory or state; upper and lower case are the same. A text without words
/// selects every task.
pub fn filter_tasks<'t>(
    tasks: impl IntoIterator<Item = &'t LiveTask>,
    text: &str,
) -> impl Iterator<Item = &'t LiveTask> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    tasks.into_iter().filter(move |task| words.iter().all(|word| has_word(task, word)))
}

fn has_word(task: &LiveTask, word: &str) -> bool {
    let view = &task.view;
    let contains = |text: &str| text.to_lowercase().contains(word);
    contains(&view.task_id.to_string())
        || view.name.as_deref().is_some_and(contains)
        || contains(&view.command)
        || contains(view.session_id.as_str())
        || contains(&view.cwd)
        || contains(StateGroup::for_task(task).as_str())
}

/// Sorts tasks: those that need a person first, the most urgent first, then by `key`. Tasks that
/// are equal keep their order.
pub fn sort_tasks(tasks: &mut [&LiveTask], key: SortKey) {
    tasks.sort_by(|a, b| {
        let need = |task: &LiveTask| (task.need.is_none(), task.need);
        need(a).cmp(&need(b)).then_with(|| compare(a, b, key))
    });
}

fn compare(a: &LiveTask, b: &LiveTask, key: SortKey) -> Ordering {
    match key {
        SortKey::Time => moment(a).cmp(&moment(b)),
        SortKey::State => StateGroup::for_task(a).cmp(&StateGroup::for_task(b)),
        SortKey::Name => a.view.title().cmp(&b.view.title()),
        SortKey::Elapsed => b.view.elapsed_ms.cmp(&a.view.elapsed_ms),
        SortKey::Usual => usual_permille(b).cmp(&usual_permille(a)),
        SortKey::Silence => {
            let since = |task: &LiveTask| (task.silent_since().is_none(), task.silent_since());
            since(a).cmp(&since(b))
        }
        SortKey::Cpu => descending(a, b, |usage| usage.cpu_percent),
        SortKey::Rate => descending(a, b, |usage| usage.output_rate),
        SortKey::Memory => {
            let memory = |task: &LiveTask| task.usage.as_ref().map(|usage| usage.memory_bytes);
            memory(b).cmp(&memory(a))
        }
        SortKey::Processes => {
            let count = |task: &LiveTask| task.usage.as_ref().map(TaskUsage::process_count);
            count(b).cmp(&count(a))
        }
        SortKey::Ports => {
            let port = |task: &LiveTask| task.usage.as_ref()?.ports.first().copied();
            (port(a).is_none(), port(a)).cmp(&(port(b).is_none(), port(b)))
        }
        SortKey::Output => b.view.output.bytes.cmp(&a.view.output.bytes),
        SortKey::Notices => b.unread_notices.cmp(&a.unread_notices),
        SortKey::Session => a.view.session_id.as_str().cmp(b.view.session_id.as_str()),
    }
}

fn moment(task: &LiveTask) -> (bool, Reverse<&str>) {
    let view = &task.view;
    let at = view.ended_at.as_deref().unwrap_or(&view.started_at);
    (view.outcome.is_some(), Reverse(at))
}

/// Returns the elapsed time of a running task in thousandths of its usual duration; `None` if the
/// task has ended, or its usual duration is unknown.
fn usual_permille(task: &LiveTask) -> Option<u64> {
    let usual = task.view.expected_ms.filter(|_| task.is_live())?;
    Some(task.view.elapsed_ms.saturating_mul(1_000) / usual.max(1))
}

fn descending(
    a: &LiveTask,
    b: &LiveTask,
    measured: impl Fn(&TaskUsage) -> Option<f64>,
) -> Ordering {
    let value = |task: &LiveTask| task.usage.as_ref().and_then(&measured).unwrap_or(-1.0);
    value(b).total_cmp(&value(a))
}

/// Divides tasks into groups, and sorts each group as [`sort_tasks`] does. A group with a task that
/// needs a person comes before the others, the most urgent group first; otherwise the groups are
/// ordered by their keys.
#[must_use]
pub fn group_tasks<'t>(
    tasks: impl IntoIterator<Item = &'t LiveTask>,
    grouping: Grouping,
    key: SortKey,
) -> Vec<GroupedTasks<'t>> {
    let mut groups = std::collections::BTreeMap::<GroupKey, Vec<&LiveTask>>::new();
    for task in tasks {
        groups.entry(group_key(task, grouping)).or_default().push(task);
    }
    let mut groups: Vec<GroupedTasks<'t>> = groups
        .into_iter()
        .map(|(group_key, mut tasks)| {
            sort_tasks(&mut tasks, key);
            GroupedTasks { key: group_key, tasks }
        })
        .collect();
    groups.sort_by_key(|group| {
        let need = group.tasks.iter().filter_map(|task| task.need).min();
        (need.is_none(), need)
    });
    groups
}

fn group_key(task: &LiveTask, grouping: Grouping) -> GroupKey {
    match grouping {
        Grouping::Flat => GroupKey::All,
        Grouping::Session => GroupKey::Session(task.view.session_id.clone()),
        Grouping::Kind => GroupKey::Kind(task.view.kind),
        Grouping::State => GroupKey::State(StateGroup::for_task(task)),
    }
}
