//! Ends the processes that a host has left: the helpers of its sandbox, its servers, and commands
//! without a shim.
//!
//! Every process that carries the mark of an ended host descends from the host and belongs to no
//! task. Programs that the user wants to keep are excluded, with all of their descendants.

mod socket_files;

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use siding_model::host::{HostRecord, MarkedProcess, is_excluded_program, is_interpreter};
use siding_model::id::{Birthmark, HostMark};
use siding_model::process::ProcRef;
use siding_model::settings::Settings;
use siding_model::signal::Signal;

use super::ReapStep;
use super::orphan_processes::{
    KILL_TIMEOUT_MS, MAX_SCANS, SWEEP_PAUSE, TERM_GRACE_MS, survival_reason,
};
use super::reap_log::{ReapLog, ReapLogLine, age_ms};
use crate::host::{HostFiles, is_unsupervised, processes_with_mark};
use crate::processes::tree;
use crate::store::StateDir;
use crate::sys::pidfd::PidFd;
use crate::sys::{clock, poll, procfs};

use socket_files::{OwnSocket, host_sockets, listen_socket_path};

/// The name of the rule in `reaped.log`.
const HOST_ENDED_RULE: &str = "host-ended";
/// Maximum number of ancestors of a process that are searched for an excluded program.
const MAX_ANCESTORS: usize = 64;

/// Ends the processes of ended hosts whose supervisors were killed too, and returns the steps.
#[must_use]
pub fn reap_hosts(root: &StateDir) -> Vec<ReapStep> {
    let Ok(marks) = root.host_marks() else { return Vec::new() };
    marks.into_iter().flat_map(|mark| reap_host(root, mark, false)).collect()
}

/// Returns the steps that [`reap_hosts`] would take, and changes nothing.
///
/// If a process listens on a socket file, names the file in its arguments and would be ended, the
/// removal of the file is predicted, although the process may remove the file itself.
#[must_use]
pub fn plan_hosts(root: &StateDir) -> Vec<ReapStep> {
    let Ok(marks) = root.host_marks() else { return Vec::new() };
    marks.into_iter().flat_map(|mark| reap_host(root, mark, true)).collect()
}

fn reap_host(root: &StateDir, mark: HostMark, dry_run: bool) -> Vec<ReapStep> {
    let Ok(files) = HostFiles::open(root, mark) else { return Vec::new() };
    // A supervisor that lives, or is being started, holds the lock and ends the processes itself.
    let Ok(Some(_lock)) = files.try_lock() else { return Vec::new() };
    let record = match files.record() {
        Ok(record) => record,
        // The record was never written, so no process was marked either.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if !dry_run {
                let _best_effort = root.remove_host(mark);
            }
            return Vec::new();
        }
        Err(error) => return vec![failed_step(mark, &error)],
    };
    match read_host_state(root, &record) {
        HostState::Ended => {}
        HostState::Alive => return Vec::new(),
        HostState::OtherBoot => {
            if !dry_run {
                let _best_effort = root.remove_host(mark);
            }
            return Vec::new();
        }
    }
    if dry_run {
        return plan_host_end(root, &files, &record)
            .unwrap_or_else(|error| vec![failed_step(mark, &error)]);
    }
    let steps = end_host(root, &files, &record, &|| {});
    // Without the record, no later reaper would find the processes that are left.
    if !steps.iter().any(ReapStep::is_failure) {
        let _best_effort = root.remove_host(mark);
    }
    steps
}

/// The state of a host, which decides whether its processes are terminated and its record is
/// removed. A host that may live on another machine or in another PID namespace counts as alive.
enum HostState {
    Ended,
    Alive,
    OtherBoot,
}

fn read_host_state(root: &StateDir, record: &HostRecord) -> HostState {
    let is_this_boot = procfs::boot_id().is_ok_and(|boot| boot == record.boot);
    let is_elsewhere =
        record.pid_namespace.is_some() && record.pid_namespace != procfs::pid_namespace();
    if !is_this_boot && root.runtime_base().is_none() {
        HostState::OtherBoot
    } else if !is_this_boot || is_elsewhere || tree::is_alive(record.host) {
        HostState::Alive
    } else {
        HostState::Ended
    }
}

