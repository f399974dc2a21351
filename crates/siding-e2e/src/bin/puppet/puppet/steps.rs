//! The parsed steps of a script. The documentation of [`super`] describes each step.

use std::path::PathBuf;
use std::time::Duration;

use siding_e2e::fill_pattern::FillPattern;

/// The mode in which `reopen`, `reopen-append` and `reopen-rw` open the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReopenMode {
    Truncate,
    Append,
    ReadWrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    Ignore,
    Default,
}

/// The way in which the child of a block verb is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildKind {
    Fork,
    Vfork,
    Relaunch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Say(String),
    Err(String),
    Write(String),
    Mark(String),
    Report,
    Env(String),
    Exit(i32),
    Die(i32),
    Hang,
    Sleep(Duration),
    Signals(Disposition, Vec<i32>),
    Child(ChildKind, Vec<Self>),
    Wait,
    Setsid,
    Setpgid,
    Daemon,
    Orphan,
    ClearEnv,
    CloseFds,
    Rename(String),
    Chdir(PathBuf),
    Subreaper,
    ExecSelf(Vec<String>),
    StopSelf,
    LeaderExits,
    LowerRttime,
    Beat(PathBuf),
    Burn(Option<Duration>),
    Grow(u64),
    HoldFds(u64),
    Listen(PathBuf, u16),
    Fill(u64, FillPattern),
    ReadStdin,
    Reopen(ReopenMode, PathBuf, String),
    Truncate(PathBuf),
    Ftruncate(i32),
    Rewind(i32, String),
    Remove(PathBuf),
    Chmod(u32, PathBuf),
    Hop(Duration, Option<PathBuf>),
    Bomb { max_processes: u64, setsid: bool, refill: bool },
    Tree { seed: u64, depth: u64, width: u64, beats: Option<PathBuf> },
}
