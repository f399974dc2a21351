//! What goes into the decision, and what comes out.

use std::time::Duration;

use crate::duration;
use crate::process::ProcRef;

/// What is known about one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Which.
    pub process: ProcRef,
    /// Its parent; 0 when that is outside of what can be seen.
    pub ppid: i32,
    /// Whose it is; `None` when that is not one user, or not known.
    pub uid: Option<u32>,
    /// Time since it was started.
    pub age: Duration,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Its command line, in words.
    pub argv: Vec<String>,
    /// Whether it has a controlling terminal, at which somebody may sit.
    pub has_terminal: bool,
    /// Whether it carries a mark of siding's.
    pub has_birthmark: bool,
}

impl ProcessInfo {
    /// Returns the names under which a program may know itself: the kernel's, the first word, and
    /// the second for a script in an interpreter. Without directories and a login shell's dash.
    fn program_names(&self) -> impl Iterator<Item = &str> {
        let base = |word: &'_ String| word.rsplit('/').next().unwrap_or_default().len();
        let words = self.argv.iter().take(2).map(move |word| &word[word.len() - base(word)..]);
        std::iter::once(self.name.as_str()).chain(words).map(|name| name.trim_start_matches('-'))
    }

    /// Whether it, or the script it runs, is one of these.
    pub(super) fn runs_any_of(&self, names: &[impl AsRef<str>]) -> bool {
        self.program_names().any(|name| names.iter().any(|known| known.as_ref() == name))
    }

    /// Whether the program itself, not a script it runs, is one of these.
    pub(super) fn is_program_named(&self, names: &[&str]) -> bool {
        let mut own = self.program_names().take(2);
        own.any(|name| names.contains(&name))
    }
}

/// Who wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    /// The process that asks: neither it nor what it lives below is ever chosen.
    pub pid: i32,
    /// Its user, whose processes alone are looked at.
    pub uid: u32,
    /// Age from which on rules apply that do not say one.
    pub min_age: Duration,
}

/// An orphaned tree that goes as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanTree {
    /// Name of the rule.
    pub rule: String,
    /// The process to which the rule applies.
    pub matched_process: ProcRef,
    /// All its processes, the topmost first and parents before children.
    pub members: Vec<ProcRef>,
}

/// A process that fits a rule's pattern and is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptProcess {
    /// Name of the rule.
    pub rule: String,
    /// Which.
    pub process: ProcRef,
    /// Why.
    pub reason: KeepReason,
}

/// Why a process that fits a pattern is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeepReason {
    /// A session of its host lives, above it or in its tree.
    #[error("the host `{name}` ({pid}) lives")]
    LiveHost {
        /// The host.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// It, or the tree's topmost process, has not lived long enough.
    #[error("{pid} is {} old, less than {}", duration::format_duration(*age), duration::format_duration(*least))]
    TooYoung {
        /// The process.
        pid: i32,
        /// Its age.
        age: Duration,
        /// From when on the rule applies.
        least: Duration,
    },
    /// A program that is no shell and no helper started it and lives.
    #[error("it belongs to `{name}` ({pid}), which lives")]
    LiveParent {
        /// The program.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// Whoever is above it cannot be seen.
    #[error("not everything above it can be seen from here")]
    HiddenAncestor,
    /// Its tree has a process of another user.
    #[error("{pid} in its tree is not this user's")]
    OtherUser {
        /// That process.
        pid: i32,
    },
    /// Its tree has a process that siding keeps, or another state directory does.
    #[error("{pid} in its tree belongs to a task of siding")]
    OwnedByTask {
        /// That process.
        pid: i32,
    },
    /// Somebody may sit at its terminal.
    #[error("{pid} in its tree has a terminal")]
    HasTerminal {
        /// That process.
        pid: i32,
    },
    /// A process outside of every orphaned tree still names its socket file.
    #[error("{pid}, which is no orphan, names its socket `{socket}`")]
    SocketInUse {
        /// That process.
        pid: i32,
        /// The name of the socket file.
        socket: String,
    },
    /// The one who asks lives below it.
    #[error("this command was started from its tree")]
    ContainsRequester,
}

/// What [`decide()`](super::decide()) came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReapDecision {
    /// What goes. No process is in two of them.
    pub trees: Vec<OrphanTree>,
    /// What fits a pattern and stays.
    pub kept: Vec<KeptProcess>,
}
