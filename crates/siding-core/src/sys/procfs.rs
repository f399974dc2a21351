//! Reads facts about processes from `/proc`. Each result may be outdated a moment later.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::Read;
use std::ops::Range;

use siding_model::id::Birthmark;
use siding_model::process::{BootId, ProcRef};
use siding_model::signal::Signal;

/// The fields of `/proc/PID/stat` that siding uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessStat {
    /// The state letter, such as `R` (running) or `Z` (zombie).
    pub state: char,
    /// The process ID of the parent.
    pub ppid: i32,
    /// The ID of the process group.
    pub pgrp: i32,
    /// The ID of the kernel's session (setsid(2)), which is not a session of siding.
    pub session: i32,
    /// Whether the process has a controlling terminal.
    pub has_terminal: bool,
    /// The user and system CPU time, in clock ticks.
    pub cpu_ticks: u64,
    /// The start time, in clock ticks since boot.
    pub start_ticks: u64,
    /// The wait status of a zombie; 0 if the process is not a zombie, or if this process may not
    /// see the status. `None` if the kernel shows no such field.
    pub exit_code: Option<i32>,
}

/// Clock ticks per second: 100 on every Linux that siding runs on (`sysconf(_SC_CLK_TCK)`).
pub const TICKS_PER_SECOND: u64 = 100;

/// Reads a file into `buffer`, as far as the buffer has room. `None` if the file cannot be read.
fn read_into<'b>(path: &str, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    try_read_into(path, buffer).ok()
}

fn try_read_into<'b>(path: &str, buffer: &'b mut [u8]) -> std::io::Result<&'b [u8]> {
    let mut file = std::fs::File::open(path)?;
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

/// Returns whether a read failed because no descriptor or kernel memory was left. A failure of this
/// kind says nothing about the process whose file was read.
#[must_use]
pub fn is_out_of_resources(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::MFILE, Errno::NFILE, Errno::NOMEM].contains(&errno))
}

/// Returns the parsed fields of `/proc/PID/stat`. `None` if there is no such process, or if the
/// file cannot be read, for example because no descriptor is left.
#[must_use]
pub fn stat(pid: i32) -> Option<ProcessStat> {
    let mut buffer = [0; 1024];
    parse_stat(read_into(&format!("/proc/{pid}/stat"), &mut buffer)?)
}

