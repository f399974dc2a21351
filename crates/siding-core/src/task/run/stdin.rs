//! The standard input of a new task.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::parent_id;

use siding_model::spec::StdinMode;
use siding_model::terminal::TerminalSize;

use crate::sys::inspect_process::{self, FdTarget, TargetKind};
use crate::sys::procfs;

/// The standard input of a new task. The specification records only its [`StdinMode`].
#[derive(Debug, Default)]
pub enum TaskStdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe to which `siding input` writes.
    Pipe,
    /// This file or pipe, which the command inherits.
    Inherit(OwnedFd),
    /// A terminal of this size, which is also the command's standard output and standard error.
    Terminal(TerminalSize),
}

impl TaskStdin {
    /// Returns the mode that the specification records.
    pub(super) const fn mode(&self) -> StdinMode {
        match self {
            Self::Null => StdinMode::Null,
            Self::Pipe => StdinMode::Pipe,
            Self::Inherit(_) => StdinMode::Inherit,
            Self::Terminal(_) => StdinMode::Terminal,
        }
    }

    /// Returns the descriptor that the command inherits.
    pub(super) fn inherited_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Null | Self::Pipe | Self::Terminal(_) => None,
            Self::Inherit(fd) => Some(fd.as_fd()),
        }
    }

    /// Returns the initial size of the command's terminal.
    pub(super) const fn terminal_size(&self) -> Option<TerminalSize> {
        match self {
            Self::Null | Self::Pipe | Self::Inherit(_) => None,
            Self::Terminal(size) => Some(*size),
        }
    }
}

/// The standard input of this process, as a possible input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerStdin {
    /// A file or pipe that was opened for this process alone: `siding run … < FILE`, or the end of
    /// a pipeline.
    Own,
    /// A file or pipe that is also the standard input of the parent process, or a pipe that the
    /// parent can write to: the input of a script or of an agent's tool. Also applies to any file
    /// or pipe if the descriptors of the parent cannot be read. A command that read this input
    /// would take the bytes from other readers, or would wait for bytes that are never written.
    Shared,
    /// Anything else, such as a terminal, `/dev/null` or a socket; also a closed descriptor.
    Other,
}

/// Returns the kind of this process's standard input.
#[must_use]
pub fn caller_stdin() -> CallerStdin {
    let own_pid = procfs::self_pid_in_proc().unwrap_or_default();
    let Some(stdin) = inspect_process::fd_target(own_pid, 0) else { return CallerStdin::Other };
    match stdin.kind {
        TargetKind::Fifo | TargetKind::File => {}
        TargetKind::Socket | TargetKind::Device | TargetKind::AnonymousInode => {
            return CallerStdin::Other;
        }
    }
    // A parent whose descriptors cannot be read is treated as if it held the file or pipe.
    let parent = i32::try_from(parent_id()).unwrap_or_default();
    let descriptors = inspect_process::open_fds(parent);
    let holds_stdin = |fd: i32| {
        inspect_process::fd_target(parent, fd).is_some_and(|target| is_same_object(target, stdin))
    };
    // A shell closes the write end of a pipe before it starts the reader, so a parent that still
    // has one will write. A read end under another number than 0 proves nothing: a shell closes its
    // copy only after it has started the last program of a pipeline, which may be later than this
    // call.
    let may_share =
        |fd: i32, is_writable: bool| fd == 0 || (is_writable && stdin.kind == TargetKind::Fifo);
    let shares = |(fd, _, is_writable)| may_share(fd, is_writable) && holds_stdin(fd);
    if descriptors.is_empty() || descriptors.into_iter().any(shares) {
        return CallerStdin::Shared;
    }
    CallerStdin::Own
}

fn is_same_object(first: FdTarget, second: FdTarget) -> bool {
    (first.device, first.inode) == (second.device, second.inode)
}
