//! Ending what a host has left: its sandbox's helpers, its servers, and commands that no task keeps.
//!
//! Whatever carries the mark of a host that has ended was started by it, outside of tasks. Spared are
//! programs that a person wants to keep, with all that is below them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use siding_model::host::{HostRecord, MarkedProcess, is_excluded_program, is_interpreter};
use siding_model::id::{Birthmark, HostMark};
use siding_model::process::ProcRef;
use siding_model::settings::Settings;
use siding_model::signal::Signal;

use super::Step;
use super::log::{Line, Log};
use super::strays::{GIVE_UP_MS, GRACE_MS, PAUSE, why_it_lives};
use crate::host::{HostFiles, is_unkept, marked};
use crate::store::Root;
use crate::sys::pidfd::PidFd;
use crate::sys::procfs::{self, TICKS_PER_SECOND};
use crate::sys::{clock, file, poll, process, socket};
use crate::tree;

/// Name of the rule in `reaped.log`.
const RULE: &str = "host-ended";
/// Processes above one that are looked at for a program that is spared.
const ABOVE_MOST: usize = 64;
/// How a relay's words name the socket file on which it listens.
const LISTENS: &str = "UNIX-LISTEN:";
/// Where a host has socket files of its own, and what stands before and behind the number of its process
/// in their names (Claude Code 2.1.330).
const SOCKETS_OF_HOST: [(&str, &str, &str); 2] =
    [("/tmp", "srt-mux-", "-"), ("/tmp/cc-socks", "", ".sock")];

/// Ends what hosts have left whose supervisors were killed too, and returns what was done.
#[must_use]
pub fn hosts(root: &Root) -> Vec<Step> {
    let Ok(marks) = root.hosts() else { return Vec::new() };
    marks.into_iter().flat_map(|mark| one_host(root, mark, false)).collect()
}

/// Returns what [`hosts`] would do.
#[must_use]
pub fn hosts_foreseen(root: &Root) -> Vec<Step> {
    let Ok(marks) = root.hosts() else { return Vec::new() };
    marks.into_iter().flat_map(|mark| one_host(root, mark, true)).collect()
}

fn one_host(root: &Root, mark: HostMark, dry_run: bool) -> Vec<Step> {
    let Ok(files) = HostFiles::open(root, mark) else { return Vec::new() };
    // A supervisor that lives, or is being started, sees to it.
    let Ok(Some(_lock)) = files.try_lock() else { return Vec::new() };
    let record = match files.record() {
        Ok(record) => record,
        // It was not written any more: then nothing was marked either.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !dry_run => {
            let _removed_next_time = root.remove_host(mark);
            return Vec::new();
        }
        Err(error) => {
            return vec![Step::HostFailed { host: mark.to_string(), why: error.to_string() }];
        }
    };
    match standing(root, &record) {
        Standing::Ended => {}
        Standing::Lives => return Vec::new(),
        Standing::OfAnotherBoot => {
            if !dry_run {
                let _removed_next_time = root.remove_host(mark);
            }
            return Vec::new();
        }
    }
    let spare = spare_programs(&files);
    if dry_run {
        return Sweep::new(root, &files, &record, &spare).foreseen();
    }
    let steps = end_host(root, &files, &record, &|| {});
    let _removed_next_time = root.remove_host(mark);
    steps
}

/// Whether a host may have left anything.
enum Standing {
    Ended,
    Lives,
    OfAnotherBoot,
}

fn standing(root: &Root, record: &HostRecord) -> Standing {
    let is_this_boot = procfs::boot_id().is_ok_and(|boot| boot == record.boot);
    let is_elsewhere =
        record.pid_namespace.is_some() && record.pid_namespace != procfs::pid_namespace();
    if !is_this_boot && root.runtime().is_none() {
        Standing::OfAnotherBoot
    } else if !is_this_boot || is_elsewhere || tree::lives(record.host) {
        Standing::Lives
    } else {
        Standing::Ended
    }
}

/// Returns which programs are spared: what the settings said when the host was last heard of.
fn spare_programs(files: &HostFiles) -> Vec<String> {
    match files.current() {
        Ok(current) => current.terms.spare_programs,
        Err(_) => Settings::default().spare_programs,
    }
}

/// Ends what a host has left that has ended, and removes the socket files of its sandbox. `between` is
/// called after the polite signal. Returns what was done.
pub fn end_host(
    root: &Root,
    files: &HostFiles,
    record: &HostRecord,
    between: &dyn Fn(),
) -> Vec<Step> {
    let spare = spare_programs(files);
    let mut sweep = Sweep::new(root, files, record, &spare);
    let first = sweep.look();
    let mut sockets: Vec<String> = first.iter().filter_map(listened_on).collect();
    sweep.ask(&first);
    between();
    sweep.wait();
    let left = sweep.kill();
    let mut steps = sweep.steps(&left);
    sockets.extend(sockets_of(record));
    steps.extend(sockets.iter().filter_map(|path| remove_socket(Path::new(path))));
    steps
}

