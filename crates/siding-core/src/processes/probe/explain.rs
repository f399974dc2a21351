//! Names the processes that explain a verdict, and what they wait for.

use siding_model::evidence::{
    BlockedOn, BlockedSyscall, BlockingCall, ChainLink, Diagnosis, FdObject, ProcessFacts,
    TaskSample, ThreadFacts, ThreadState, WhyVerdict,
};
use siding_model::text;

use crate::processes::tree;
use crate::sys::threads::{self, ThreadLocation};
use crate::sys::{inspect_process, procfs};

/// The maximum width of an object or a detail, in columns.
const TEXT_COLUMNS: usize = 160;
/// Maximum number of listed processes of a chain, not counting a process that waits for input while
/// others work. The middle of a longer chain is left out.
const MAX_CHAIN_LINKS: usize = 12;
/// Maximum number of processes that are named as holders of a lock or of the other end of a pipe.
const MAX_NAMED_HOLDERS: usize = 3;

/// Returns the chain of a diagnosis, from the topmost process to the one that explains the verdict.
/// A process that waits for input while others work, if there is one, is the last element.
/// `command` returns the command of a process.
#[must_use]
pub fn explain_chain(
    sample: &TaskSample,
    judged: &Diagnosis,
    command: &dyn Fn(i32) -> String,
) -> Vec<ChainLink> {
    let mut pids = judged.process_path.clone();
    if pids.len() > MAX_CHAIN_LINKS {
        let _between = pids.drain(MAX_CHAIN_LINKS / 2..pids.len() - MAX_CHAIN_LINKS / 2);
    }
    let last = pids.last().copied();
    pids.extend(judged.concurrent_reader);
    let named = pids.iter().filter_map(|pid| sample.process(*pid));
    named
        .map(|process| {
            let is_last = Some(process.process.pid) == last;
            let wanted = judged.thread.filter(|_| is_last);
            ProcessExplainer { sample, process, thread: find_thread(process, wanted), command }
                .chain_link(Some(judged))
        })
        .collect()
}

/// Returns the wait of each process of a sample, in the order of the sample. Yama may allow this
/// only to an ancestor of the processes; the details then say that the wait is not visible.
#[must_use]
pub fn explain_processes(sample: &TaskSample, command: &dyn Fn(i32) -> String) -> Vec<ChainLink> {
    let explain = |process| {
        let thread = find_thread(process, None);
        ProcessExplainer { sample, process, thread, command }.chain_link(None)
    };
    sample.processes.iter().map(explain).collect()
}

fn find_thread(process: &ProcessFacts, wanted: Option<i32>) -> Option<&ThreadFacts> {
    let found = process.threads.iter().find(|thread| Some(thread.tid) == wanted);
    found.or_else(|| process.threads.first())
}

struct ProcessExplainer<'s> {
    sample: &'s TaskSample,
    process: &'s ProcessFacts,
    thread: Option<&'s ThreadFacts>,
    command: &'s dyn Fn(i32) -> String,
}

