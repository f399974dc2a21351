//! The input and the result of the decision about unowned processes.

use std::time::Duration;

use crate::duration;
use crate::process::ProcRef;

/// The facts about a process on which the decision is based.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Pid and start time of the process.
    pub process: ProcRef,
    /// Pid of the parent; 0 when the parent is not visible.
    pub ppid: i32,
    /// User id; `None` when the real, effective and saved ids differ or are unknown.
    pub uid: Option<u32>,
    /// Time since the process was started.
    pub age: Duration,
    /// Name of the process, as the kernel reports it.
    pub name: String,
    /// Words of the command line. A process without words matches no rule.
    pub argv: Vec<String>,
    /// Whether the process has a controlling terminal, which a user may be using.
    pub has_terminal: bool,
    /// Whether the process carries the birthmark of a task.
    pub has_birthmark: bool,
}

impl ProcessInfo {
    /// Returns the possible names of the program: the kernel's name of the process, the first word
    /// of the command line, and the second word, which names the script of an interpreter.
    /// Directories and the dash of a login shell are removed.
    fn program_names(&self) -> impl Iterator<Item = &str> {
        let base = |word: &'_ String| word.rsplit('/').next().unwrap_or_default().len();
        let words = self.argv.iter().take(2).map(move |word| &word[word.len() - base(word)..]);
        std::iter::once(self.name.as_str()).chain(words).map(|name| name.trim_start_matches('-'))
    }

    /// Returns whether the executable of the process, or the script that it runs, has one of these
    /// names.
    pub(super) fn runs_any_of(&self, names: &[impl AsRef<str>]) -> bool {
        self.program_names().any(|name| names.iter().any(|known| known.as_ref() == name))
    }

    /// Returns whether the executable of the process has one of these names. Scripts are not
    /// considered.
    pub(super) fn is_program_named(&self, names: &[&str]) -> bool {
        let mut own = self.program_names().take(2);
        own.any(|name| names.contains(&name))
    }
}

/// The process on whose behalf the decision is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// Pid of the requester. A tree with the requester or one of its ancestors is never selected.
    pub pid: i32,
    /// User id of the requester. Only processes of this user are considered.
    pub uid: u32,
    /// Minimum age of a process for rules that do not specify one.
    pub min_age: Duration,
}

/// An orphaned process tree, which is terminated as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanTree {
    /// Name of the rule under which the tree is terminated.
    pub rule: String,
    /// The process that matches the rule.
    pub matched_process: ProcRef,
    /// All processes of the tree, the topmost first and parents before children.
    pub members: Vec<ProcRef>,
}

/// A process that matches the pattern of a rule and is not terminated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptProcess {
    /// Name of the rule whose pattern matches.
    pub rule: String,
    /// Pid and start time of the process.
    pub process: ProcRef,
    /// The reason why the process is not terminated.
    pub reason: KeepReason,
}

/// The reason why a process that matches a pattern is kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeepReason {
    /// An ancestor of the process, or a member of its tree, is a living host.
    #[error("the host `{name}` ({pid}) is alive")]
    LiveHost {
        /// Pid of the host.
        pid: i32,
        /// Name of the host's process, as the kernel reports it.
        name: String,
    },
    /// The process, or the topmost process of its tree, is too young.
    #[error("{pid} is {} old, less than {}", duration::format_duration(*age), duration::format_duration(*least))]
    TooYoung {
        /// Pid of the process that is too young.
        pid: i32,
        /// Time since this process was started.
        age: Duration,
        /// Minimum age that the rule requires.
        least: Duration,
    },
    /// The process was started by a living program that is neither a shell nor a helper.
    #[error("it belongs to `{name}` ({pid}), which is alive")]
    LiveParent {
        /// Pid of the living program.
        pid: i32,
        /// Name of the program's process, as the kernel reports it.
        name: String,
    },
    /// An ancestor of the process is not visible in `/proc`.
    #[error("one of its ancestors is not visible from here")]
    HiddenAncestor,
    /// The tree contains a process of another user, or one whose user ids differ or are unknown.
    #[error("{pid} in its tree belongs to another user")]
    OtherUser {
        /// Pid of the other user's process.
        pid: i32,
    },
    /// The tree contains a process of a task, in this state directory or another one.
    #[error("{pid} in its tree belongs to a task of siding")]
    OwnedByTask {
        /// Pid of the task's process.
        pid: i32,
    },
    /// A process of the tree has a terminal, which a user may be using.
    #[error("{pid} in its tree has a terminal")]
    HasTerminal {
        /// Pid of the process with the terminal.
        pid: i32,
    },
    /// A process outside of all selected trees refers to a socket file of the tree.
    #[error("{pid}, which is not an orphan, refers to its socket `{socket}`")]
    SocketInUse {
        /// Pid of the process that refers to the socket file.
        pid: i32,
        /// Name of the socket file, without its directory.
        socket: String,
    },
    /// The requester is a process of the tree, or a descendant of one.
    #[error("this command was started from its tree")]
    ContainsRequester,
}

/// The result of [`select_orphan_trees`](super::select_orphan_trees).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReapDecision {
    /// The trees to terminate. No process is in two trees.
    pub trees: Vec<OrphanTree>,
    /// The processes that match a pattern and are kept.
    pub kept: Vec<KeptProcess>,
}
