//! Selection of the orphaned process trees that are terminated.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use regex::Regex;

use super::facts::{KeepReason, KeptProcess, OrphanTree, ProcessInfo, ReapDecision, Requester};
use super::rule::{OrphanRule, socket_name_regex};
use crate::process::ProcRef;

/// Pid of init, to which the kernel reparents orphans by default.
const INIT_PID: i32 = 1;

/// Programs that become the parent of orphans below them: subreapers (`PR_SET_CHILD_SUBREAPER`),
/// and the first processes of containers. The kernel does not show which processes are subreapers,
/// so they are recognized by name. A process below any other program is not treated as an orphan,
/// unless that program is one of [`WRAPPER_PROGRAMS`] or matches a rule.
const SUBREAPER_PROGRAMS: &[&str] = &[
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

/// Programs that only execute another command. The search for the top of a tree passes over these
/// programs. At any other program that no rule matches, such as an editor or a server, the search
/// stops: this program then owns the process.
const WRAPPER_PROGRAMS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "nohup", "setsid", "timeout",
    "nice", "ionice", "stdbuf", "bwrap", "socat", "unshare", "setpriv", "xargs",
];

/// The relays of the built-in rules. A relay may be terminated although it has a terminal, because
/// the relay inherited the terminal from its host and does not read it.
const RELAY_PROGRAMS: &[&str] = &["socat"];

/// Decides which process trees are terminated under which rule, and why other matching processes
/// are kept.
///
/// A tree is selected when one of its processes matches a rule, and both this process and the
/// topmost process have the age that the rule requires; other members may be younger. The parent of
/// the tree must be init or another process to which orphans are reparented. All members must run
/// as the requester's user and belong to no task, and only relays of a built-in rule may have a
/// terminal. No member and no ancestor may be a host, and no member may be the requester or one of
/// its ancestors. A tree selected by a built-in rule is kept as long as a process outside of all
/// selected trees refers to one of the tree's socket files.
#[must_use]
pub fn select_orphan_trees(
    processes: &[ProcessInfo],
    rules: &[OrphanRule],
    viewer: Requester,
) -> ReapDecision {
    let index = ProcessIndex::new(processes, rules, viewer);
    let mut verdicts = ReapDecision::default();
    let mut taken: HashSet<i32> = HashSet::new();
    for (rule, pattern) in &index.rules {
        for one in processes {
            let pid = one.process.pid;
            if taken.contains(&pid) || one.uid != Some(viewer.uid) || !matches_pattern(pattern, one)
            {
                continue;
            }
            let (rule, cause) = (*rule, one.process);
            match index.orphan_tree(rule, one) {
                Ok(members) => {
                    taken.extend(members.iter().map(|member| member.pid));
                    verdicts.trees.push(OrphanTree {
                        rule: rule.name.clone(),
                        matched_process: cause,
                        members,
                    });
                }
                Err(why) => {
                    let rule = rule.name.clone();
                    verdicts.kept.push(KeptProcess { rule, process: cause, reason: why });
                }
            }
        }
    }
    index.keep_trees_in_use(processes, &mut verdicts);
    // A process that is kept under one rule may have been selected under another.
    let chosen: HashSet<ProcRef> =
        verdicts.trees.iter().flat_map(|tree| tree.members.clone()).collect();
    verdicts.kept.retain(|spared| !chosen.contains(&spared.process));
    verdicts
}

fn matches_pattern(pattern: &Regex, process: &ProcessInfo) -> bool {
    !process.argv.is_empty() && pattern.is_match(&process.argv.join(" "))
}

/// All processes by pid and by parent, with the compiled rules.
struct ProcessIndex<'a> {
    by_pid: HashMap<i32, &'a ProcessInfo>,
    children: HashMap<i32, Vec<&'a ProcessInfo>>,
    rules: Vec<(&'a OrphanRule, Regex)>,
    requester: Requester,
    /// Pids of the requester and its ancestors.
    requester_chain: HashSet<i32>,
}

impl<'a> ProcessIndex<'a> {
    fn new(processes: &'a [ProcessInfo], rules: &'a [OrphanRule], viewer: Requester) -> Self {
        let by_pid = processes.iter().map(|one| (one.process.pid, one)).collect();
        let mut children: HashMap<i32, Vec<&ProcessInfo>> = HashMap::new();
        for one in processes {
            children.entry(one.ppid).or_default().push(one);
        }
        let rules =
            rules.iter().filter_map(|rule| Some((rule, rule.compile()?))).collect::<Vec<_>>();
        let mut lookup =
            Self { by_pid, children, rules, requester: viewer, requester_chain: HashSet::new() };
        let above =
            lookup.by_pid.get(&viewer.pid).map(|one| lookup.ancestors(one).0).unwrap_or_default();
        lookup.requester_chain = above.iter().map(|one| one.process.pid).collect();
        lookup.requester_chain.insert(viewer.pid);
        lookup
    }