fn parse_stat(bytes: &[u8]) -> Option<ProcessStat> {
    // The name may contain any character, including `)` and spaces; the last `)` ends it.
    let after = bytes.iter().rposition(|&byte| byte == b')')? + 2;
    let text = std::str::from_utf8(bytes.get(after..)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    // The first field here is field 3 of proc_pid_stat(5).
    let state = fields.next()?.chars().next()?;
    let rest: Vec<&str> = fields.collect();
    let field = |number: usize| rest.get(number - 4).copied();
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    Some(ProcessStat {
        state,
        ppid: field(4)?.parse().ok()?,
        pgrp: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        has_terminal: field(7)? != "0",
        cpu_ticks: number(14)? + number(15)?,
        start_ticks: number(22)?,
        exit_code: field(52).and_then(|text| text.parse().ok()),
    })
}

/// Returns the identity of the process that has this ID now; `None` as for [`stat`].
#[must_use]
pub fn identify(pid: i32) -> Option<ProcRef> {
    stat(pid).map(|stat| ProcRef { pid, start_ticks: stat.start_ticks })
}

/// Returns the identity of this process; `None` if `/proc` cannot be read.
#[must_use]
pub fn self_ref() -> Option<ProcRef> {
    identify(rustix::process::getpid().as_raw_nonzero().get())
}

/// The fields of `/proc/self/stat` that siding uses.
#[derive(Debug)]
pub struct SelfStat {
    /// The identity of this process.
    pub process: ProcRef,
    /// The addresses of the argument strings and of the environment strings, if they are shown.
    pub(super) string_ranges: Option<(Range<usize>, Range<usize>)>,
}

/// Reads `/proc/self/stat`; `None` if the file cannot be read.
#[must_use]
pub fn self_stat() -> Option<SelfStat> {
    let mut buffer = [0; 1024];
    let bytes = read_into("/proc/self/stat", &mut buffer)?;
    let start_ticks = parse_stat(bytes)?.start_ticks;
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    Some(SelfStat {
        process: ProcRef { pid, start_ticks },
        string_ranges: parse_string_ranges(bytes),
    })
}

/// Returns fields 48 to 51 of proc_pid_stat(5), or `None` if the kernel hides them by showing
/// zeros.
fn parse_string_ranges(stat: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let after = stat.iter().rposition(|&byte| byte == b')')? + 2;
    let text = std::str::from_utf8(stat.get(after..)?).ok()?;
    // The text starts with field 3.
    let mut addresses = text.split_ascii_whitespace().skip(48 - 3).map(str::parse);
    let mut address = || addresses.next()?.ok().filter(|address| *address != 0);
    Some((address()?..address()?, address()?..address()?))
}

/// Returns the control groups of this process, each as a line `HIERARCHY:CONTROLLERS:PATH`.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn self_cgroups() -> std::io::Result<String> {
    // The size of the file is unknown, because the kernel shows zero. The buffer has room for a
    // typical file, so that one read is enough.
    let mut text = String::with_capacity(4096);
    std::fs::File::open("/proc/self/cgroup")?.take(u64::MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Returns whether exactly this process still runs. False if its main thread has exited: the
/// process is then a zombie, or only its other threads run. Also false if [`stat`] returns `None`.
#[must_use]
pub fn is_running(process: ProcRef) -> bool {
    stat(process.pid)
        .is_some_and(|stat| stat.start_ticks == process.start_ticks && stat.state != 'Z')
}

/// Returns the children of all threads of a process. The lists are not atomic
/// (proc_tid_children(5)), so an empty result does not prove that there is no child.
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    for thread in threads.flatten() {
        let Some(tid) = thread.file_name().to_str().map(str::to_owned) else { continue };
        let list = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
        let Ok(list) = list else { continue };
        found.extend(list.split_ascii_whitespace().filter_map(|child| child.parse::<i32>().ok()));
    }
    found
}

/// Returns every process ID that `/proc` shows.
///
/// # Errors
///
/// The I/O error if `/proc` cannot be read completely, for example because no descriptor is left.
pub fn all_pids() -> std::io::Result<Vec<i32>> {
    use rustix::fs::{CWD, Mode, OFlags, RawDir};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())?;
    let mut pids = Vec::new();
    let mut entries = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(proc, entries.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        // A part of the list would be taken for the whole list.
        let entry = entry?;
        pids.extend(entry.file_name().to_str().ok().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(pids)
}

/// Returns the ID that was assigned last, to a process or a thread. IDs are assigned in ascending
/// order, and start again with low ones after the highest. `None` if `/proc/loadavg` cannot be
/// read.
#[must_use]
pub fn newest_pid() -> Option<i32> {
    let mut buffer = [0; 128];
    let text = std::str::from_utf8(read_into("/proc/loadavg", &mut buffer)?).ok()?;
    text.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Returns the birthmark of a process of any user. `None` if the process has no birthmark, no
/// longer exists, or could not be read.
#[must_use]
pub fn birthmark(pid: i32) -> Option<Birthmark> {
    read_birthmark(pid).ok().flatten()
}

/// Returns the birthmark of a process of any user. `None` if the process has no birthmark, no
/// longer exists, or is hidden (hidepid, proc(5)).
///
/// For processes of this user prlimit(2) reads the limit itself (0.5 µs). For other users'
/// processes this function reads `/proc/PID/limits` (8 µs), which every user may read.
///
/// # Errors
///
/// `EMFILE`, `ENFILE` or `ENOMEM`: the mark could not be read, and the process may have one.
pub fn read_birthmark(pid: i32) -> std::io::Result<Option<Birthmark>> {
    match super::birthmark::hard_rttime(pid) {
        Ok(limit) => Ok(limit.map(Birthmark)),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            birthmark_from_limits_file(pid)
        }
        Err(_) => Ok(None),
    }
}

fn birthmark_from_limits_file(pid: i32) -> std::io::Result<Option<Birthmark>> {
    let mut buffer = [0; 2048];
    match try_read_into(&format!("/proc/{pid}/limits"), &mut buffer) {
        Ok(text) => Ok(parse_birthmark(text)),
        Err(error) if is_out_of_resources(&error) => Err(error),
        // The process no longer exists, or is hidden (hidepid, proc(5)).
        Err(_) => Ok(None),
    }
}

fn parse_birthmark(limits: &[u8]) -> Option<Birthmark> {
    let text = std::str::from_utf8(limits).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
    // Soft limit, hard limit, unit. The hard limit is the mark, because a process may change its
    // soft limit at will.
    line.split_ascii_whitespace().nth(1)?.parse().ok().map(Birthmark)
}

/// Returns the effective user ID of a process, or root's if the memory of the process is protected
/// (proc(5)). `None` if the process no longer exists.
#[must_use]
pub fn uid(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|facts| facts.uid())
}

/// Returns the user ID of a process. `None` if its real, effective and saved user IDs differ, or if
/// it no longer exists. Unlike [`uid`], this function also works for a process whose memory is
/// protected. Root owns the files of such a process in `/proc`, so the owner of the files does not
/// show the user (proc(5)).
#[must_use]
pub fn single_uid(pid: i32) -> Option<u32> {
    let mut buffer = [0; 1024];
    let bytes = read_into(&format!("/proc/{pid}/status"), &mut buffer)?;
    // The name of the process comes first, contains no newline, and may not be UTF-8.
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut users = line.split_ascii_whitespace().map(|user| user.parse::<u32>().ok());
    let real = users.next()??;
    users.take(2).all(|user| user == Some(real)).then_some(real)
}

/// Returns whether a process ignores a signal (`SigIgn` in proc_pid_status(5)); false if the process
/// no longer exists.
#[must_use]
pub fn ignores_signal(pid: i32, signal: Signal) -> bool {
    let mut buffer = [0; 4096];
    let status = read_into(&format!("/proc/{pid}/status"), &mut buffer);
    status
        .and_then(parse_ignored_signals)
        .is_some_and(|mask| (mask >> (signal.number() - 1)) & 1 == 1)
}

/// Returns the mask of ignored signals, in which the lowest bit stands for signal 1.
fn parse_ignored_signals(status: &[u8]) -> Option<u64> {
    // The name of the process comes first, contains no newline, and may not be UTF-8.
    let text = String::from_utf8_lossy(status);
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Returns the words of a process's command line, up to `max` bytes, and the name of the process.
/// `None` if the process no longer exists or its files in `/proc` cannot be read.
#[must_use]
pub fn command_words(pid: i32, max: usize) -> Option<(Vec<String>, String)> {
    let mut buffer = vec![0; max];
    let bytes = read_into(&format!("/proc/{pid}/cmdline"), &mut buffer)?;
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    let words = match bytes {
        [] => Vec::new(),
        bytes => bytes
            .split(|&byte| byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect(),
    };
    Some((words, process_name(pid)?))
}

/// Returns the words of a process's command line joined by spaces, as far as `buffer` has room.
/// `None` if the process no longer exists or its file in `/proc` cannot be read.
#[must_use]
pub fn joined_command_words(pid: i32, buffer: &mut [u8]) -> Option<Cow<'_, str>> {
    let len = read_into(&format!("/proc/{pid}/cmdline"), buffer)?.len();
    let words = &mut buffer[..len];
    let len = if words.ends_with(b"\0") { len - 1 } else { len };
    let words = &mut words[..len];
    words.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = b' ');
    Some(String::from_utf8_lossy(words))
}

/// Returns the name of a process, which has at most 15 bytes. `None` if the process no longer
/// exists or its file in `/proc` cannot be read.
#[must_use]
pub fn process_name(pid: i32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// Returns the names of the other processes in the process group of this process, except zombies.
/// With job control, these are the other programs of a pipeline. `None` if `/proc` does not show
/// this process, or cannot be listed.
#[must_use]
pub fn names_in_own_group() -> Option<Vec<String>> {
    let own = self_pid_in_proc()?;
    let group = stat(own)?.pgrp;
    let is_other = |pid: &i32| {
        *pid != own && stat(*pid).is_some_and(|stat| stat.pgrp == group && stat.state != 'Z')
    };
    Some(all_pids().ok()?.into_iter().filter(is_other).filter_map(process_name).collect())
}

/// Returns whether the process group of this process is orphaned: no process of another group of
/// the session, such as a shell with job control, is the parent of a member (setpgid(2)). The
/// kernel does not stop the processes of such a group for a key of the terminal. Returns false if
/// `/proc` does not show this process, or cannot be listed.
#[must_use]
pub fn is_own_group_orphaned() -> bool {
    let own = self_pid_in_proc().and_then(stat);
    let (Some(own), Ok(pids)) = (own, all_pids()) else { return false };
    let members = pids
        .into_iter()
        .filter_map(stat)
        .filter(|member| member.pgrp == own.pgrp && !matches!(member.state, 'Z' | 'X'));
    !members
        .filter_map(|member| stat(member.ppid))
        .any(|parent| parent.session == own.session && parent.pgrp != own.pgrp)
}

/// Returns the path of the program that a process executes. `None` for a zombie or a kernel thread,
/// and if the link in `/proc` cannot be read.
#[must_use]
pub fn executable_path(pid: i32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let path = path.to_string_lossy();
    // The kernel appends this word if the file was removed or replaced after the exec.
    Some(path.strip_suffix(" (deleted)").unwrap_or(&path).to_owned())
}

/// Returns the file name of the program that a process executes; `None` as for [`executable_path`].
#[must_use]
pub fn executable_name(pid: i32) -> Option<String> {
    Some(executable_path(pid)?.rsplit('/').next()?.to_owned())
}

/// Returns the working directory of a process. `None` if the process has ended, or if this process
/// may not read the file in `/proc`.
#[must_use]
pub fn working_directory(pid: i32) -> Option<String> {
    let path = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// Returns the number of bytes that a process, including its waited-for children, has passed to
/// write(2) and similar calls. `None` if the file in `/proc` cannot be read.
#[must_use]
pub fn write_bytes_total(pid: i32) -> Option<u64> {
    io_count(pid, "wchar: ")
}

/// Returns the number of bytes that a process, including its waited-for children, has caused to be
/// written to disks. `None` if the file in `/proc` cannot be read.
#[must_use]
pub fn disk_write_bytes(pid: i32) -> Option<u64> {
    io_count(pid, "write_bytes: ")
}

/// Returns a field of `/proc/PID/io` (proc_pid_io(5)).
fn io_count(pid: i32, name: &str) -> Option<u64> {
    let mut buffer = [0; 512];
    let text = read_into(&format!("/proc/{pid}/io"), &mut buffer)?;
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.parse().ok()
}

/// Returns the command line of a process, words joined by spaces, up to `max` bytes. For a process
/// without a command line (a zombie, a kernel thread), returns the name in brackets. `None` if the
/// process no longer exists or its files in `/proc` cannot be read.
#[must_use]
pub fn command_line(pid: i32, max: usize) -> Option<String> {
    let mut buffer = vec![0; max];
    let bytes = read_into(&format!("/proc/{pid}/cmdline"), &mut buffer)?;
    if bytes.is_empty() {
        return Some(format!("[{}]", process_name(pid)?));
    }
    let words: Vec<_> = bytes.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    Some(words.join(" ").trim_end().to_owned())
}

/// Returns the number of descriptors that a process has open, or zero if they cannot be counted.
#[must_use]
pub fn count_open_descriptors(pid: i32) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the size of the directory is the number of descriptors (proc_pid_fd(5)).
    let size = std::fs::metadata(&path).map_or(0, |facts| facts.size());
    if size > 0 { size } else { std::fs::read_dir(path).map_or(0, |list| list.count() as u64) }
}

/// Returns the proportional set size of a process in bytes: a page that n processes share adds one
/// nth of its size. `None` if the file in `/proc` cannot be read.
#[must_use]
pub fn pss_bytes(pid: i32) -> Option<u64> {
    let mut buffer = [0; 1024];
    let text = read_into(&format!("/proc/{pid}/smaps_rollup"), &mut buffer)?;
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the peak resident memory of this process since its exec, in bytes (`VmHWM`,
/// proc_pid_status(5)). `None` if the file in `/proc` cannot be read.
#[must_use]
pub fn self_peak_memory() -> Option<u64> {
    let mut buffer = [0; 4096];
    let text = String::from_utf8_lossy(read_into("/proc/self/status", &mut buffer)?);
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the id of this boot.
///
/// # Errors
///
/// The I/O error of the system call, for example if `/proc` is not mounted.
pub fn boot_id() -> std::io::Result<BootId> {
    let mut buffer = [0; 64];
    let text = try_read_into("/proc/sys/kernel/random/boot_id", &mut buffer)?;
    Ok(BootId(String::from_utf8_lossy(text).trim().to_owned()))
}

/// Returns the process ID under which `/proc` shows this process. The number differs from the real
/// process ID if `/proc` shows another PID namespace. `None` if `/proc` does not show this process.
#[must_use]
pub fn self_pid_in_proc() -> Option<i32> {
    std::fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Returns the inode of this process's PID namespace (pid_namespaces(7)): in another namespace, the
/// same process IDs denote other processes. `None` if `/proc` does not show the inode.
#[must_use]
pub fn pid_namespace() -> Option<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid").ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns all descendants of a process in breadth-first order, without the process itself. `skip`
/// is called for each descendant; a skipped process is left out together with its descendants.
#[must_use]
pub fn descendants(root: i32, mut skip: impl FnMut(i32) -> bool) -> Vec<i32> {
    let mut found = Vec::new();
    let mut known = HashSet::from([root]);
    let mut next = 0;
    let mut parent = root;
    loop {
        for child in children(parent) {
            // The lists are not atomic, so two of them may name the same process.
            if known.insert(child) && !skip(child) {
                found.push(child);
            }
        }
        match found.get(next) {
            Some(pid) => parent = *pid,
            None => return found,
        }
        next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::{run_test_with_few_descriptors, take_descriptors};
    use super::*;

    #[test]
    fn a_process_name_with_parentheses_does_not_shift_the_fields() {
        let line = b"7 (a) S 1 2) R 1 7 7 0 -1 4194304 0 0 0 0 3 4 0 0 20 0 1 0 99 0 0";
        let stat = parse_stat(line).expect("parses");
        assert_eq!((stat.state, stat.ppid, stat.cpu_ticks, stat.start_ticks), ('R', 1, 7, 99));
        assert_eq!(stat.exit_code, None);
    }

    #[test]
    fn the_ignored_signals_are_parsed() {
        // An interactive bash ignores SIGTERM, and catches SIGHUP.
        let status = b"Name:\ta\xff\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000384004\n";
        let mask = parse_ignored_signals(status).expect("a mask");
        assert_eq!(((mask >> 14) & 1, mask & 1), (1, 0));
        assert_eq!(parse_ignored_signals(b"Name:\ta\n"), None);
        // The standard library ignores SIGPIPE in every program.
        let own = self_ref().expect("is there").pid;
        assert!(ignores_signal(own, Signal::PIPE) && !ignores_signal(own, Signal::KILL));
    }

    #[test]
    fn prlimit_and_proc_limits_give_the_same_birthmark() {
        for pid in all_pids().expect("a descriptor is free") {
            let asked = super::super::birthmark::hard_rttime(pid);
            let shown = birthmark_from_limits_file(pid);
            // The process may have exited before either of the two reads.
            if let (Ok(Some(asked)), Ok(Some(shown))) = (asked, shown) {
                assert_eq!(Birthmark(asked), shown, "process {pid}");
            }
        }
        let own = self_ref().expect("is there").pid;
        let asked = super::super::birthmark::hard_rttime(own).expect("is allowed");
        assert_eq!(
            asked.map(Birthmark),
            birthmark_from_limits_file(own).expect("a descriptor is free")
        );
    }

    /// Reading the mark of another user's process needs a descriptor for a file in `/proc`. The
    /// test runs in a process of its own, because it uses up all descriptors.
    #[test]
    fn a_birthmark_unreadable_for_lack_of_descriptors_is_an_error() {
        run_test_with_few_descriptors("sys::procfs::tests::with_all_descriptors_taken");
    }

    #[test]
    #[ignore = "takes every descriptor of its process"]
    fn with_all_descriptors_taken() {
        let own = self_ref().expect("is there").pid;
        let taken = take_descriptors(0);
        let shown = birthmark_from_limits_file(own);
        let (boot, pids) = (boot_id(), all_pids());
        drop(taken);
        assert!(boot.is_err_and(|error| is_out_of_resources(&error)));
        assert!(pids.is_err_and(|error| is_out_of_resources(&error)));
        assert!(all_pids().is_ok_and(|pids| pids.contains(&own)));
        assert!(shown.is_err_and(|error| is_out_of_resources(&error)));
        assert!(birthmark_from_limits_file(own).is_ok());
        assert!(
            birthmark_from_limits_file(i32::MAX).is_ok_and(|mark| mark.is_none()),
            "it is gone"
        );
    }

    #[test]
    fn this_process_runs_and_has_a_command_line() {
        let own = self_ref().expect("is there");
        assert!(count_open_descriptors(own.pid) >= 3 && count_open_descriptors(i32::MAX) == 0);
        assert!(pss_bytes(own.pid).is_some_and(|bytes| bytes > 100_000));
        assert!(self_peak_memory().is_some_and(|bytes| bytes > 100_000));
        assert!(is_running(own));
        assert!(!is_running(ProcRef { start_ticks: own.start_ticks + 1, ..own }));
        assert!(command_line(own.pid, 256).expect("is there").contains("siding"));
        let mut buffer = [0; 4096];
        let joined = joined_command_words(own.pid, &mut buffer).expect("is there").into_owned();
        let (words, name) = command_words(own.pid, 4096).expect("is there");
        assert_eq!(joined, words.join(" "));
        assert!(words[0].contains("siding") && name.contains("siding"), "{words:?} {name}");
        assert_eq!(single_uid(own.pid), Some(crate::sys::process::effective_uid()));
        assert!(boot_id().expect("is there").0.len() >= 32);
    }
}
