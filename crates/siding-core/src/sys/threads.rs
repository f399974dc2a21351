//! Reads from `/proc` the status of a process, and the CPU time, the children and the present
//! system call of each of its threads.

use std::io::{self, Read};

/// The facts in `/proc/PID/stat` about a process and its main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The state letter, such as `R` (running) or `Z` (zombie).
    pub state: char,
    /// The process ID of the parent.
    pub parent: i32,
    /// The process group.
    pub group: i32,
    /// The device number of the controlling terminal; zero if there is none.
    pub terminal: i32,
    /// The foreground process group of the controlling terminal; -1 if there is none.
    pub foreground: i32,
    /// The user and system CPU time of all threads, in clock ticks.
    pub self_ticks: u64,
    /// The CPU time of the children that the process has waited for, in clock ticks.
    pub children_ticks: u64,
    /// The number of threads.
    pub threads: u32,
    /// The start time, in clock ticks since boot.
    pub start_ticks: u64,
    /// The resident memory, in bytes.
    pub resident_bytes: u64,
    /// The name of the main thread, padded with NUL bytes (`TASK_COMM_LEN`).
    name: [u8; 16],
}

impl ProcessStatus {
    /// Returns whether the process has this name.
    #[must_use]
    pub fn is_named(&self, name: &[u8]) -> bool {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        self.name[..length] == *name
    }
}

/// Reads a small file of `/proc` into `buffer`. One read returns the whole file.
fn read_small_file<'b>(path: &str, buffer: &'b mut [u8]) -> io::Result<&'b str> {
    let count = std::fs::File::open(path)?.read(buffer)?;
    std::str::from_utf8(&buffer[..count]).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Returns the status of a process. `None` if there is no such process, or if its file in `/proc`
/// cannot be read, for example because no descriptor is left.
#[must_use]
pub fn status(pid: i32) -> Option<ProcessStatus> {
    let mut buffer = [0; 1024];
    let count = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    parse_status(&buffer[..count])
}

fn parse_status(bytes: &[u8]) -> Option<ProcessStatus> {
    // The name may contain any character, including `)` and spaces; the last `)` in the file ends
    // the name.
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    let begin = bytes.iter().position(|&byte| byte == b'(')? + 1;
    let mut name = [0; 16];
    for (place, byte) in name.iter_mut().zip(bytes.get(begin..end)?) {
        *place = *byte;
    }
    let text = std::str::from_utf8(bytes.get(end + 2..)?).ok()?;
    // The first field is field 3 of proc_pid_stat(5).
    let mut fields = [""; 22];
    for (place, field) in fields.iter_mut().zip(text.split_ascii_whitespace()) {
        *place = field;
    }
    let field = |number: usize| fields[number - 3];
    let ticks = |number: usize| field(number).parse::<u64>().ok();
    Some(ProcessStatus {
        state: field(3).chars().next()?,
        parent: field(4).parse().ok()?,
        group: field(5).parse().ok()?,
        terminal: field(7).parse().ok()?,
        foreground: field(8).parse().ok()?,
        self_ticks: ticks(14)? + ticks(15)?,
        children_ticks: ticks(16)?.saturating_add(ticks(17)?),
        threads: field(20).parse().ok()?,
        start_ticks: ticks(22)?,
        resident_bytes: ticks(24)?.saturating_mul(rustix::param::page_size() as u64),
        name,
    })
}

/// The position at which a thread is executing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadLocation {
    /// On a CPU, or waiting for one.
    Running,
    /// In a system call, with its arguments.
    Syscall {
        /// The number of the system call.
        number: i64,
        /// The six argument registers; a call may use fewer.
        arguments: [u64; 6],
    },
    /// In the kernel, but not in a system call: for example, in a page fault.
    InKernel,
}

/// Returns the position at which a thread is executing.
///
/// # Errors
///
/// `EACCES` or `EPERM` if this process may not inspect the thread (ptrace(2),
/// `PTRACE_MODE_ATTACH`), `ENOENT` if there is no such thread or no such file.
pub fn thread_location(pid: i32, tid: i32) -> io::Result<ThreadLocation> {
    let mut buffer = [0; 256];
    let text = read_small_file(&format!("/proc/{pid}/task/{tid}/syscall"), &mut buffer)?;
    let mut words = text.split_ascii_whitespace();
    let first = words.next().unwrap_or("running");
    let Ok(number) = first.parse::<i64>() else { return Ok(ThreadLocation::Running) };
    if number < 0 {
        return Ok(ThreadLocation::InKernel);
    }
    let mut arguments = [0; 6];
    for (place, word) in arguments.iter_mut().zip(words) {
        *place = u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap_or(0);
    }
    Ok(ThreadLocation::Syscall { number, arguments })
}

