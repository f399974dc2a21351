//! Builds the view of a task from its journal, its output file and `/proc`.

use std::path::Path;

use siding_model::evidence::AttentionView;
use siding_model::journal::TaskState;
use siding_model::outcome::Outcome;
use siding_model::process::{LeaderRef, MonotonicMs, ProcRef, UnixMs};
use siding_model::record::OutputTotals;
use siding_model::task_view::{
    FetchView, MonitorView, OutputView, ProcessView, QueuedView, ReadyView, TaskView, TerminalView,
    UnreachableView,
};

use crate::output::{self, OutputSize};
use crate::processes::cgroup::TaskGroup;
use crate::processes::{host_terminal, tree};
use crate::store::{StateDir, TASKS_DIR, TaskDir};
use crate::sys::{clock, procfs, tcp_sockets};

/// Whether the view of a running task contains its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewDetail {
    /// Includes the task's processes, listening ports and control group.
    Full,
    /// Includes only what the journal and the size of the output show, so that `/proc` is not
    /// scanned.
    Brief,
}

/// Returns the view of a task, without output text and without advice.
#[must_use]
pub fn task_view(
    root: &StateDir,
    dir: &TaskDir,
    state: &TaskState,
    detail: ViewDetail,
) -> TaskView {
    let pids = match detail {
        ViewDetail::Full => tree::task_pids(root, state),
        ViewDetail::Brief => Vec::new(),
    };
    let totals = match &state.closed {
        Some(closed) => closed.output,
        None => {
            let OutputSize { bytes, gap } = OutputSize::measure(dir, state.spec.keep_head);
            OutputTotals { bytes, gap, lost: 0 }
        }
    };
    let mut view = build_view(state, &pids, output_view(dir.path(), state, totals));
    // New output ends a stall, even before the end of the stall is recorded.
    let stalled = state.stall.as_ref().filter(|stalled| stalled.output_bytes >= totals.bytes);
    if detail == ViewDetail::Full && state.is_live() {
        // The group is recorded before it is created, and its creation may have failed.
        view.cgroup = state
            .cgroup
            .clone()
            .filter(|_| TaskGroup::from_task(state).is_some_and(|group| group.exists()));
        view.host_terminal = host_terminal::find_among(state, &pids);
    }
    view.attention = stalled
        .filter(|_| state.is_live())
        .map(|stalled| AttentionView::new(stalled, task_clock_now(state)));
    view
}

/// Returns the view of a task whose journal contains the final record, with all facts that the
/// view needs. `None` if the final record is missing.
#[must_use]
pub fn closed_task_view(root: &StateDir, state: &TaskState) -> Option<TaskView> {
    let totals = state.closed.as_ref()?.output;
    let path = root.path().join(TASKS_DIR).join(state.spec.task_id.to_string());
    Some(build_view(state, &[], output_view(&path, state, totals)))
}