    /// Returns the ancestors of a process, the nearest first, and whether the chain is complete up
    /// to init.
    fn ancestors(&self, process: &ProcessInfo) -> (Vec<&'a ProcessInfo>, bool) {
        let mut chain: Vec<&ProcessInfo> = Vec::new();
        let mut ppid = process.ppid;
        while let Some(parent) = self.by_pid.get(&ppid) {
            chain.push(parent);
            if ppid == INIT_PID {
                return (chain, true);
            }
            // The chain has a cycle, which can result from pids that were reused during the scan.
            if chain.len() > self.by_pid.len() {
                return (chain, false);
            }
            ppid = parent.ppid;
        }
        // Init runs as root and is not visible where `/proc` hides the processes of other users.
        (chain, ppid == INIT_PID)
    }

    /// Returns the tree of a process that matches a rule, or the reason why this process is kept.
    fn orphan_tree(
        &self,
        rule: &OrphanRule,
        cause: &'a ProcessInfo,
    ) -> Result<Vec<ProcRef>, KeepReason> {
        let least = rule.min_age.unwrap_or(self.requester.min_age);
        let (above, is_whole) = self.ancestors(cause);
        for one in std::iter::once(&cause).chain(&above) {
            check_not_host(rule, one)?;
        }
        if !is_whole {
            return Err(KeepReason::HiddenAncestor);
        }
        check_age(cause, least)?;
        let mut top = cause;
        for parent in above {
            if parent.process.pid == INIT_PID || parent.is_program_named(SUBREAPER_PROGRAMS) {
                break;
            }
            let carries =
                parent.is_program_named(WRAPPER_PROGRAMS) || self.matches_any_rule(parent);
            if !carries {
                let (pid, name) = (parent.process.pid, parent.name.clone());
                return Err(KeepReason::LiveParent { pid, name });
            }
            top = parent;
        }
        check_age(top, least)?;
        let members = self.descendants(top);
        for member in &members {
            self.check_member(rule, member)?;
        }
        Ok(members.iter().map(|member| member.process).collect())
    }

    fn matches_any_rule(&self, process: &ProcessInfo) -> bool {
        self.rules.iter().any(|(_, pattern)| matches_pattern(pattern, process))
    }

    /// Keeps each tree that a built-in rule selected if a process outside of all selected trees
    /// refers to a socket file of the tree.
    ///
    /// The check is repeated until nothing changes: once a tree is kept, its processes are outside
    /// of the selected trees and may use the socket files of another tree.
    fn keep_trees_in_use(&self, processes: &[ProcessInfo], verdicts: &mut ReapDecision) {
        let is_built_in = |tree: &OrphanTree| {
            self.rules.iter().any(|(rule, _)| rule.name == tree.rule && rule.is_built_in())
        };
        if !verdicts.trees.iter().any(is_built_in) {
            return;
        }
        let Some(finder) = socket_name_regex() else { return };
        let names = |one: &ProcessInfo| -> Vec<String> {
            finder.find_iter(&one.argv.join(" ")).map(|name| name.as_str().to_owned()).collect()
        };
        loop {
            let inside: HashSet<ProcRef> =
                verdicts.trees.iter().flat_map(|tree| tree.members.iter().copied()).collect();
            let outside = processes.iter().filter(|one| !inside.contains(&one.process));
            let used: HashMap<String, i32> = outside
                .flat_map(|one| names(one).into_iter().map(|name| (name, one.process.pid)))
                .collect();
            let user = |tree: &OrphanTree| {
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
            let OrphanTree { rule, members, .. } = verdicts.trees.remove(at);
            let fitting = members.into_iter().filter(|member| {
                self.by_pid.get(&member.pid).is_some_and(|one| self.matches_any_rule(one))
            });
            verdicts.kept.extend(fitting.map(|process| {
                let why = KeepReason::SocketInUse { pid, socket: socket.clone() };
                KeptProcess { rule: rule.clone(), process, reason: why }
            }));
        }
    }

    /// Returns a process and its descendants; parents precede their children.
    fn descendants(&self, top: &'a ProcessInfo) -> Vec<&'a ProcessInfo> {
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

    fn check_member(&self, rule: &OrphanRule, member: &ProcessInfo) -> Result<(), KeepReason> {
        let pid = member.process.pid;
        if self.requester_chain.contains(&pid) {
            return Err(KeepReason::ContainsRequester);
        }
        if member.uid != Some(self.requester.uid) {
            return Err(KeepReason::OtherUser { pid });
        }
        if member.has_birthmark {
            return Err(KeepReason::OwnedByTask { pid });
        }
        let is_relay = || {
            rule.is_built_in()
                && member.is_program_named(RELAY_PROGRAMS)
                && self.matches_any_rule(member)
        };
        if member.has_terminal && !is_relay() {
            return Err(KeepReason::HasTerminal { pid });
        }
        check_not_host(rule, member)
    }
}

fn check_not_host(rule: &OrphanRule, process: &ProcessInfo) -> Result<(), KeepReason> {
    if process.runs_any_of(&rule.hosts) {
        let (pid, name) = (process.process.pid, process.name.clone());
        return Err(KeepReason::LiveHost { pid, name });
    }
    Ok(())
}

fn check_age(process: &ProcessInfo, least: Duration) -> Result<(), KeepReason> {
    if process.age < least {
        return Err(KeepReason::TooYoung { pid: process.process.pid, age: process.age, least });
    }
    Ok(())
}