/// Returns the excluded programs, from the settings that the host's hooks last reported, or the
/// default ones if there are no valid settings.
fn excluded_programs(files: &HostFiles) -> io::Result<Vec<String>> {
    match files.context() {
        Ok(current) => Ok(current.terms.spare_programs),
        Err(error) if procfs::is_out_of_resources(&error) => Err(error),
        Err(_) => Ok(Settings::default().spare_programs),
    }
}

/// Returns the step for a host whose record or processes could not be read.
fn failed_step(mark: HostMark, error: &io::Error) -> ReapStep {
    ReapStep::HostFailed { host: mark.to_string(), why: error.to_string() }
}

/// Terminates the processes that an ended host has left, removes the socket files of its sandbox,
/// and returns the steps. `between` is called after SIGTERM was sent, before the wait for the exit
/// of the processes. If the processes cannot be read, returns [`ReapStep::HostFailed`], because
/// some may be left.
pub fn end_host(
    root: &StateDir,
    files: &HostFiles,
    record: &HostRecord,
    between: &dyn Fn(),
) -> Vec<ReapStep> {
    try_end_host(root, files, record, between)
        .unwrap_or_else(|error| vec![failed_step(files.mark, &error)])
}

/// Like [`end_host`]; an error means that no process was signaled.
fn try_end_host(
    root: &StateDir,
    files: &HostFiles,
    record: &HostRecord,
    between: &dyn Fn(),
) -> io::Result<Vec<ReapStep>> {
    let spare = excluded_programs(files)?;
    let mut sweep = HostSweep::new(root, files, record, &spare);
    let first = sweep.find_remaining()?;
    let relay_sockets: Vec<String> = first.iter().filter_map(listen_socket_path).collect();
    sweep.terminate_all(&first);
    between();
    sweep.wait_for_exit();
    let (left, failed) = match sweep.kill_remaining() {
        Ok(left) => (left, None),
        Err(error) => (sweep.signaled_and_alive(), Some(failed_step(files.mark, &error))),
    };
    let mut steps = sweep.into_steps(&left);
    steps.extend(failed);
    let sockets = relay_sockets.into_iter().chain(host_sockets(record));
    let sockets = sockets.filter_map(|path| OwnSocket::open(Path::new(&path)));
    steps.extend(sockets.filter(OwnSocket::is_dead).map(OwnSocket::remove));
    Ok(steps)
}

/// Returns the steps that [`end_host`] would take.
fn plan_host_end(
    root: &StateDir,
    files: &HostFiles,
    record: &HostRecord,
) -> io::Result<Vec<ReapStep>> {
    let spare = excluded_programs(files)?;
    let mut sweep = HostSweep::new(root, files, record, &spare);
    let mut found = sweep.find_remaining()?;
    found.sort_unstable_by_key(|one| (one.process.pid, one.process.start_ticks));
    let mut steps: Vec<ReapStep> = found
        .iter()
        .map(|one| ReapStep::HostProcessEnded {
            host: host_label(record),
            pid: one.process.pid,
            command: tree::command_for_report(one.process.pid),
            signal: None,
        })
        .collect();
    steps.extend(sweep.spared_steps());
    let relay_sockets: Vec<String> = found.iter().filter_map(listen_socket_path).collect();
    let other_sockets: Vec<String> =
        host_sockets(record).into_iter().filter(|path| !relay_sockets.contains(path)).collect();
    let open_socket = |path: &String| OwnSocket::open(Path::new(path));
    // [`end_host`] removes these files only after the listening relays have exited. In a dry run
    // the relays still run, so their sockets are not dead yet.
    let of_relays = relay_sockets.iter().filter_map(open_socket);
    let of_others = other_sockets.iter().filter_map(open_socket).filter(OwnSocket::is_dead);
    let removed = of_relays.chain(of_others);
    steps.extend(removed.map(|socket| ReapStep::SocketRemoved { path: socket.path }));
    Ok(steps)
}

