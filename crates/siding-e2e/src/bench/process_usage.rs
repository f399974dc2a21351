//! What `/proc` says about the cost of a process.

use std::fs::read_to_string;

/// Memory that only one process uses, in KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrivateMemory {
    /// Belongs to no file: stack, heap, and what was written of mapped files.
    pub(super) anonymous: f64,
    /// Unchanged pages of files that nobody else maps at this moment.
    pub(super) file_backed: f64,
}

/// Returns the private memory of a process, `None` when it is gone.
pub(super) fn private_memory(pid: i32) -> Option<PrivateMemory> {
    let rollup = read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let private = kib(&rollup, "Private_Clean:")? + kib(&rollup, "Private_Dirty:")?;
    let anonymous = kib(&rollup, "Anonymous:")?;
    Some(PrivateMemory { anonymous, file_backed: (private - anonymous).max(0.0) })
}

/// Returns the most memory a process ever had resident, in KiB, `None` when it is gone or only a
/// zombie.
pub(super) fn peak_resident(pid: i32) -> Option<f64> {
    let status = read_to_string(format!("/proc/{pid}/status")).ok()?;
    kib(&status, "VmHWM:")
}

/// What a process has used of the processor so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CpuUsage {
    /// Nanoseconds.
    pub(super) cpu_ns: u64,
    /// Times it was switched to something else, of its own will or not.
    pub(super) switches: u64,
}

/// Returns what a process has used. `schedstat` counts nanoseconds, the times in `stat` only
/// hundredths of a second, of which an idle process never fills one.
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
        let own = i32::try_from(std::process::id()).expect("a pid is small");
        assert!(private_memory(own).expect("smaps_rollup").anonymous > 0.0);
        assert!(peak_resident(own).expect("status") > 0.0);
        assert!(cpu_usage(own).is_some());
    }

    #[test]
    fn a_field_name_matches_only_at_the_start_of_a_line() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t3\n";
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(3.0));
    }
}
