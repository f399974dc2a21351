//! Names for the processes that explain a verdict, and for what they wait on.

use siding_model::evidence::{
    Asleep, Call, Doing, Judgement, Link, Object, ProcessFacts, Sample, ThreadFacts, Verdict,
    Waited,
};
use siding_model::text;

use crate::sys::threads::{self, Place};
use crate::sys::{foreign, procfs};
use crate::tree;

/// Columns of a name or a detail.
const COLUMNS: usize = 160;
/// Processes that are told one by one, from both ends of a long chain.
const MOST: usize = 12;
/// Processes at the other end of a pipe, or with a lock, that are named.
const ENDS: usize = 3;

/// Returns the chain of a judgement, from the topmost process to the one that explains it.
/// `command` names a process.
#[must_use]
pub fn links(sample: &Sample, judged: &Judgement, command: &dyn Fn(i32) -> String) -> Vec<Link> {
    let mut pids = judged.path.clone();
    if pids.len() > MOST {
        let _between = pids.drain(MOST / 2..pids.len() - MOST / 2);
    }
    let last = pids.last().copied();
    // Who reads beside the work is told too, behind it.
    pids.extend(judged.aside);
    let named = pids.iter().filter_map(|pid| sample.process(*pid));
    named
        .map(|process| {
            let is_last = Some(process.process.pid) == last;
            let wanted = judged.thread.filter(|_| is_last);
            Explained { sample, process, thread: thread(process, wanted), command }.link(judged)
        })
        .collect()
}

fn thread(process: &ProcessFacts, wanted: Option<i32>) -> Option<&ThreadFacts> {
    let found = process.threads.iter().find(|thread| Some(thread.tid) == wanted);
    found.or_else(|| process.threads.first())
}

struct Explained<'s> {
    sample: &'s Sample,
    process: &'s ProcessFacts,
    thread: Option<&'s ThreadFacts>,
    command: &'s dyn Fn(i32) -> String,
}

impl Explained<'_> {
    fn link(&self, judged: &Judgement) -> Link {
        let pid = self.process.process.pid;
        let mut link = Link {
            pid,
            command: (self.command)(pid),
            state: self.process.state.to_string(),
            syscall: None,
            object: None,
            detail: None,
        };
        let stopped = matches!(self.process.state, 'T' | 't');
        match self.thread.map(|thread| &thread.doing) {
            _ if stopped => link.detail = Some(self.stopped(judged).to_owned()),
            Some(Doing::Asleep(asleep)) => {
                link.syscall = (!asleep.name.is_empty()).then(|| asleep.name.to_owned());
                (link.object, link.detail) = self.wait(asleep);
                if judged.aside == Some(pid) {
                    link.detail = Some("would read input while the others work".to_owned());
                }
            }
            Some(Doing::Denied) => {
                link.detail = Some("the kernel does not let siding look into it".to_owned());
            }
            Some(Doing::Hidden) => {
                link.detail = Some("this kernel does not tell what it waits for".to_owned());
            }
            Some(Doing::Running) | None => {}
        }
        link.object = link.object.map(|text| text::one_line(&text, COLUMNS));
        link.detail = link.detail.map(|text| text::one_line(&text, COLUMNS));
        link
    }

    const fn stopped(&self, judged: &Judgement) -> &'static str {
        if self.process.state == 't' {
            "held by a debugger"
        } else if matches!(judged.verdict, Verdict::TtyStopped) {
            "stopped: it used its terminal from the background"
        } else {
            "stopped by a signal"
        }
    }

    /// Returns what is waited for, and who could end the wait.
    fn wait(&self, asleep: &Asleep) -> (Option<String>, Option<String>) {
        let pid = self.process.process.pid;
        match asleep.call {
            Call::Child | Call::Vfork => (Some("a child".to_owned()), None),
            Call::Sleep => (Some("timer".to_owned()), None),
            Call::Futex => (Some("another thread".to_owned()), None),
            Call::Signal => (Some("a signal".to_owned()), None),
            Call::Open => {
                let nobody = "nobody has opened its other end".to_owned();
                (self.opened(), Some(nobody))
            }
            Call::Lock => {
                let fd = asleep.on.first().map(|waited| waited.fd);
                (fd.and_then(|fd| foreign::name(pid, fd)), fd.and_then(|fd| self.holder(fd)))
            }
            Call::Read
            | Call::Write
            | Call::Poll
            | Call::Accept
            | Call::Connect
            | Call::Transfer
            | Call::Sync
            | Call::Other => match most_telling(&asleep.on) {
                Some(waited) => self.descriptor(waited),
                None if !asleep.is_endless => (Some("timer".to_owned()), None),
                None => (None, None),
            },
        }
    }

    fn descriptor(&self, waited: &Waited) -> (Option<String>, Option<String>) {
        let pid = self.process.process.pid;
        let name = foreign::name(pid, waited.fd);
        let by_fd = || Some(format!("descriptor {}", waited.fd));
        match waited.object {
            Object::Input => (Some("the task's standard input".to_owned()), by_fd()),
            Object::Capture if waited.to_read => {
                (Some("the task's own output pipe".to_owned()), by_fd())
            }
            Object::Capture => (Some("the task's own output pipe".to_owned()), None),
            Object::Pipe(inode) => (name, self.other_end(inode, waited.to_read)),
            Object::Listener | Object::Socket => self.socket(waited.fd),
            Object::FileWatch => (Some("changes of files".to_owned()), None),
            Object::Timer => (Some("timer".to_owned()), None),
            Object::Waker => (Some("its own events".to_owned()), None),
            Object::Terminal | Object::Fifo => (name, by_fd()),
            Object::File | Object::Other => (name, None),
        }
    }

    fn socket(&self, fd: i32) -> (Option<String>, Option<String>) {
        let Ok(socket) = foreign::socket(self.process.process.pid, fd) else {
            return (Some("a socket".to_owned()), None);
        };
        let local = socket.local.unwrap_or_else(|| "a socket without a name".to_owned());
        match socket.remote {
            _ if socket.listens => (Some(format!("connections to {local}")), None),
            Some(remote) => (
                Some(format!("a socket to {remote}")),
                Some(format!("remote {remote}, local {local}")),
            ),
            None => (Some("a socket".to_owned()), Some(format!("local {local}"))),
        }
    }

    /// Returns who holds the other end of a pipe, among the task's own processes.
    fn other_end(&self, inode: u64, to_read: bool) -> Option<String> {
        let name = format!("pipe:[{inode}]");
        let holds = |pid: i32| {
            foreign::descriptors(pid).into_iter().any(|(fd, reads, writes)| {
                let is_other = if to_read { writes } else { reads };
                is_other && foreign::name(pid, fd).as_deref() == Some(&name)
            })
        };
        let others = self.sample.processes.iter().map(|one| one.process.pid);
        let holders: Vec<String> = others
            .filter(|pid| *pid != self.process.process.pid && holds(*pid))
            .take(ENDS)
            .map(|pid| format!("{pid} ({})", text::one_line(&(self.command)(pid), 40)))
            .collect();
        Some(match (to_read, holders.is_empty()) {
            (true, true) => "nobody of the task could write to it".to_owned(),
            (true, false) => format!("empty; could be written by {}", holders.join(", ")),
            (false, true) => "full; nobody of the task reads it".to_owned(),
            (false, false) => format!("full; its reader is {}", holders.join(", ")),
        })
    }

    /// Returns who holds the lock of a file.
    fn holder(&self, fd: i32) -> Option<String> {
        let target = foreign::descriptor(self.process.process.pid, fd)?;
        let table = std::fs::read_to_string("/proc/locks").ok()?;
        let holder = table.lines().find_map(|line| holder_of(line, target.inode))?;
        // `exec 9>file; flock 9`: whoever took it is gone, and the shell and its children have the
        // file open through which it was taken.
        let has = |pid: i32| has_locked(pid, target.inode);
        let is_there = holder > 0
            && procfs::identify(holder).is_some()
            // Another user's cannot be looked into.
            && (has(holder) || foreign::descriptors(holder).is_empty());
        let holders = if is_there {
            vec![holder]
        } else {
            procfs::all_pids().into_iter().filter(|pid| has(*pid)).take(ENDS).collect()
        };
        if holders.is_empty() {
            return Some("held through an open file; the kernel does not say by whom".to_owned());
        }
        let named = holders
            .iter()
            .map(|pid| format!("{pid} ({})", text::one_line(&tree::command_of(*pid), 60)));
        Some(format!("held by {}", named.collect::<Vec<_>>().join(", ")))
    }

    /// Returns the path that the thread is about to open.
    fn opened(&self) -> Option<String> {
        let (pid, tid) = (self.process.process.pid, self.thread?.tid);
        let Ok(Place::Call { arguments, .. }) = threads::place(pid, tid) else { return None };
        let is_at = matches!(&self.thread?.doing, Doing::Asleep(asleep) if asleep.name == "openat");
        let mut bytes = [0; 256];
        let count = foreign::read_memory(pid, arguments[usize::from(is_at)], &mut bytes).ok()?;
        let path = bytes[..count].split(|&byte| byte == 0).next()?;
        (!path.is_empty()).then(|| String::from_utf8_lossy(path).into_owned())
    }
}