/// The processes that one host has left, with the signals that they have received.
struct HostSweep<'a> {
    root: &'a StateDir,
    files: &'a HostFiles,
    record: &'a HostRecord,
    excluded_programs: &'a [String],
    /// The log of signals, which is opened before the first one. `None` if that fails; the processes
    /// are then terminated without a log.
    log: OnceCell<Option<ReapLog>>,
    /// The signaled processes by process ID and start time, with their last signal.
    signaled: BTreeMap<(i32, u64), SignaledProcess>,
    /// The processes that could not be opened for a signal, with the error.
    unopened: BTreeMap<(i32, u64), String>,
    excluded: BTreeMap<(i32, u64), String>,
}

struct SignaledProcess {
    command: String,
    signal: Signal,
}

impl<'a> HostSweep<'a> {
    fn new(
        root: &'a StateDir,
        files: &'a HostFiles,
        record: &'a HostRecord,
        spare: &'a [String],
    ) -> Self {
        let (done, spared) = (BTreeMap::new(), BTreeMap::new());
        Self {
            root,
            files,
            record,
            excluded_programs: spare,
            log: OnceCell::new(),
            signaled: done,
            unopened: BTreeMap::new(),
            excluded: spared,
        }
    }

    /// Returns the processes that the host has left and that are not excluded. A scan that fails is
    /// repeated up to [`MAX_SCANS`] times.
    fn find_remaining(&mut self) -> io::Result<Vec<MarkedProcess>> {
        for _ in 1..MAX_SCANS {
            let found = self.scan_once();
            if found.is_ok() {
                return found;
            }
            std::thread::sleep(SWEEP_PAUSE);
        }
        self.scan_once()
    }

    fn scan_once(&mut self) -> io::Result<Vec<MarkedProcess>> {
        let mut found = Vec::new();
        for mark in self.host_marks()? {
            found.extend(processes_with_mark(mark, 0)?);
        }
        let spared = excluded_pids(&found, |one| {
            is_excluded_program(&one.program, &one.words, self.excluded_programs)
                || self.is_separate_host(one)
        });
        for one in found.iter().filter(|one| spared.contains(&one.process.pid)) {
            let key = (one.process.pid, one.process.start_ticks);
            self.excluded.entry(key).or_insert_with(|| tree::command_for_report(one.process.pid));
        }
        found.retain(|one| !spared.contains(&one.process.pid));
        Ok(found)
    }

    /// Returns the marks of the host's processes: the mark of the host, and those of claimed
    /// commands that no shim supervises.
    fn host_marks(&self) -> io::Result<Vec<Birthmark>> {
        let mut marks = vec![self.files.mark.birthmark()];
        for task in self.files.list_claims()? {
            if is_unsupervised(self.root, task)? {
                marks.push(task.birthmark());
            }
        }
        Ok(marks)
    }

    /// Returns whether a process is a separate host: it runs the same program, and leads its own
    /// session (setsid(2)) so that it outlives the host. Claude Code starts a background
    /// conversation as such a process.
    fn is_separate_host(&self, one: &MarkedProcess) -> bool {
        let pid = one.process.pid;
        // A process whose session is unknown may be one.
        let is_apart = || procfs::stat(pid).is_none_or(|stat| stat.session == pid);
        let is_same =
            || self.record.program.is_some() && procfs::executable_path(pid) == self.record.program;
        !is_interpreter(&one.program) && is_apart() && is_same()
    }

    /// Sends SIGTERM to all processes that the host has left.
    fn terminate_all(&mut self, found: &[MarkedProcess]) {
        for one in found {
            self.send_signal(one.process, Signal::TERM);
        }
    }

