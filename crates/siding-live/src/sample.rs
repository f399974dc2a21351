//! Measures the resources that running tasks use.

use std::cell::OnceCell;
use std::time::SystemTime;

use siding_core::output::OutputSize;
use siding_core::processes::probe::{self, UsageFields};
use siding_core::processes::tree::{self, SharedScan};
use siding_core::store::StateDir;
use siding_core::sys::{clock, tcp_sockets};
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;

use crate::cpu_meter::CounterSample;
use crate::task::LiveTask;
use crate::usage::TaskUsage;

/// Measures several tasks at one moment, with one scan of all processes if a task needs it.
#[derive(Debug)]
pub(crate) struct Sampler<'r> {
    root: &'r StateDir,
    scan: OnceCell<SharedScan>,
}

impl<'r> Sampler<'r> {
    pub(crate) const fn new(root: &'r StateDir) -> Self {
        Self { root, scan: OnceCell::new() }
    }

    /// Measures a task, and updates the size of its output. Does nothing if the task has ended or
    /// runs on another machine.
    pub(crate) fn sample(&self, task: &mut LiveTask) {
        if task.other_machine.is_some() {
            return;
        }
        let Some(state) = &task.state else { return };
        if let Ok(dir) = self.root.task_dir(state.spec.task_id) {
            let OutputSize { bytes, gap } = OutputSize::measure(&dir, state.spec.keep_head);
            let output = &mut task.view.output;
            (output.bytes, output.gap) = (bytes, gap);
            output.kept_bytes = bytes.saturating_sub(gap.map_or(0, |gap| gap.len()));
            // New output ends a stall, even before the end of the stall is recorded.
            if state.stall.as_ref().is_none_or(|stalled| stalled.output_bytes < bytes) {
                task.view.attention = None;
            }
        }
        task.last_output = last_write(&task.view.output.path);
        let (pids, is_supervised) = self.task_pids(state);
        const WANTED: UsageFields = UsageFields { runnable: false, fds: false };
        let processes = probe::usage_of_processes(&pids, WANTED);
        // The shim reaps the processes whose parents have exited, so its CPU time includes theirs.
        let shim = probe::usage_of_processes(&[state.shim.pid], WANTED);
        let shim = shim.iter().filter(|one| one.process == state.shim);
        let rates = task.meter.advance(CounterSample {
            at: clock::monotonic_now(),
            shim: state.shim,
            cpu_ms: processes.iter().chain(shim).map(|one| one.cpu_ms).sum(),
            output_bytes: task.view.output.bytes,
        });
        task.usage = Some(TaskUsage {
            cpu_percent: rates.cpu_percent,
            memory_bytes: processes.iter().map(|one| one.resident_bytes).sum(),
            ports: tcp_sockets::listening_ports(&pids),
            pids,
            output_rate: rates.output_rate,
            is_supervised,
        });
    }

    /// Returns the processes of a task, and whether its shim runs.
    fn task_pids(&self, state: &TaskState) -> (Vec<i32>, bool) {
        let below_shim = tree::shim_descendants(self.root, state);
        let is_supervised = below_shim.is_some();
        let mut pids = below_shim.unwrap_or_default();
        // After a takeover, and without a shim, only a scan of all processes finds the tree.
        if !is_supervised || state.takeovers > 0 {
            let scan = self.scan.get_or_init(SharedScan::default);
            for process in scan.processes_of(self.root, state).unwrap_or_default() {
                if process != state.shim && !pids.contains(&process.pid) {
                    pids.push(process.pid);
                }
            }
        }
        (pids, is_supervised)
    }
}

/// Returns the time of a file's last write on the monotonic clock. `None` if the file does not
/// exist, or if the wall clock was set back since.
fn last_write(path: &str) -> Option<MonotonicMs> {
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let silent = SystemTime::now().duration_since(modified).ok()?;
    let silent_ms = u64::try_from(silent.as_millis()).ok()?;
    Some(MonotonicMs(clock::monotonic_now().0.saturating_sub(silent_ms)))
}