/// Returns the holder that a line of `/proc/locks` names for a file (proc_locks(5)).
fn holder_of(line: &str, inode: u64) -> Option<i32> {
    // `1: FLOCK ADVISORY WRITE 123 fe:01:456 0 EOF`; those who wait have `->` after the number.
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? == "->" {
        return None;
    }
    let pid = words.nth(2)?.parse().ok()?;
    let file = words.next()?.rsplit(':').next()?;
    (file.parse() == Ok(inode)).then_some(pid)
}

/// Whether a process has a file open with a lock on it: the kernel shows that with the descriptor
/// (proc_pid_fdinfo(5)).
fn has_locked(pid: i32, inode: u64) -> bool {
    let is_locked = |fd: i32| {
        let shown = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
        let mut locks = shown.lines().filter_map(|line| line.strip_prefix("lock:"));
        locks.any(|lock| holder_of(lock, inode).is_some())
    };
    foreign::descriptors(pid).iter().any(|(fd, ..)| is_locked(*fd))
}

/// Returns what of a set explains the wait best.
fn most_telling(on: &[Waited]) -> Option<&Waited> {
    on.iter().min_by_key(|waited| match waited.object {
        Object::Input | Object::Capture | Object::Terminal => 0,
        Object::Listener => 1,
        Object::Socket => 2,
        Object::Fifo => 3,
        Object::Pipe(_) => 4,
        Object::FileWatch => 5,
        Object::File => 6,
        Object::Timer => 7,
        Object::Waker | Object::Other => 8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_its_holder_and_not_those_who_wait() {
        let held = "12: FLOCK  ADVISORY  WRITE 4711 fe:01:1234 0 EOF";
        let waits = "12: -> FLOCK  ADVISORY  WRITE 4712 fe:01:1234 0 EOF";
        let open_file = "13: OFDLCK ADVISORY  WRITE -1 fe:01:1234 0 EOF";
        assert_eq!(holder_of(held, 1234), Some(4711));
        assert_eq!(holder_of(held, 234), None);
        assert_eq!(holder_of(waits, 1234), None);
        assert_eq!(holder_of(open_file, 1234), Some(-1));
        assert_eq!(holder_of("", 1), None);
    }
}