fn build_view(state: &TaskState, pids: &[i32], output: OutputView) -> TaskView {
    let live = state.is_live();
    let spec = &state.spec;
    let now = task_clock_now(state);
    TaskView {
        task_id: spec.task_id,
        kind: spec.task_id.kind(),
        session_id: spec.session_id.clone(),
        name: spec.name.clone(),
        command: spec.command_text(),
        cwd: spec.cwd.clone(),
        final_cwd: state.final_cwd.clone(),
        adopted: state.adopted.is_some(),
        sandbox: state.adopted.as_ref().and_then(|adopted| adopted.sandbox.clone()),
        phase: state.lifecycle.phase().into(),
        placement: state.lifecycle.placement().into(),
        outcome: state.lifecycle.outcome().cloned(),
        leader_outcome: state.leader_end.clone().map(Outcome::from),
        pipeline_statuses: state.pipeline.clone(),
        started_at: state.started_wall.rfc3339(),
        ended_at: state.closed.as_ref().map(|closed| closed.wall.rfc3339()),
        elapsed_ms: state.elapsed_ms(now),
        queued_ms: state.queued_ms(now),
        deadline_at: state.effective_deadline().filter(|_| live).map(|at| format_moment(at, now)),
        job_ends_at: state.job_limit().map(|at| format_moment(at, now)),
        shim_pid: live.then_some(state.shim.pid),
        processes: pids.iter().filter_map(|pid| process_view(*pid, state)).collect(),
        listening: tcp_sockets::listening_ports(pids),
        output,
        attention: None,
        usage: state.closed.as_ref().and_then(|closed| closed.peaks.clone()),
        breaches: state.breaches.clone(),
        net: spec.net.to_string(),
        cgroup: None,
        monitor: MonitorView::from_state(state),
        ready: ReadyView::from_state(state),
        stop_report: state.closed.as_ref().and_then(|closed| closed.report.clone()),
        duplicate_of: spec.duplicate_of,
        parent_task: spec.parent_task,
        rescues: state.takeovers,
        executor: spec.executor.as_ref().map(|executor| executor.name.clone()),
        machine: state.remote.as_ref().and_then(|remote| remote.machine.clone()),
        queued: QueuedView::from_state(state),
        job_id: state.remote.as_ref().and_then(|remote| remote.job_id.clone()),
        restarts: state.remote.as_ref().map_or(0, |remote| remote.attempt),
        unreachable: UnreachableView::from_state(state),
        input_loss: state.remote.as_ref().and_then(|remote| remote.input_loss),
        fetch: FetchView::from_state(state),
        sent_by: spec.sent_by.clone(),
        terminal: TerminalView::from_state(state, task_clock_now(state), clock::unix_now()),
        host_terminal: None,
        expected_ms: None,
        expected_p90_ms: None,
        expected_runs: None,
        message: None,
    }
}

/// Returns the status of a job in the queue of a cluster as a predicate, with local times: `waits
/// in the queue of lab: job 7, PENDING (Resources), expected to start at …`. Returns `None` for a
/// task outside a queue. The text is untrusted.
#[must_use]
pub fn queue_text(state: &TaskState) -> Option<String> {
    let queued = QueuedView::from_state(state)?;
    let executor = &state.spec.executor.as_ref()?.name;
    let start = queued.expected_start.as_deref().and_then(UnixMs::from_rfc3339);
    let start = start.map(clock::format_local_time);
    Some(format!("waits in the queue of {executor}: {}", queued.describe(start.as_deref())))
}

/// Returns the present time on the clock of the task's times. This machine may have been suspended
/// or rebooted while a task continued on another machine, so the time of such a task follows the
/// wall clock.
fn task_clock_now(state: &TaskState) -> MonotonicMs {
    if !state.spec.is_remote() {
        return clock::monotonic_now();
    }
    let since_start = clock::unix_now().0.saturating_sub(state.started_wall.0);
    state.started.plus_ms(u64::try_from(since_start).unwrap_or(0))
}

/// Returns the wall-clock time of a moment after `now`.
fn format_moment(moment: MonotonicMs, now: MonotonicMs) -> String {
    let left = moment.ms_since(now);
    clock::unix_now().plus_ms(i64::try_from(left).unwrap_or(i64::MAX)).rfc3339()
}

fn process_view(pid: i32, state: &TaskState) -> Option<ProcessView> {
    let stat = procfs::stat(pid)?;
    let is_leader = state.leader.is_some_and(|leader| match leader {
        LeaderRef::Identified(leader) => leader == ProcRef { pid, start_ticks: stat.start_ticks },
        LeaderRef::Unidentified { pid: number } => number == pid,
    });
    let command = if is_leader {
        tree::leader_command_for_report(pid, state)
    } else {
        tree::command_for_report(pid)
    };
    Some(ProcessView {
        pid,
        command,
        state: stat.state.to_string(),
        cpu_ms: stat.cpu_ticks * (1000 / procfs::TICKS_PER_SECOND),
    })
}

fn output_view(dir: &Path, state: &TaskState, totals: OutputTotals) -> OutputView {
    let OutputTotals { bytes, gap, lost: lost_bytes } = totals;
    let released_bytes = gap.map_or(0, |gap| gap.len()).saturating_add(lost_bytes);
    OutputView {
        path: output::path(dir, state),
        bytes,
        kept_bytes: bytes.saturating_sub(released_bytes),
        gap,
        lost_bytes,
        text: None,
        truncated: false,
    }
}