    /// Waits until the signaled processes have exited, for at most [`TERM_GRACE_MS`]. Holds one
    /// pidfd at a time: a host may leave more processes than this process may open descriptors.
    fn wait_for_exit(&self) {
        let until = clock::monotonic_now().plus_ms(TERM_GRACE_MS);
        for process in self.signaled_processes() {
            loop {
                let opened = PidFd::open_if_alive(process);
                let left = until.ms_since(clock::monotonic_now());
                match opened {
                    Ok(None) => break,
                    Ok(Some(_)) | Err(_) if left == 0 => return,
                    Ok(Some(held)) if poll::wait_readable(&[held.as_fd()], Some(left)).is_ok() => {}
                    Ok(Some(_)) | Err(_) => std::thread::sleep(SWEEP_PAUSE),
                }
            }
        }
    }

    fn signaled_processes(&self) -> impl Iterator<Item = ProcRef> {
        self.signaled
            .keys()
            .map(|(pid, start_ticks)| ProcRef { pid: *pid, start_ticks: *start_ticks })
    }

    /// Returns the signaled processes that are alive, or about which this is unknown.
    fn signaled_and_alive(&self) -> HashSet<ProcRef> {
        self.signaled_processes().filter(|process| tree::is_alive(*process)).collect()
    }

    /// Kills the processes that are left, and those that were started in the meantime. Returns the
    /// processes that could not be terminated.
    ///
    /// # Errors
    ///
    /// An error if it is unknown which processes are left.
    fn kill_remaining(&mut self) -> io::Result<HashSet<ProcRef>> {
        let started = clock::monotonic_now();
        loop {
            let left: Vec<ProcRef> = self.find_remaining()?.iter().map(|one| one.process).collect();
            if left.is_empty() || clock::monotonic_now().ms_since(started) > KILL_TIMEOUT_MS {
                return Ok(left.into_iter().collect());
            }
            let mut is_mortal = false;
            for process in &left {
                is_mortal |= self.send_signal(*process, Signal::KILL);
            }
            // A process that could not be signaled may have exited since it was listed.
            let immortal = || left.iter().copied().filter(|process| tree::is_alive(*process));
            if !is_mortal && immortal().next().is_some() {
                return Ok(immortal().collect());
            }
            std::thread::sleep(SWEEP_PAUSE);
        }
    }

    /// Sends a signal to a process that still carries one of the marks, after writing a line to the
    /// log. Returns whether the signal could be sent.
    fn send_signal(&mut self, process: ProcRef, signal: Signal) -> bool {
        let key = (process.pid, process.start_ticks);
        let opened = PidFd::open(process).and_then(|held| Ok((held, self.host_marks()?)));
        let (held, marks) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.unopened.insert(key, error.to_string());
                return false;
            }
        };
        let is_marked = procfs::birthmark(process.pid).is_some_and(|mark| marks.contains(&mark));
        if held.is_dead() || !is_marked {
            return false;
        }
        let is_new = self.signaled.get(&key).is_none_or(|touched| touched.signal != signal);
        let command = tree::command_for_report(process.pid);
        // The log is opened for the first signal, which may be SIGKILL: all processes may have been
        // started after SIGTERM was sent. A log that cannot be opened is not tried again, because
        // each attempt may wait for its lock.
        let log = self.log.get_or_init(|| ReapLog::open(self.root).ok());
        if is_new && let Some(log) = log {
            let _best_effort = log.append(&ReapLogLine {
                at: clock::unix_now().rfc3339(),
                rule: HOST_ENDED_RULE,
                pid: process.pid,
                start_ticks: process.start_ticks,
                top_pid: self.record.host.pid,
                age_ms: age_ms(process),
                signal: signal.to_string(),
                command: &command,
            });
        }
        let is_sent = held.send_signal(signal).is_ok();
        // A stopped process handles SIGTERM only once it is continued.
        let _already_ended = held.send_signal(Signal::CONT);
        self.signaled.insert(key, SignaledProcess { command, signal });
        is_sent
    }

    fn into_steps(self, left: &HashSet<ProcRef>) -> Vec<ReapStep> {
        let host = || host_label(self.record);
        let spared = self.spared_steps();
        let unsignaled: Vec<ReapStep> = left
            .iter()
            .map(|process| (process.pid, process.start_ticks))
            .filter(|key| !self.signaled.contains_key(key))
            .map(|key| ReapStep::HostProcessLeft {
                host: host(),
                pid: key.0,
                command: tree::command_for_report(key.0),
                why: self.unopened.get(&key).map_or_else(
                    || survival_reason(key.0, None),
                    |error| format!("it could not be signaled: {error}"),
                ),
            })
            .collect();
        let touched = self.signaled.into_iter().map(|((pid, start_ticks), touched)| {
            let SignaledProcess { command, signal } = touched;
            if left.contains(&ProcRef { pid, start_ticks }) {
                return ReapStep::HostProcessLeft {
                    host: host(),
                    pid,
                    command,
                    why: survival_reason(pid, Some(signal)),
                };
            }
            let signal = Some(signal.to_string());
            ReapStep::HostProcessEnded { host: host(), pid, command, signal }
        });
        touched.chain(unsignaled).chain(spared).collect()
    }

    fn spared_steps(&self) -> Vec<ReapStep> {
        let spared = self.excluded.iter().map(|((pid, _), command)| ReapStep::HostProcessSpared {
            host: host_label(self.record),
            pid: *pid,
            command: command.clone(),
        });
        spared.collect()
    }
}

