//! The kernel's view of processes, read from `/proc` alone. The tests compare siding's answers with
//! this module, so it shares no code with siding. Only [`Process::kill`] and [`Process::signal`]
//! signal a process; they use a pidfd and check the start time first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::eventually::{POLL_DEADLINE, poll_within};

/// Time without a new byte after which [`is_heartbeat_stopped`] returns true: 25 missed beats.
const HEARTBEAT_STOPPED_AFTER: Duration = Duration::from_millis(500);

/// A process, identified by pid and start time, because the kernel reuses pids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Process id, which the kernel may reuse after the process has been reaped.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of proc_pid_stat(5)).
    pub start: u64,
}

impl Process {
    /// Returns the process that has this pid now; `None` when there is none.
    pub fn from_pid(pid: u32) -> Option<Self> {
        Some(Self { pid, start: start_ticks(pid)? })
    }

    /// Returns the calling process.
    ///
    /// # Panics
    ///
    /// When `/proc` is not mounted.
    pub fn current() -> Self {
        Self::from_pid(std::process::id()).expect("a running process is in /proc")
    }

    /// Returns whether the process still runs; see [`is_alive`].
    pub fn is_alive(self) -> bool {
        is_alive(self.pid, self.start)
    }

    /// Sends SIGKILL, unless the process has exited. Never signals another process to which the
    /// kernel has since given the same pid.
    pub fn kill(self) {
        self.signal(rustix::process::Signal::KILL);
    }

    /// Sends `signal`, unless the process has exited. Never signals another process to which the
    /// kernel has since given the same pid.
    pub fn signal(self, signal: rustix::process::Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw)
        else {
            return;
        };
        let flags = rustix::process::PidfdFlags::empty();
        // The pidfd is opened first, so that it refers to the process whose start time is then
        // compared. In the other order, another process could reuse the pid in between
        // (pidfd_open(2)).
        let Ok(pidfd) = rustix::process::pidfd_open(pid, flags) else {
            return;
        };
        if start_ticks(self.pid) == Some(self.start) {
            let _already_ended = rustix::process::pidfd_send_signal(&pidfd, signal);
        }
    }
}

/// The fields of `/proc/PID/stat` that tests use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R`, `S`, `D`, `T`, `Z` …
    pub state: char,
    /// Pid of the parent, which changes when the process is orphaned.
    pub parent: u32,
    /// Id of the process group, which is the pid of its first member.
    pub group: u32,
    /// Id of the session, which is the pid of its first member.
    pub session: u32,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

/// Reads `/proc/PID/stat`; `None` when there is no such process.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a line of `/proc/PID/stat`. The process name in it may contain blanks and parentheses, so
/// the fields are counted from the last `)`.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&line[name_end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the start time of a process in clock ticks since boot; `None` when there is no such
/// process.
pub fn start_ticks(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.start)
}

/// Returns the state letter of a process; `None` when there is no such process.
pub fn state(pid: u32) -> Option<char> {
    stat(pid).map(|stat| stat.state)
}

/// Returns whether the process still runs. A process in state `Z` counts as alive if only its main
/// thread has ended, because other threads still run then.
pub fn is_alive(pid: u32, start: u64) -> bool {
    match stat(pid) {
        Some(stat) if stat.start != start => false,
        Some(stat) if matches!(stat.state, 'Z' | 'X') => threads(pid)
            .into_iter()
            .any(|thread| matches!(thread_state(pid, thread), Some(state) if !matches!(state, 'Z' | 'X'))),
        Some(_) => true,
        None => false,
    }
}

/// Returns the ids of all threads of a process; empty when there is no such process.
pub fn threads(pid: u32) -> Vec<u32> {
    numeric_entries(Path::new(&format!("/proc/{pid}/task")))
}