impl ProcessExplainer<'_> {
    /// Describes the process. `judged` is the diagnosis of its task, if there is one.
    fn chain_link(&self, judged: Option<&Diagnosis>) -> ChainLink {
        let pid = self.process.process.pid;
        let mut link = ChainLink {
            pid,
            command: (self.command)(pid),
            state: self.process.state.to_string(),
            syscall: None,
            object: None,
            detail: None,
        };
        let stopped = matches!(self.process.state, 'T' | 't');
        match self.thread.map(|thread| &thread.state) {
            _ if stopped => link.detail = Some(self.stop_reason(judged).to_owned()),
            Some(ThreadState::Blocked(asleep)) => {
                link.syscall = (!asleep.name.is_empty()).then(|| asleep.name.to_owned());
                (link.object, link.detail) = self.describe_wait(asleep);
                if judged.is_some_and(|judged| judged.concurrent_reader == Some(pid)) {
                    link.detail = Some("waits for input while the others work".to_owned());
                }
            }
            Some(ThreadState::Denied) => {
                link.detail = Some("the kernel does not let siding inspect it".to_owned());
            }
            Some(ThreadState::Hidden) => {
                link.detail = Some("this kernel does not show what it waits for".to_owned());
            }
            Some(ThreadState::Running) | None => {}
        }
        link.object = link.object.map(|text| text::one_line(&text, TEXT_COLUMNS));
        link.detail = link.detail.map(|text| text::one_line(&text, TEXT_COLUMNS));
        link
    }

    fn stop_reason(&self, judged: Option<&Diagnosis>) -> &'static str {
        if self.process.state == 't' {
            "held by a debugger"
        } else if judged.is_some_and(|judged| judged.verdict == WhyVerdict::TtyStopped) {
            "stopped: it used its terminal from the background"
        } else {
            "stopped by a signal"
        }
    }

    /// Returns the object that the thread waits for, and a detail such as the process that could
    /// end the wait.
    fn describe_wait(&self, asleep: &BlockedSyscall) -> (Option<String>, Option<String>) {
        let pid = self.process.process.pid;
        match asleep.call {
            BlockingCall::Child | BlockingCall::Vfork => (Some("a child".to_owned()), None),
            BlockingCall::Sleep => (Some("timer".to_owned()), None),
            BlockingCall::Futex => (Some("another thread".to_owned()), None),
            BlockingCall::Signal => (Some("a signal".to_owned()), None),
            BlockingCall::Open => {
                let nobody = "no process has opened its other end".to_owned();
                (self.path_being_opened(), Some(nobody))
            }
            BlockingCall::Lock => {
                let fd = asleep.blocked_on.first().map(|waited| waited.fd);
                (
                    fd.and_then(|fd| inspect_process::fd_path(pid, fd)),
                    fd.and_then(|fd| self.lock_holder_name(fd)),
                )
            }
            BlockingCall::Read
            | BlockingCall::Write
            | BlockingCall::Poll
            | BlockingCall::Accept
            | BlockingCall::Connect
            | BlockingCall::Transfer
            | BlockingCall::Sync
            | BlockingCall::Other => match most_informative(&asleep.blocked_on) {
                Some(waited) => self.describe_descriptor(waited),
                None if !asleep.has_no_timeout => (Some("timer".to_owned()), None),
                None => (None, None),
            },
        }
    }

    fn describe_descriptor(&self, waited: &BlockedOn) -> (Option<String>, Option<String>) {
        let pid = self.process.process.pid;
        let name = inspect_process::fd_path(pid, waited.fd);
        let by_fd = || Some(format!("descriptor {}", waited.fd));
        match waited.object {
            FdObject::TaskStdin => (Some("the task's standard input".to_owned()), by_fd()),
            FdObject::OutputPipe if waited.for_reading => {
                (Some("the task's own output pipe".to_owned()), by_fd())
            }
            FdObject::OutputPipe => (Some("the task's own output pipe".to_owned()), None),
            FdObject::Pipe(inode) => (name, self.pipe_peer_name(inode, waited.for_reading)),
            FdObject::Listener | FdObject::Socket => self.describe_socket(waited.fd),
            FdObject::FileWatch => (Some("changes of files".to_owned()), None),
            FdObject::Timer => (Some("timer".to_owned()), None),
            FdObject::WakeupFd => (Some("its own events".to_owned()), None),
            FdObject::Terminal | FdObject::OtherTerminal | FdObject::Fifo => (name, by_fd()),
            FdObject::File | FdObject::Other => (name, None),
        }
    }

    fn describe_socket(&self, fd: i32) -> (Option<String>, Option<String>) {
        let Ok(socket) = inspect_process::socket_info(self.process.process.pid, fd) else {
            return (Some("a socket".to_owned()), None);
        };
        let local = socket.local.unwrap_or_else(|| "a socket without a name".to_owned());
        match socket.remote {
            _ if socket.is_listening => (Some(format!("connections to {local}")), None),
            Some(remote) => (
                Some(format!("a socket to {remote}")),
                Some(format!("remote {remote}, local {local}")),
            ),
            None => (Some("a socket".to_owned()), Some(format!("local {local}"))),
        }
    }

    /// Returns a text about the other end of a pipe: it names at most three other processes of the
    /// task that hold this end, or says that none does.
    fn pipe_peer_name(&self, inode: u64, to_read: bool) -> Option<String> {
        let name = format!("pipe:[{inode}]");
        let holds = |pid: i32| {
            inspect_process::open_fds(pid).into_iter().any(|(fd, reads, writes)| {
                let is_other = if to_read { writes } else { reads };
                is_other && inspect_process::fd_path(pid, fd).as_deref() == Some(&name)
            })
        };
        let others = self.sample.processes.iter().map(|one| one.process.pid);
        let holders: Vec<String> = others
            .filter(|pid| *pid != self.process.process.pid && holds(*pid))
            .take(MAX_NAMED_HOLDERS)
            .map(|pid| format!("{pid} ({})", text::one_line(&(self.command)(pid), 40)))
            .collect();
        Some(match (to_read, holders.is_empty()) {
            (true, true) => "no process of the task could write to it".to_owned(),
            (true, false) => format!("empty; its possible writers are {}", holders.join(", ")),
            (false, true) => "full; no process of the task reads it".to_owned(),
            (false, false) => format!("full; its reader is {}", holders.join(", ")),
        })
    }

    /// Returns a text that names the holders of a file's lock, or says that the kernel does not show
    /// them. `None` if the kernel lists no lock of the file, if the file cannot be identified, or if
    /// the processes cannot be listed.
    fn lock_holder_name(&self, fd: i32) -> Option<String> {
        let file = LockedFile::from_fd(self.process.process.pid, fd)?;
        let table = std::fs::read_to_string("/proc/locks").ok()?;
        let holder = table.lines().find_map(|line| parse_lock_holder(line, file))?;
        // After `exec 9>file; flock 9` the process that took the lock has exited. The shell and its
        // children still hold the open file description, which owns the lock (flock(2)).
        let has = |pid: i32| holds_lock(pid, file);
        let is_there = holder > 0
            && procfs::identify(holder).is_some()
            // The descriptors of another user's process cannot be read, so its entry in the table
            // is trusted.
            && (has(holder) || inspect_process::open_fds(holder).is_empty());
        let holders = if is_there {
            vec![holder]
        } else {
            let pids = procfs::all_pids().ok()?.into_iter();
            pids.filter(|pid| has(*pid)).take(MAX_NAMED_HOLDERS).collect()
        };
        if holders.is_empty() {
            return Some(
                "held through an open file; the kernel does not show by which process".to_owned(),
            );
        }
        let named = holders
            .iter()
            .map(|pid| format!("{pid} ({})", text::one_line(&tree::command_for_report(*pid), 60)));
        Some(format!("held by {}", named.collect::<Vec<_>>().join(", ")))
    }

    /// Returns the first 256 bytes of the path that the thread is opening; `None` if they cannot be
    /// read.
    fn path_being_opened(&self) -> Option<String> {
        let (pid, tid) = (self.process.process.pid, self.thread?.tid);
        let Ok(ThreadLocation::Syscall { arguments, .. }) = threads::thread_location(pid, tid)
        else {
            return None;
        };
        let is_at =
            matches!(&self.thread?.state, ThreadState::Blocked(asleep) if asleep.name == "openat");
        let mut bytes = [0; 256];
        let count =
            inspect_process::read_memory(pid, arguments[usize::from(is_at)], &mut bytes).ok()?;
        let path = bytes[..count].split(|&byte| byte == 0).next()?;
        (!path.is_empty()).then(|| String::from_utf8_lossy(path).into_owned())
    }
}