fn host_label(record: &HostRecord) -> String {
    format!("{} ({})", siding_model::text::one_line(&record.name, 40), record.host.pid)
}

/// Returns the excluded processes: those for which `is_wanted` returns true, and their descendants.
fn excluded_pids(
    found: &[MarkedProcess],
    is_wanted: impl Fn(&MarkedProcess) -> bool,
) -> HashSet<i32> {
    let parents: HashMap<i32, i32> =
        found.iter().map(|one| (one.process.pid, one.parent)).collect();
    let wanted = found.iter().filter(|one| is_wanted(one));
    let tops: HashSet<i32> = wanted.map(|one| one.process.pid).collect();
    let is_below = |pid: i32| {
        std::iter::successors(Some(pid), |at| parents.get(at).copied())
            .take(MAX_ANCESTORS)
            .any(|at| tops.contains(&at))
    };
    found.iter().map(|one| one.process.pid).filter(|pid| is_below(*pid)).collect()
}

#[cfg(test)]
mod tests {
    use siding_model::host::HOST_RECORD_FORMAT;

    use super::*;

    #[test]
    fn a_process_that_could_not_be_opened_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = StateDir::open(&dir.path().join("state")).expect("a state directory");
        let mark = HostMark::from_random(7, u64::MAX).expect("a mark");
        root.hosts_dir(true).expect("made");
        root.create_host(mark).expect("made");
        let files = HostFiles::open(&root, mark).expect("its directory");
        let own = procfs::self_ref().expect("this process");
        let record = HostRecord {
            format: HOST_RECORD_FORMAT,
            mark,
            host: own,
            name: "agent".to_owned(),
            program: None,
            boot: procfs::boot_id().expect("this boot"),
            pid_namespace: None,
            wall: clock::unix_now(),
        };
        let mut sweep = HostSweep::new(&root, &files, &record, &[]);
        sweep.unopened.insert((own.pid, own.start_ticks), "too many open files".to_owned());
        let steps = sweep.into_steps(&HashSet::from([own]));
        let [step @ ReapStep::HostProcessLeft { pid, why, .. }] = steps.as_slice() else {
            panic!("{steps:?}")
        };
        assert_eq!(
            (*pid, why.as_str()),
            (own.pid, "it could not be signaled: too many open files")
        );
        assert!(step.is_failure(), "the record of the host stays");
    }
}
