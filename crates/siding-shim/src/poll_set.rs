//! The descriptors of one poll(2), each with a token that names its task and its source.

use std::os::fd::BorrowedFd;

use siding_core::sys::poll;

use crate::clients::ClientId;

/// The meaning of a readable descriptor for a task.
///
/// The variants are in the order in which a task's sources are dispatched. Output comes first: a
/// leader's end drains the output without notifying the clients that follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// A FIFO of the output has data.
    Output,
    /// The shim received a signal, SIGCHLD for example. All tasks of the shim share this source.
    Signals,
    /// A process of the task that is not a child of the shim has ended.
    TreeMember,
    /// The holder of the task's terminal has ended.
    TerminalHolder,
    /// The owner that the task's lease watches has ended.
    SessionOwner,
    /// A server that must respond before the task is ready has responded.
    Readiness,
    /// The task's proxy denied a host, or has ended.
    Proxy,
    /// The remote machine of a mirror sent messages, or the connection is closed.
    RemoteMessages,
    /// The ssh of a mirror wrote to its standard error.
    RemoteErrors,
    /// The local input of a mirror's task has bytes, or has ended.
    LocalInput,
    /// The rsync of a mirror wrote a message, or has exited.
    Fetch,
    /// A client sent a request, or disconnected.
    Client(ClientId),
    /// A client connects.
    Listener,
}

/// The task to which a descriptor belongs, and the meaning of a readable descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    /// Index of the task; `None` for a source that all tasks share.
    task: Option<usize>,
    source: Source,
}

/// The descriptors to poll once, and their tokens.
#[derive(Debug, Default)]
pub(crate) struct PollSet<'fd> {
    fds: Vec<BorrowedFd<'fd>>,
    /// The token of each descriptor, in the same order.
    tokens: Vec<Token>,
}

impl<'fd> PollSet<'fd> {
    /// Adds a descriptor that all tasks share.
    pub(crate) fn add_shared(&mut self, source: Source, fd: BorrowedFd<'fd>) {
        self.push(Token { task: None, source }, fd);
    }

    /// Adds descriptors of the task with this index.
    pub(crate) fn add(
        &mut self,
        task: usize,
        source: Source,
        fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    ) {
        for fd in fds {
            self.push(Token { task: Some(task), source }, fd);
        }
    }

    fn push(&mut self, token: Token, fd: BorrowedFd<'fd>) {
        self.tokens.push(token);
        self.fds.push(fd);
    }

    /// Waits until a descriptor is readable or `timeout_ms` has passed; `None` waits without a
    /// limit.
    pub(crate) fn wait(self, timeout_ms: Option<u64>) -> ReadySources {
        let Self { fds, mut tokens } = self;
        // poll(2) fails only when the kernel has no memory. In that case, every source is tried
        // after a pause, because none of them blocks. An omitted source could be
        // the last one that ever wakes the shim.
        let is_ready =
            poll::wait_readable_or_pause(&fds, timeout_ms).unwrap_or_else(|| vec![true; fds.len()]);
        let mut is_ready = is_ready.into_iter();
        tokens.retain(|_| is_ready.next() == Some(true));
        ReadySources(tokens)
    }
}

/// The sources that a poll found readable.
#[derive(Debug)]
pub(crate) struct ReadySources(Vec<Token>);

impl ReadySources {
    /// Returns whether a source that all tasks share is readable.
    pub(crate) fn contains_shared(&self, source: Source) -> bool {
        self.0.contains(&Token { task: None, source })
    }

    /// Returns the readable sources of the task with this index and those that all tasks share,
    /// each once, in the order in which they are dispatched.
    pub(crate) fn for_task(&self, task: usize) -> Vec<Source> {
        let tokens = self.0.iter().filter(|token| token.task.is_none_or(|index| index == task));
        let mut sources: Vec<Source> = tokens.map(|token| token.source).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use siding_core::sys::{file, pipe};

    use super::*;

    #[test]
    fn ready_sources_are_grouped_by_task_in_dispatch_order() {
        let (empty, _keeps_alive) = pipe::create_pipe().expect("a pipe");
        let (full, write) = pipe::create_pipe().expect("a pipe");
        file::write(&write, b"x").expect("an empty pipe has space");
        let mut set = PollSet::default();
        set.add_shared(Source::Signals, full.as_fd());
        set.add(0, Source::Listener, [full.as_fd()]);
        set.add(0, Source::TreeMember, [full.as_fd(), empty.as_fd(), full.as_fd()]);
        set.add(0, Source::Output, [full.as_fd()]);
        set.add(1, Source::Output, [empty.as_fd()]);
        let ready = set.wait(None);
        assert!(ready.contains_shared(Source::Signals));
        let first = [Source::Output, Source::Signals, Source::TreeMember, Source::Listener];
        assert_eq!(ready.for_task(0), first);
        assert_eq!(ready.for_task(1), [Source::Signals]);
    }

    #[test]
    fn nothing_is_ready_after_a_timeout() {
        let (empty, _keeps_alive) = pipe::create_pipe().expect("a pipe");
        let mut set = PollSet::default();
        set.add_shared(Source::Signals, empty.as_fd());
        set.add(0, Source::SessionOwner, [empty.as_fd()]);
        let ready = set.wait(Some(0));
        assert!(!ready.contains_shared(Source::Signals));
        assert_eq!(ready.for_task(0), []);
    }
}
