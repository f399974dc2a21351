//! The processes of a task as a tree, and what each of them waits for.

use std::collections::{HashMap, HashSet};

use siding_core::processes::probe::{self, KnownFds};
use siding_core::processes::tree;
use siding_core::store::TaskDir;
use siding_core::sys::procfs;
use siding_model::evidence::{Certainty, ChainLink, Diagnosis, WhyVerdict};

/// Maximum number of processes whose waits are explained. The explanation of a pipe reads the
/// descriptors of all of them.
const MAX_EXPLAINED_PROCESSES: usize = 40;
/// Milliseconds per clock tick.
const TICK_MS: u64 = 1_000 / procfs::TICKS_PER_SECOND;

/// A process of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeProcess {
    /// The process id.
    pub pid: i32,
    /// The process id of the parent, which may be outside the task.
    pub parent: i32,
    /// Number of ancestors in the list.
    pub depth: usize,
    /// The state letter of proc_pid_stat(5).
    pub state: char,
    /// User and system time so far, in milliseconds.
    pub cpu_ms: u64,
    /// The command line, shortened to one line.
    pub command: String,
}

/// Reads these processes, each after its parent. Processes that have exited are left out.
#[must_use]
pub fn read_process_tree(pids: &[i32]) -> Vec<TreeProcess> {
    arrange_tree(pids.iter().filter_map(|pid| read_process(*pid)).collect())
}

fn read_process(pid: i32) -> Option<TreeProcess> {
    let stat = procfs::stat(pid)?;
    Some(TreeProcess {
        pid,
        parent: stat.ppid,
        depth: 0,
        state: stat.state,
        cpu_ms: stat.cpu_ticks * TICK_MS,
        command: tree::command_for_report(pid),
    })
}

/// Returns the processes with their depth, each after its parent. A process whose parent is not
/// listed is a root.
fn arrange_tree(processes: Vec<TreeProcess>) -> Vec<TreeProcess> {
    let listed: HashSet<i32> = processes.iter().map(|process| process.pid).collect();
    let mut children: HashMap<i32, Vec<TreeProcess>> = HashMap::new();
    let mut arranged = Vec::with_capacity(processes.len());
    let mut pending = Vec::new();
    for process in processes {
        // A pid that was reused during the reading could be its own parent.
        if listed.contains(&process.parent) && process.parent != process.pid {
            children.entry(process.parent).or_default().push(process);
        } else {
            pending.push(process);
        }
    }
    pending.reverse();
    while let Some(process) = pending.pop() {
        let below = children.remove(&process.pid).unwrap_or_default();
        let depth = process.depth + 1;
        pending.extend(below.into_iter().rev().map(|child| TreeProcess { depth, ..child }));
        arranged.push(process);
    }
    arranged
}

/// Returns the wait of each of these processes. With `kernel.yama.ptrace_scope`, the kernel
/// shows some waits only to the task's shim; the result lacks these. At most 40 processes are
/// explained.
#[must_use]
pub fn explain_waits(dir: &TaskDir, pids: &[i32]) -> HashMap<i32, String> {
    let known = dir.endpoint_dir();
    let known = known.map_or_else(|_| KnownFds::default(), KnownFds::from_endpoint_dir);
    let pids = &pids[..pids.len().min(MAX_EXPLAINED_PROCESSES)];
    let sample = probe::sample_processes(&known, pids);
    let explain = |pid: i32| {
        let alone = Diagnosis {
            verdict: WhyVerdict::Unknown,
            waiting_on: None,
            certainty: Certainty::None,
            cpu_permille: 0,
            process_path: vec![pid],
            thread: None,
            concurrent_reader: None,
            input_channel: None,
            prompt: None,
            awaited_input: None,
        };
        let links = probe::explain_chain(&sample, &alone, &tree::command_for_report);
        Some((pid, describe_wait(links.first()?)?))
    };
    pids.iter().filter_map(|pid| explain(*pid)).collect()
}

/// Returns the wait of a process: its system call, the object, and a detail, as far as they are
/// known. `None` if nothing is known.
#[must_use]
pub fn describe_wait(link: &ChainLink) -> Option<String> {
    let parts: Vec<&str> = [&link.syscall, &link.object, &link.detail]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(pid: i32, parent: i32) -> TreeProcess {
        TreeProcess { pid, parent, depth: 0, state: 'S', cpu_ms: 0, command: String::new() }
    }

    #[test]
    fn processes_follow_their_parents() {
        let nodes = vec![node(9, 1), node(4, 3), node(3, 2), node(2, 1), node(5, 2), node(6, 6)];
        let order: Vec<(i32, usize)> =
            arrange_tree(nodes).into_iter().map(|node| (node.pid, node.depth)).collect();
        assert_eq!(order, [(9, 0), (2, 0), (3, 1), (4, 2), (5, 1), (6, 0)]);
        // Two processes that seem to be each other's parent are left out rather than repeated.
        assert!(arrange_tree(vec![node(1, 2), node(2, 1)]).is_empty());
    }

    #[test]
    fn a_wait_names_what_is_known() {
        let mut link = ChainLink {
            pid: 1,
            command: String::new(),
            state: "S".to_owned(),
            syscall: None,
            object: None,
            detail: None,
        };
        assert_eq!(describe_wait(&link), None);
        link.syscall = Some("read".to_owned());
        link.detail = Some("descriptor 0".to_owned());
        assert_eq!(describe_wait(&link).as_deref(), Some("read; descriptor 0"));
    }
}
