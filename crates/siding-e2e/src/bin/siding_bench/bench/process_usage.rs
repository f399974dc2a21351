//! The memory and the processor time of a process, read from `/proc`.

use std::fs::read_to_string;

/// Memory that one process uses and does not share with other processes, in KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrivateMemory {
    /// Memory that no file backs: stack, heap, and written pages of private file mappings.
    pub(super) anonymous: f64,
    /// Unchanged pages of files that no other process maps at this moment.
    pub(super) file_backed: f64,
}

/// Returns the private memory of a process; `None` when the process has exited.
pub(super) fn private_memory(pid: i32) -> Option<PrivateMemory> {
    let rollup = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let private = kib(&rollup, "Private_Clean:")? + kib(&rollup, "Private_Dirty:")?;
    let anonymous = kib(&rollup, "Anonymous:")?;
    Some(PrivateMemory { anonymous, file_backed: (private - anonymous).max(0.0) })
}

/// Returns the peak resident memory of a process, in KiB; `None` when the process has
/// exited or is a zombie.
pub(super) fn peak_resident(pid: i32) -> Option<f64> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    kib(&status, "VmHWM:")
}

/// The processor time and context switches of a process's main thread since its start. A shim
/// usually has no other thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuUsage {
    /// Processor time, in nanoseconds.
    pub(super) cpu_ns: u64,
    /// Context switches, voluntary and involuntary.
    pub(super) switches: u64,
}

/// Returns the processor use of a process's main thread; `None` when it has exited. Reads the time
/// from `schedstat`, which counts nanoseconds. The file `stat` counts hundredths of a second, which
/// is too coarse because an idle process uses less than one hundredth.
pub(super) fn cpu_usage(pid: i32) -> Option<CpuUsage> {
    let schedstat = read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    let switches = number(&status, "voluntary_ctxt_switches:")?
        + number(&status, "nonvoluntary_ctxt_switches:")?;
    Some(CpuUsage { cpu_ns: schedstat.split(' ').next()?.parse().ok()?, switches: switches as u64 })
}

fn kib(text: &str, name: &str) -> Option<f64> {
    number(text, name)
}

fn number(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_the_current_process_is_read() {
        let own = i32::try_from(std::process::id()).expect("a pid fits an i32");
        assert!(private_memory(own).expect("/proc/PID/smaps_rollup").anonymous > 0.0);
        assert!(peak_resident(own).expect("/proc/PID/status") > 0.0);
        assert!(cpu_usage(own).is_some());
    }

    #[test]
    fn a_field_name_matches_only_at_the_start_of_a_line() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t3\n";
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(3.0));
    }
}
