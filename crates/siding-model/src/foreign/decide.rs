//! Which processes a rule is about, and which trees go.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use regex::Regex;

use super::facts::{Process, Spared, Tree, Verdicts, Viewer, Why};
use super::rule::{Rule, socket_names};
use crate::process::ProcRef;

/// The process that takes in orphans when nobody else does.
const INIT: i32 = 1;

/// Programs that take in the orphans below them (`PR_SET_CHILD_SUBREAPER`, or as a container's
/// first process). The kernel does not show who is one, so they are known by name; below any
/// other, a process is not taken for an orphan.
const REAPERS: &[&str] = &[
    "systemd",
    "init",
    "tini",
    "dumb-init",
    "docker-init",
    "podman-init",
    "catatonit",
    "s6-svscan",
    "runsvdir",
];

/// Programs that only carry out somebody's command: a tree of these has no life of its own, while
/// one below an editor or a server is that program's business.
const WRAPPERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "nohup", "setsid", "timeout",
    "nice", "ionice", "stdbuf", "bwrap", "socat", "unshare", "setpriv", "xargs",
];

/// The relays of the built-in rules. They read no terminal, so the one that their host was started
/// from does not keep them.
const RELAYS: &[&str] = &["socat"];

/// Decides which trees go by which rule, and why others that fit a pattern stay.
///
/// A tree goes when a process of it fits a rule and is old enough, the topmost process is as old,
/// all of it is the viewer's and of nobody's terminal, no host lives above it or in it, siding
/// keeps nothing of it, and what is above it is init or another process that takes in orphans.
/// Younger processes below an old one go with it. A tree that a built-in rule chose stays as long
/// as a process outside of all such trees names one of its socket files.
#[must_use]
pub fn decide(processes: &[Process], rules: &[Rule], viewer: Viewer) -> Verdicts {
    let look = Look::new(processes, rules, viewer);
    let mut verdicts = Verdicts::default();
    let mut taken: HashSet<i32> = HashSet::new();
    for (rule, pattern) in &look.rules {
        for one in processes {
            let pid = one.process.pid;
            if taken.contains(&pid) || one.uid != Some(viewer.uid) || !fits(pattern, one) {
                continue;
            }
            let (rule, cause) = (*rule, one.process);
            match look.tree(rule, one) {
                Ok(members) => {
                    taken.extend(members.iter().map(|member| member.pid));
                    verdicts.trees.push(Tree { rule: rule.name.clone(), cause, members });
                }
                Err(why) => {
                    let rule = rule.name.clone();
                    verdicts.spared.push(Spared { rule, process: cause, why });
                }
            }
        }
    }
    look.spare_used(processes, &mut verdicts);
    // What one rule spares another may take.
    let chosen: HashSet<ProcRef> =
        verdicts.trees.iter().flat_map(|tree| tree.members.clone()).collect();
    verdicts.spared.retain(|spared| !chosen.contains(&spared.process));
    verdicts
}

fn fits(pattern: &Regex, process: &Process) -> bool {
    !process.argv.is_empty() && pattern.is_match(&process.argv.join(" "))
}

/// All processes, in the ways in which they are looked up.
struct Look<'a> {
    by_pid: HashMap<i32, &'a Process>,
    children: HashMap<i32, Vec<&'a Process>>,
    rules: Vec<(&'a Rule, Regex)>,
    viewer: Viewer,
    /// The viewer and everything above it.
    viewers: HashSet<i32>,
}

impl<'a> Look<'a> {
    fn new(processes: &'a [Process], rules: &'a [Rule], viewer: Viewer) -> Self {
        let by_pid = processes.iter().map(|one| (one.process.pid, one)).collect();
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for one in processes {
            children.entry(one.ppid).or_default().push(one);
        }
        let rules =
            rules.iter().filter_map(|rule| Some((rule, rule.compiled()?))).collect::<Vec<_>>();
        let mut look = Self { by_pid, children, rules, viewer, viewers: HashSet::new() };
        let above = look.by_pid.get(&viewer.pid).map(|one| look.above(one).0).unwrap_or_default();
        look.viewers = above.iter().map(|one| one.process.pid).collect();
        look.viewers.insert(viewer.pid);
        look
    }

    /// Returns what is above a process, the nearest first, and whether that leads up to init.
    fn above(&self, process: &Process) -> (Vec<&'a Process>, bool) {
        let mut chain: Vec<&Process> = Vec::new();
        let mut ppid = process.ppid;
        while let Some(parent) = self.by_pid.get(&ppid) {
            chain.push(parent);
            if ppid == INIT {
                return (chain, true);
            }
            // A circle can only come from numbers that changed hands during the look.
            if chain.len() > self.by_pid.len() {
                return (chain, false);
            }
            ppid = parent.ppid;
        }
        // Init itself is another user's, and hidden where `/proc` hides those.
        (chain, ppid == INIT)
    }