/// The work on what one host has left.
struct Sweep<'a> {
    root: &'a Root,
    files: &'a HostFiles,
    record: &'a HostRecord,
    spare: &'a [String],
    /// `None` where it cannot be written: what is left must go all the same.
    log: Option<Log>,
    /// Who was sent a signal, with its command line and the last one.
    done: BTreeMap<(i32, u64), Touched>,
    spared: BTreeMap<(i32, u64), String>,
}

struct Touched {
    held: PidFd,
    command: String,
    signal: Signal,
}

impl<'a> Sweep<'a> {
    fn new(
        root: &'a Root,
        files: &'a HostFiles,
        record: &'a HostRecord,
        spare: &'a [String],
    ) -> Self {
        let (done, spared) = (BTreeMap::new(), BTreeMap::new());
        Self { root, files, record, spare, log: None, done, spared }
    }

    /// Returns what the host has left now and is not spared.
    fn look(&mut self) -> Vec<MarkedProcess> {
        let mut found: Vec<MarkedProcess> =
            self.marks().into_iter().flat_map(|mark| marked(mark, 0)).collect();
        let spared = spared(&found, |one| {
            is_excluded_program(&one.program, &one.words, self.spare) || self.is_another_host(one)
        });
        for one in found.iter().filter(|one| spared.contains(&one.process.pid)) {
            let key = (one.process.pid, one.process.start_ticks);
            self.spared.entry(key).or_insert_with(|| tree::command_of(one.process.pid));
        }
        found.retain(|one| !spared.contains(&one.process.pid));
        found
    }

    /// Returns the marks of what is the host's: its own, and those of commands that were marked and
    /// that nobody keeps.
    fn marks(&self) -> Vec<Birthmark> {
        let claims = self.files.claims().into_iter();
        let unkept = claims.filter(|task| is_unkept(self.root, *task));
        unkept.map(|task| task.birthmark()).chain([self.files.mark.birthmark()]).collect()
    }

    /// Whether a process is a host of its own: the same program, which the host has put into a session
    /// of the kernel (setsid) to outlive it, as Claude Code does with conversations in the background.
    fn is_another_host(&self, one: &MarkedProcess) -> bool {
        let pid = one.process.pid;
        let is_apart = || procfs::stat(pid).is_some_and(|stat| stat.session == pid);
        let is_same =
            || self.record.program.is_some() && procfs::program(pid) == self.record.program;
        !is_interpreter(&one.program) && is_apart() && is_same()
    }

    /// Asks everything to end.
    fn ask(&mut self, found: &[MarkedProcess]) {
        if !found.is_empty() {
            self.log = Log::open(self.root).ok();
        }
        for one in found {
            self.send(one.process, Signal::TERM);
        }
    }