fn thread_state(pid: u32, thread: u32) -> Option<char> {
    let line = std::fs::read(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
    parse_stat(&line).map(|stat| stat.state)
}

/// Returns the pids of all processes.
pub fn list_pids() -> Vec<u32> {
    numeric_entries(Path::new("/proc"))
}

fn numeric_entries(dir: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return vec![];
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns all processes below `pid` by parent links, zombies included, nearest first. An orphaned
/// process is a child of its subreaper or of init, so this function finds it only if that process
/// is `pid` or a descendant of `pid`.
pub fn descendants(pid: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        list_pids().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut found = vec![pid];
    let mut visited = 0;
    while let Some(&above) = found.get(visited) {
        visited += 1;
        found.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
    }
    found.split_off(1)
}

/// Returns the number of voluntary context switches of a process's main thread; 0 when there is no
/// such process.
pub fn voluntary_switches(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().expect("a number"))
}

/// Returns the command line with blanks between the words, or the name in brackets if the command
/// line is empty.
pub fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = words
        .split(|&byte| byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.is_empty() { format!("[{}]", comm(pid)) } else { words.join(" ") }
}

/// Returns the name of a process (`comm`); empty when there is no such process.
pub fn comm(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// Returns the environment that a process was started with, one `NAME=VALUE` per string. If the
/// main thread has ended, `/proc/PID/environ` is empty, and the environment is read from another
/// thread.
pub fn environment(pid: u32) -> Vec<String> {
    let read = |path: String| std::fs::read(path).ok().filter(|block| !block.is_empty());
    let block = read(format!("/proc/{pid}/environ")).or_else(|| {
        matches!(state(pid), Some('Z'))
            .then(|| threads(pid))?
            .into_iter()
            .find_map(|thread| read(format!("/proc/{pid}/task/{thread}/environ")))
    });
    block
        .unwrap_or_default()
        .split(|&byte| byte == 0)
        .filter(|entry| !entry.is_empty())
        .map(|entry| String::from_utf8_lossy(entry).into_owned())
        .collect()
}

/// Returns the target of each descriptor of a process, by number; empty if there is no such process
/// or its descriptors cannot be read.
pub fn descriptors(pid: u32) -> Vec<(u32, PathBuf)> {
    let dir = format!("/proc/{pid}/fd");
    let mut found: Vec<(u32, PathBuf)> = numeric_entries(Path::new(&dir))
        .into_iter()
        .filter_map(|fd| Some((fd, std::fs::read_link(format!("{dir}/{fd}")).ok()?)))
        .collect();
    found.sort();
    found
}

/// Returns the birthmark of a task id as a 60-bit number. The twelve characters after the letter of
/// the task's kind are the digits in Crockford's base 32 (lower case), most significant first.
/// `None` if `id` is not a task id.
pub fn birthmark_from_id(id: &str) -> Option<u64> {
    const ALPHABET: &str = "0123456789abcdefghjkmnpqrstvwxyz";
    let (_, digits) =
        id.split_once('-').filter(|(kind, digits)| kind.len() == 1 && digits.len() == 12)?;
    digits.chars().try_fold(0, |sum, digit| Some(sum << 5 | ALPHABET.find(digit)? as u64))
}

/// Returns the birthmark of a process: its soft limit RLIMIT_RTTIME in microseconds, if the hard
/// limit has the same value.
pub fn read_birthmark(pid: u32) -> Option<u64> {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    let mut values = line.split_ascii_whitespace();
    let soft: u64 = values.next()?.parse().ok()?;
    let hard: u64 = values.next()?.parse().ok()?;
    (soft == hard).then_some(soft)
}

/// Asserts that this process carries no birthmark. The process carries one when an agent runs the
/// tests under siding. The processes of the tests then inherit the mark of that task, so siding
/// would neither adopt them nor treat them as unowned.
///
/// # Panics
///
/// When this process carries a birthmark. The test cannot remove the birthmark, because that needs
/// `CAP_SYS_RESOURCE` (setrlimit(2)), which root lacks in a container.
#[track_caller]
pub fn assert_no_birthmark() {
    assert_eq!(
        read_birthmark(std::process::id()),
        None,
        "the tests run inside a task of siding, whose mark (RLIMIT_RTTIME) all they start inherits: \
         run them outside of siding"
    );
}

/// Returns all living processes that carry the birthmark of this task id.
pub fn with_birthmark(id: &str) -> Vec<Process> {
    let Some(wanted) = birthmark_from_id(id) else {
        return vec![];
    };
    list_pids()
        .into_iter()
        .filter(|&pid| read_birthmark(pid) == Some(wanted))
        .filter_map(Process::from_pid)
        .filter(|process| process.is_alive())
        .collect()
}

/// Returns whether `file` grows within [`POLL_DEADLINE`], that is, whether some process still
/// appends to it. Returns `true` at the first new byte.
pub fn is_heartbeat_running(file: &Path) -> bool {
    grows_within(file, POLL_DEADLINE)
}

/// Returns whether `file` does not grow for 25 beats. Returns `false` at the first new byte.
///
/// A process that gets no processor time appends nothing either: combine this check with
/// [`is_alive`].
pub fn is_heartbeat_stopped(file: &Path) -> bool {
    !grows_within(file, HEARTBEAT_STOPPED_AFTER)
}

fn grows_within(file: &Path, timeout: Duration) -> bool {
    let length = || std::fs::metadata(file).map_or(0, |found| found.len());
    let before = length();
    poll_within(timeout, || (length() > before).then_some(())).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_brackets_does_not_shift_the_fields() {
        let line = b"42 (a) S (b) T 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let stat = parse_stat(line).expect("a whole line");
        assert_eq!((stat.state, stat.parent, stat.group, stat.session), ('T', 1, 2, 3));
        assert_eq!(stat.start, 777);
    }

    #[test]
    fn a_pid_with_another_start_time_is_not_alive() {
        let me = Process::current();
        assert!(me.is_alive());
        assert!(!is_alive(me.pid, me.start + 1));
        assert!(threads(me.pid).contains(&me.pid));
    }

    #[test]
    fn birthmark_is_decoded_from_a_task_id() {
        assert_eq!(birthmark_from_id("b-000000000001"), Some(1));
        assert_eq!(birthmark_from_id("b-100000000000"), Some(1 << 55));
        assert_eq!(birthmark_from_id("b-zzzzzzzzzzzz"), Some((1 << 60) - 1));
        assert_eq!(birthmark_from_id("b-00000000000i"), None);
        assert_eq!(birthmark_from_id("b-0"), None);
    }
}