/// Returns the kernel function in which a thread waits, or an empty text if the kernel does not
/// show it.
#[must_use]
pub fn wait_channel(pid: i32, tid: i32) -> String {
    let mut buffer = [0; 128];
    match read_small_file(&format!("/proc/{pid}/task/{tid}/wchan"), &mut buffer) {
        Ok("0") | Err(_) => String::new(),
        Ok(name) => name.to_owned(),
    }
}

/// Returns the CPU time of a thread, in nanoseconds; `None` if there is no such thread, or if the
/// kernel does not count the time.
#[must_use]
pub fn run_ns(pid: i32, tid: i32) -> Option<u64> {
    read_schedstat(pid, tid).map(|(ran, _)| ran)
}

/// Returns the time for which a thread has run or waited for a CPU, in nanoseconds; `None` as for
/// [`run_ns`].
#[must_use]
pub fn runnable_ns(pid: i32, tid: i32) -> Option<u64> {
    read_schedstat(pid, tid).map(|(ran, waited)| ran.saturating_add(waited))
}

/// Returns the first two numbers of a thread's `schedstat`
/// (Documentation/scheduler/sched-stats.rst).
fn read_schedstat(pid: i32, tid: i32) -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let text = read_small_file(&format!("/proc/{pid}/task/{tid}/schedstat"), &mut buffer).ok()?;
    let mut words = text.split_ascii_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// Returns the thread IDs of a process, the main thread first; none if they cannot be listed.
#[must_use]
pub fn list_threads(pid: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut tids: Vec<i32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    tids.sort_by_key(|tid| (*tid != pid, *tid));
    tids
}

/// Returns the process IDs of the children that a thread has started; none if they cannot be
/// listed.
#[must_use]
pub fn thread_children(pid: i32, tid: i32) -> Vec<i32> {
    let list = read_children_file(pid, tid).unwrap_or_default();
    let numbers = std::str::from_utf8(&list).unwrap_or_default();
    numbers.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Reads a thread's whole list of children, however long the list is. Most lists are empty or a few
/// bytes long, and a silent task is sampled often. This function therefore does not query the size
/// of the file, which is always shown as zero, and usually makes only one read.
fn read_children_file(pid: i32, tid: i32) -> io::Result<Vec<u8>> {
    /// The size of one read, in bytes. A read returns fewer bytes only at the end of the file,
    /// because the kernel's own buffer is larger: one page.
    const READ_BYTES: usize = 1024;
    let mut file = std::fs::File::open(format!("/proc/{pid}/task/{tid}/children"))?;
    let mut list = Vec::new();
    let mut buffer = [0; READ_BYTES];
    loop {
        let count = file.read(&mut buffer)?;
        list.extend_from_slice(&buffer[..count]);
        if count < READ_BYTES {
            return Ok(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_process_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"7 (a) S 1 2) R 1 7 7 34816 9 4194304 0 0 0 0 3 4 5 6 20 0 2 0 99 0 3";
        let status = parse_status(line).expect("parses");
        assert_eq!((status.state, status.parent, status.group), ('R', 1, 7));
        assert_eq!((status.terminal, status.foreground), (34816, 9));
        assert_eq!((status.self_ticks, status.children_ticks), (7, 11));
        assert_eq!((status.threads, status.start_ticks), (2, 99));
        assert_eq!(status.resident_bytes, 3 * rustix::param::page_size() as u64);
        assert_eq!(parse_status(b"7 (a) S 1"), None);
    }

    /// The list is longer than one read returns, and must be read to its end.
    #[test]
    fn all_children_are_listed_beyond_one_read() {
        const CHILD_COUNT: usize = 400;
        let text = format!(
            "for n in $(seq {CHILD_COUNT}); do sleep 60 & done; echo; read -r _; kill $(jobs -p); wait"
        );
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &text]);
        shell.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("bash is installed");
        let out = shell.stdout.as_mut().expect("is piped");
        out.read_exact(&mut [0]).expect("all children have started");
        let pid = i32::try_from(shell.id()).expect("fits");
        let found = thread_children(pid, pid);
        drop(shell.stdin.take());
        let _already_ended = shell.wait();
        // The list need not be in ascending order: process IDs start again after the highest.
        let distinct: BTreeSet<i32> = found.iter().copied().filter(|child| *child > 1).collect();
        assert_eq!((found.len(), distinct.len()), (CHILD_COUNT, CHILD_COUNT));
    }

    #[test]
    fn the_current_thread_is_running_and_listed() {
        let pid = i32::try_from(std::process::id()).expect("fits");
        assert!(status(pid).is_some_and(|status| status.threads >= 1));
        assert_eq!(list_threads(pid).first(), Some(&pid));
    }
}