    /// Returns the tree of a process that fits a rule, or why it stays.
    fn tree(&self, rule: &Rule, cause: &'a Process) -> Result<Vec<ProcRef>, Why> {
        let least = rule.min_age.unwrap_or(self.viewer.min_age);
        let (above, is_whole) = self.above(cause);
        for one in std::iter::once(&cause).chain(&above) {
            no_host(rule, one)?;
        }
        if !is_whole {
            return Err(Why::Unseen);
        }
        old_enough(cause, least)?;
        let mut top = cause;
        for parent in above {
            if parent.process.pid == INIT || parent.is_program(REAPERS) {
                break;
            }
            let carries = parent.is_program(WRAPPERS) || self.fits_any(parent);
            if !carries {
                let (pid, name) = (parent.process.pid, parent.name.clone());
                return Err(Why::Below { pid, name });
            }
            top = parent;
        }
        old_enough(top, least)?;
        let members = self.below(top);
        for member in &members {
            self.may_go(rule, member)?;
        }
        Ok(members.iter().map(|member| member.process).collect())
    }

    fn fits_any(&self, process: &Process) -> bool {
        self.rules.iter().any(|(_, pattern)| fits(pattern, process))
    }

    /// Takes trees of built-in rules out again whose socket files are named outside of all trees.
    ///
    /// Repeated until nothing changes: the processes of a tree that stays count as outside.
    fn spare_used(&self, processes: &[Process], verdicts: &mut Verdicts) {
        let is_built_in = |tree: &Tree| {
            self.rules.iter().any(|(rule, _)| rule.name == tree.rule && rule.is_built_in())
        };
        if !verdicts.trees.iter().any(is_built_in) {
            return;
        }
        let Some(finder) = socket_names() else { return };
        let names = |one: &Process| -> Vec<String> {
            finder.find_iter(&one.argv.join(" ")).map(|name| name.as_str().to_owned()).collect()
        };
        loop {
            let inside: HashSet<ProcRef> =
                verdicts.trees.iter().flat_map(|tree| tree.members.iter().copied()).collect();
            let outside = processes.iter().filter(|one| !inside.contains(&one.process));
            let used: HashMap<String, i32> = outside
                .flat_map(|one| names(one).into_iter().map(|name| (name, one.process.pid)))
                .collect();
            let user = |tree: &Tree| {
                let members = tree.members.iter().filter_map(|member| self.by_pid.get(&member.pid));
                let mut own = members.flat_map(|member| names(member));
                own.find_map(|name| Some((*used.get(&name)?, name)))
            };
            let found = verdicts.trees.iter().enumerate().filter(|(_, tree)| is_built_in(tree));
            let Some((at, (pid, socket))) =
                found.into_iter().find_map(|(at, tree)| Some((at, user(tree)?)))
            else {
                return;
            };
            let Tree { rule, members, .. } = verdicts.trees.remove(at);
            let fitting = members.into_iter().filter(|member| {
                self.by_pid.get(&member.pid).is_some_and(|one| self.fits_any(one))
            });
            verdicts.spared.extend(fitting.map(|process| {
                let why = Why::InUse { pid, socket: socket.clone() };
                Spared { rule: rule.clone(), process, why }
            }));
        }
    }

    /// Returns a process and all below it, parents before children.
    fn below(&self, top: &'a Process) -> Vec<&'a Process> {
        let mut members = vec![top];
        let mut known = HashSet::from([top.process.pid]);
        let mut next = 0;
        while let Some(parent) = members.get(next) {
            let children = self.children.get(&parent.process.pid);
            let new = children.into_iter().flatten().filter(|one| known.insert(one.process.pid));
            members.extend(new);
            next += 1;
        }
        members
    }

    fn may_go(&self, rule: &Rule, member: &Process) -> Result<(), Why> {
        let pid = member.process.pid;
        if self.viewers.contains(&pid) {
            return Err(Why::Caller);
        }
        if member.uid != Some(self.viewer.uid) {
            return Err(Why::OtherUser { pid });
        }
        if member.is_marked {
            return Err(Why::Marked { pid });
        }
        let is_relay = || rule.is_built_in() && member.is_program(RELAYS) && self.fits_any(member);
        if member.has_terminal && !is_relay() {
            return Err(Why::Terminal { pid });
        }
        no_host(rule, member)
    }
}

fn no_host(rule: &Rule, process: &Process) -> Result<(), Why> {
    if process.is_one_of(&rule.hosts) {
        let (pid, name) = (process.process.pid, process.name.clone());
        return Err(Why::LiveHost { pid, name });
    }
    Ok(())
}

fn old_enough(process: &Process, least: Duration) -> Result<(), Why> {
    if process.age < least {
        return Err(Why::TooYoung { pid: process.process.pid, age: process.age, least });
    }
    Ok(())
}