/// A file as the kernel's list of locks names it.
#[derive(Debug, Clone, Copy)]
struct LockedFile {
    /// The major and minor number of the file system; `None` if they are unknown.
    device: Option<(u32, u32)>,
    inode: u64,
}

impl LockedFile {
    fn from_fd(pid: i32, fd: i32) -> Option<Self> {
        let inode = inspect_process::fd_target(pid, fd)?.inode;
        // The list and mountinfo have the device number of the mounted file system. stat(2) may
        // return the number of a part of that file system, for example of a btrfs subvolume.
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(str::trim);
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        Some(Self { device: mount.and_then(|mount| mount_device(&mounts, mount)), inode })
    }
}

/// Returns the device numbers of a mount in the text of `/proc/PID/mountinfo`
/// (proc_pid_mountinfo(5)).
fn mount_device(mounts: &str, mount_id: &str) -> Option<(u32, u32)> {
    // `36 35 98:0 /mnt1 /mnt2 rw,noatime …`
    let mut lines = mounts.lines().map(|line| line.split_ascii_whitespace());
    let mut words = lines.find_map(|mut words| (words.next()? == mount_id).then_some(words))?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the process ID in a line of `/proc/locks` (proc_locks(5)), or of a `lock:` line of
/// fdinfo, if the line describes a held lock of this file. The ID is -1 for a lock that was taken
/// with `F_OFD_SETLK` (fcntl(2)).
fn parse_lock_holder(line: &str, file: LockedFile) -> Option<i32> {
    // `1: FLOCK ADVISORY WRITE 123 fe:01:456 0 EOF`; a waiter has `->` after the number.
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? == "->" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let mut numbers = words.next()?.split(':');
    let mut device_number = || u32::from_str_radix(numbers.next()?, 16).ok();
    let device = (device_number()?, device_number()?);
    let inode: u64 = numbers.next()?.parse().ok()?;
    (inode == file.inode && file.device.is_none_or(|wanted| wanted == device)).then_some(pid)
}

/// Returns whether a process holds a lock on a file through one of its descriptors, as the kernel
/// shows it in fdinfo (proc_pid_fdinfo(5)).
fn holds_lock(pid: i32, file: LockedFile) -> bool {
    let is_locked = |fd: i32| {
        let shown = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let mut locks = shown.lines().filter_map(|line| line.strip_prefix("lock:"));
        locks.any(|lock| parse_lock_holder(lock, file).is_some())
    };
    inspect_process::open_fds(pid).iter().any(|(fd, ..)| is_locked(*fd))
}

/// Returns the descriptor that best explains a wait. A source of input, for example, is preferred
/// to a timer.
fn most_informative(on: &[BlockedOn]) -> Option<&BlockedOn> {
    on.iter().min_by_key(|waited| match waited.object {
        FdObject::TaskStdin
        | FdObject::OutputPipe
        | FdObject::Terminal
        | FdObject::OtherTerminal => 0,
        FdObject::Listener => 1,
        FdObject::Socket => 2,
        FdObject::Fifo => 3,
        FdObject::Pipe(_) => 4,
        FdObject::FileWatch => 5,
        FdObject::File => 6,
        FdObject::Timer => 7,
        FdObject::WakeupFd | FdObject::Other => 8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_line_names_its_holder_and_not_its_waiters() {
        let held = "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF";
        let waits = "12: -> FLOCK  ADVISORY  WRITE 4712 fe:01:1234 0 EOF";
        let open_file = "13: OFDLCK ADVISORY  WRITE -1 fe:01:1234 0 EOF";
        let file = LockedFile { device: Some((0xfe, 1)), inode: 1234 };
        assert_eq!(parse_lock_holder(held, file), Some(4711));
        assert_eq!(parse_lock_holder(held, LockedFile { inode: 234, ..file }), None);
        assert_eq!(parse_lock_holder(waits, file), None);
        assert_eq!(parse_lock_holder(open_file, file), Some(-1));
        assert_eq!(parse_lock_holder("", file), None);
    }

    #[test]
    fn a_lock_of_the_same_inode_on_another_file_system_is_not_named() {
        let held = "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF";
        let mounts = "35 1 254:1 / / rw - ext4 /dev/a rw\n36 35 254:2 / /b rw - ext4 /dev/b rw\n";
        let on = |mount| LockedFile { device: mount_device(mounts, mount), inode: 1234 };
        assert_eq!(parse_lock_holder(held, on("35")), Some(4711));
        assert_eq!(parse_lock_holder(held, on("36")), None);
        assert_eq!(parse_lock_holder(held, on("99")), Some(4711), "its device is not known");
    }
}
