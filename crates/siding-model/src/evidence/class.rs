//! What one process does, in one word.

use super::facts::{Asleep, Call, Doing, Object, ProcessFacts, Sample, ThreadFacts};

/// What a process does. In the order in which they explain the silence of a whole task: of a
/// process with several threads the first one counts, and of a task the first that is no
/// [`Class::is_relay`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// It reads the input, a terminal, or what it takes for one, and waits for nothing else.
    Input,
    /// It was stopped.
    Stopped,
    /// It runs.
    Running,
    /// It waits for the input and for other things.
    InputLoop,
    /// It waits for a disk.
    Disk,
    /// It waits for another end of a socket.
    Network,
    /// It waits for connections.
    Serving,
    /// It waits for a file's lock.
    Lock,
    /// It waits for a FIFO.
    Fifo,
    /// It waits for somebody to take what it writes.
    PipeFull,
    /// It may not be looked into.
    Denied,
    /// It waits for the clock.
    Timer,
    /// Its threads wait for each other.
    Futex,
    /// It waits for files to change, for a signal, or nobody knows for what.
    Idle,
    /// It waits for somebody to write into a pipe.
    PipeRead,
    /// It waits for a child.
    Child,
}

impl Class {
    /// Whether it only waits for another process, so that the reason lies there.
    pub(super) const fn is_relay(self) -> bool {
        matches!(self, Self::PipeRead | Self::Child)
    }

    /// Whether it explains nothing by itself: what it would prove was looked for before.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Input | Self::Stopped | Self::Running | Self::InputLoop)
    }

    /// Whether it is work of its own that a waiting reader elsewhere in the tree does not hold up.
    pub(super) const fn is_work(self) -> bool {
        matches!(
            self,
            Self::Running
                | Self::Disk
                | Self::Network
                | Self::Serving
                | Self::Lock
                | Self::Fifo
                | Self::PipeFull
                | Self::Timer
        )
    }
}

/// What a process does, and the thread that says so.
#[derive(Debug, Clone, Copy)]
pub(super) struct Classed<'s> {
    pub(super) process: &'s ProcessFacts,
    pub(super) thread: Option<&'s ThreadFacts>,
    pub(super) class: Class,
}

/// Returns what each living process of a sample does. One that reads the input in one thread and
/// works in another is there twice: neither explains it alone.
pub(super) fn of_sample(sample: &Sample) -> Vec<Classed<'_>> {
    let both = |process| {
        let first = of_process(sample, process);
        let works = (first.class == Class::Input).then(|| of_worker(sample, process)).flatten();
        [Some(first), works]
    };
    sample.processes.iter().flat_map(both).flatten().collect()
}

fn of_process<'s>(sample: &'s Sample, process: &'s ProcessFacts) -> Classed<'s> {
    if matches!(process.state, 'T' | 't') {
        return Classed { process, thread: process.threads.first(), class: Class::Stopped };
    }
    let first = threads(sample, process).min_by_key(|one| one.class);
    first.unwrap_or(Classed { process, thread: None, class: Class::Idle })
}

/// Returns the thread of a process that works.
fn of_worker<'s>(sample: &'s Sample, process: &'s ProcessFacts) -> Option<Classed<'s>> {
    threads(sample, process).filter(|one| one.class.is_work()).min_by_key(|one| one.class)
}

fn threads<'s>(sample: &'s Sample, process: &'s ProcessFacts) -> impl Iterator<Item = Classed<'s>> {
    let is_parent = sample.processes.iter().any(|other| other.parent == process.process.pid);
    process.threads.iter().map(move |thread| Classed {
        process,
        thread: Some(thread),
        class: of_thread(thread, is_parent),
    })
}

fn of_thread(thread: &ThreadFacts, is_parent: bool) -> Class {
    match &thread.doing {
        Doing::Running => Class::Running,
        Doing::Denied => Class::Denied,
        Doing::Hidden => Class::Idle,
        Doing::Asleep(asleep) => of_wait(asleep, is_parent),
    }
}

fn of_wait(asleep: &Asleep, is_parent: bool) -> Class {
    match asleep.call {
        Call::Child | Call::Vfork => Class::Child,
        Call::Read => of_read(asleep),
        Call::Write => of_write(asleep),
        Call::Poll => of_poll(asleep, is_parent),
        Call::Accept => Class::Serving,
        Call::Connect | Call::Transfer => Class::Network,
        Call::Sleep => Class::Timer,
        Call::Futex => Class::Futex,
        Call::Lock => Class::Lock,
        Call::Open if asleep.in_disk => Class::Disk,
        Call::Open => Class::Fifo,
        // How most shells wait for their children.
        Call::Signal if is_parent => Class::Child,
        Call::Signal if !asleep.is_endless => Class::Timer,
        Call::Signal => Class::Idle,
        Call::Sync => Class::Disk,
        Call::Other if asleep.in_disk => Class::Disk,
        Call::Other => Class::Idle,
    }
}

fn of_read(asleep: &Asleep) -> Class {
    match asleep.on.first().filter(|waited| waited.to_read).map(|waited| waited.object) {
        Some(object) if object.is_input() => Class::Input,
        Some(Object::Pipe(_)) => Class::PipeRead,
        Some(Object::Fifo) => Class::Fifo,
        Some(Object::Socket | Object::Listener) => Class::Network,
        Some(Object::File) => Class::Disk,
        Some(Object::Timer) => Class::Timer,
        _ if asleep.in_disk => Class::Disk,
        _ => Class::Idle,
    }
}

fn of_write(asleep: &Asleep) -> Class {
    match asleep.on.first().map(|waited| waited.object) {
        Some(Object::Pipe(_) | Object::Fifo | Object::Capture | Object::Terminal) => {
            Class::PipeFull
        }
        Some(Object::Socket) => Class::Network,
        Some(Object::File) => Class::Disk,
        _ if asleep.in_disk => Class::Disk,
        _ => Class::Idle,
    }
}

fn of_poll(asleep: &Asleep, is_parent: bool) -> Class {
    let has = |wanted: fn(Object) -> bool| {
        asleep.on.iter().any(|waited| waited.to_read && wanted(waited.object))
    };
    let to_write = |object| asleep.on.iter().any(|one| !one.to_read && one.object == object);
    if has(|object| object == Object::Listener) {
        return Class::Serving;
    }
    if has(Object::is_input) {
        let alone = asleep.on.iter().all(|waited| waited.to_read && waited.object.is_input());
        return if alone { Class::Input } else { Class::InputLoop };
    }
    if has(|object| object == Object::Socket) || to_write(Object::Socket) {
        Class::Network
    } else if has(|object| object == Object::Fifo) {
        Class::Fifo
    } else if asleep.on.iter().any(|one| !one.to_read && matches!(one.object, Object::Pipe(_))) {
        Class::PipeFull
    } else if is_parent {
        // An event loop that looks after its children.
        Class::Child
    } else if has(|object| object == Object::FileWatch) {
        Class::Idle
    } else if !asleep.is_endless || has(|object| object == Object::Timer) {
        Class::Timer
    } else if has(|object| matches!(object, Object::Pipe(_)))
        && !has(|object| object == Object::Waker)
    {
        Class::PipeRead
    } else {
        Class::Idle
    }
}