    /// Gives what was asked time to end.
    fn wait(&self) {
        let until = clock::mono().plus_ms(GRACE_MS);
        loop {
            let living = self.done.values().map(|touched| &touched.held);
            let fds: Vec<_> =
                living.filter(|held| !held.is_dead()).map(std::os::fd::AsFd::as_fd).collect();
            let left = until.ms_since(clock::mono());
            if fds.is_empty() || left == 0 {
                return;
            }
            if poll::wait(&fds, Some(left)).is_err() {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Kills what is left, and what that has started. Returns what could not be ended.
    fn kill(&mut self) -> HashSet<ProcRef> {
        let started = clock::mono();
        loop {
            let left: Vec<ProcRef> = self.look().iter().map(|one| one.process).collect();
            if left.is_empty() || clock::mono().ms_since(started) > GIVE_UP_MS {
                return left.into_iter().collect();
            }
            let mut is_mortal = false;
            for process in &left {
                is_mortal |= self.send(*process, Signal::KILL);
            }
            // Those that could not be signalled may have ended since they were looked at.
            let immortal = || left.iter().copied().filter(|process| tree::lives(*process));
            if !is_mortal && immortal().next().is_some() {
                return immortal().collect();
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Sends a signal to a process that still carries one of the marks, the line in the log first.
    /// Returns whether it could be sent.
    fn send(&mut self, process: ProcRef, signal: Signal) -> bool {
        let Ok(held) = PidFd::open(process) else { return false };
        let marks = self.marks();
        let is_marked = procfs::birthmark(process.pid).is_some_and(|mark| marks.contains(&mark));
        if held.is_dead() || !is_marked {
            return false;
        }
        let key = (process.pid, process.start_ticks);
        let is_new = self.done.get(&key).is_none_or(|touched| touched.signal != signal);
        let command = tree::command_of(process.pid);
        if is_new && let Some(log) = &self.log {
            let _gone_all_the_same = log.add(&Line {
                at: clock::wall().rfc3339(),
                rule: RULE,
                pid: process.pid,
                start_ticks: process.start_ticks,
                top_pid: self.record.host.pid,
                age_ms: age_ms(process),
                signal: signal.to_string(),
                command: &command,
            });
        }
        let is_sent = held.send(signal).is_ok();
        let _wakes_the_stopped = held.send(Signal::CONT);
        self.done.insert(key, Touched { held, command, signal });
        is_sent
    }

    fn steps(self, left: &HashSet<ProcRef>) -> Vec<Step> {
        let host = || host_name(self.record);
        let touched = self.done.into_iter().map(|((pid, start_ticks), touched)| {
            let Touched { command, signal, .. } = touched;
            if left.contains(&ProcRef { pid, start_ticks }) {
                return Step::HostProcessLeft {
                    host: host(),
                    pid,
                    command,
                    why: why_it_lives(pid),
                };
            }
            let signal = Some(signal.to_string());
            Step::HostProcessEnded { host: host(), pid, command, signal }
        });
        let spared = self.spared.into_iter();
        let spared = spared.map(|((pid, _), command)| Step::HostProcessSpared {
            host: host(),
            pid,
            command,
        });
        touched.chain(spared).collect()
    }

    fn foreseen(mut self) -> Vec<Step> {
        let host = || host_name(self.record);
        let found = self.look();
        let ended = found.iter().map(|one| Step::HostProcessEnded {
            host: host(),
            pid: one.process.pid,
            command: tree::command_of(one.process.pid),
            signal: None,
        });
        ended.collect()
    }
}

fn host_name(record: &HostRecord) -> String {
    format!("{} ({})", siding_model::text::one_line(&record.name, 40), record.host.pid)
}

fn age_ms(process: ProcRef) -> u64 {
    let born = process.start_ticks.saturating_mul(1_000 / TICKS_PER_SECOND);
    clock::since_boot_ms().saturating_sub(born)
}

/// Returns who is spared: whoever `is_wanted`, and what is below.
fn spared(found: &[MarkedProcess], is_wanted: impl Fn(&MarkedProcess) -> bool) -> HashSet<i32> {
    let parents: HashMap<i32, i32> =
        found.iter().map(|one| (one.process.pid, one.parent)).collect();
    let wanted = found.iter().filter(|one| is_wanted(one));
    let tops: HashSet<i32> = wanted.map(|one| one.process.pid).collect();
    let is_below = |pid: i32| {
        std::iter::successors(Some(pid), |at| parents.get(at).copied())
            .take(ABOVE_MOST)
            .any(|at| tops.contains(&at))
    };
    found.iter().map(|one| one.process.pid).filter(|pid| is_below(*pid)).collect()
}

/// Returns the socket file on which a relay listens, as its words say.
fn listened_on(one: &MarkedProcess) -> Option<String> {
    let address = one.words.iter().find_map(|word| word.strip_prefix(LISTENS))?;
    let path = address.split(',').next()?;
    path.starts_with('/').then(|| path.to_owned())
}

/// Returns the socket files that a host has named after its process.
fn sockets_of(record: &HostRecord) -> Vec<String> {
    let in_place = |(directory, before, behind): (&str, &str, &str)| {
        let begin = format!("{before}{}{behind}", record.host.pid);
        let names = file::open_directory(Path::new(directory)).and_then(file::names);
        let mut names = names.unwrap_or_default();
        names.retain(|name| name.starts_with(&begin) && name.ends_with(".sock"));
        names.into_iter().map(move |name| format!("{directory}/{name}")).collect::<Vec<_>>()
    };
    SOCKETS_OF_HOST.into_iter().flat_map(in_place).collect()
}

/// Removes a socket file of this user's that nobody holds any more. `None` when there is none.
fn remove_socket(path: &Path) -> Option<Step> {
    let name = path.file_name()?.to_str()?;
    let directory = file::open_directory(path.parent()?).ok()?;
    let facts = file::facts_at(&directory, name).ok()?;
    let is_dead = facts.is_socket
        && facts.uid == process::effective_uid()
        && socket::is_held(&directory, name).is_ok_and(|held| !held)
        && file::facts_at(&directory, name).is_ok_and(|now| now.identity == facts.identity);
    if !is_dead {
        return None;
    }
    let path = path.display().to_string();
    Some(match file::remove(&directory, name) {
        Ok(()) => Step::SocketRemoved { path },
        Err(error) => Step::SocketLeft { path, why: error.to_string() },
    })
}
