//! Starting shims: for a new task, or for one whose shim was killed.
//!
//! A shim is started knowing nothing but a socket, and is told over it what to keep. So it can be
//! started first, and become ready while its client still finds out what it is to run.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use siding_model::id::TaskId;
use siding_model::net::NetPolicy;
use siding_model::process::{MonotonicMs, ProcRef, UnixMs};
use siding_model::spec::TaskSpec;

use crate::link::Link;
use crate::proxy;
use crate::store::{LockedTask, Root, TaskDir};
use crate::sys::{descriptor, detached, file, socket};

/// First argument by which the program knows that it is to be a shim.
pub const SHIM_ARGUMENT: &str = "__shim";

/// Name of a shim's process.
pub const SHIM_NAME: &CStr = c"siding-shim";

/// The descriptor with which a shim is started, after 0, 1 and 2: its socket to whoever started it.
pub const STARTER: i32 = 3;

/// The program that is executed to become a shim: the one that runs now, even if another has
/// been installed in its place since.
pub const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// Arguments of a shim that keeps nothing yet. The last only makes room for the task's id.
const ARGUMENTS: [&CStr; 3] = [c"siding", c"__shim", c"--------------"];

/// What a shim is to do, sent as a packet of its starter, with the descriptors of
/// [`Handed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Errand {
    /// Start this new task. The memory holds a [`Birth`].
    Start(TaskId),
    /// The same, with the proxy through which it reaches the network.
    StartBehind(TaskId),
    /// Take this task over from a shim that was killed. The memory holds processes that were found
    /// (`[ProcRef]`).
    Rescue(TaskId),
    /// The same for a task whose session is over, and for the others that follow, each in a packet
    /// of its own, until the starter leaves. It answers each before the next is sent.
    RescueAmong(TaskId),
    /// Take on a process that is marked. The memory holds an [`Adoption`]. There is no task's
    /// directory yet: see [`Handed::adopted`].
    Adopt(TaskId),
}

/// What is handed to a shim with its errand.
#[derive(Debug)]
pub struct Handed {
    /// The state directory.
    pub root: OwnedFd,
    /// The task's directory, which carries the task's lock if it is its place.
    pub dir: OwnedFd,
    /// A file in memory.
    pub memory: OwnedFd,
    /// The task's place when that is not its directory. It carries the task's lock then.
    pub place: Option<OwnedFd>,
    /// Socket to the task's proxy, which lives as long as somebody holds it.
    pub proxy: Option<OwnedFd>,
}

impl Handed {
    /// Waits for the errand. `None` when there is none: the starter had nothing to do after all,
    /// or is gone.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when it is no errand.
    pub fn receive(starter: impl AsFd) -> io::Result<Option<(Errand, Self)>> {
        let Some((packet, mut descriptors)) = socket::receive_with(starter, ERRAND_MAX)? else {
            return Ok(None);
        };
        let errand = serde_json::from_slice(&packet)?;
        // The last one, whether there is a place or not.
        let proxy = if matches!(errand, Errand::StartBehind(_)) { descriptors.pop() } else { None };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().ok_or(io::ErrorKind::InvalidData);
        let (root, dir, memory) = (next()?, next()?, next()?);
        Ok(Some((errand, Self { root, dir, memory, place: descriptors.next(), proxy })))
    }

    /// Returns what comes with [`Errand::Adopt`]: the file in memory, the descriptor that holds the
    /// process, and the file that it writes to.
    #[must_use]
    pub fn adopted(self) -> (OwnedFd, OwnedFd, Option<OwnedFd>) {
        (self.memory, self.dir, self.place)
    }
}

/// Largest packet with an [`Errand`], in bytes.
const ERRAND_MAX: usize = 256;

/// A shim that keeps nothing yet. It leaves when this is dropped.
#[derive(Debug)]
pub struct Shim {
    socket: OwnedFd,
    /// Where it was forked: tells whether that worked.
    between: Option<detached::Between>,
}

impl Shim {
    /// Starts a shim by executing `program`.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn start(program: &CStr) -> io::Result<Self> {
        Self::with(|descriptors| {
            detached::detached(&detached::Detached { program, argv: &ARGUMENTS, descriptors })?;
            Ok(None)
        })
    }

    /// Starts a shim as a copy of this process that goes on with `main` and never returns. Only for
    /// a program with one thread that has allocated next to nothing: whatever it has, each shim
    /// keeps a copy of.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn fork(main: fn() -> u8) -> io::Result<Self> {
        Self::with(|descriptors| detached::forked(descriptors, main).map(Some))
    }

    fn with(
        start: impl FnOnce(&[BorrowedFd<'_>]) -> io::Result<Option<detached::Between>>,
    ) -> io::Result<Self> {
        let null = file::open_null()?;
        let (socket, theirs) = socket::pair()?;
        let null = null.as_fd();
        let between = start(&[null, null, null, theirs.as_fd()])?;
        Ok(Self { socket, between })
    }

    /// Has it start a new task, and hands it the directory's lock. `environment` is the task's
    /// whole environment, as `NAME=value`; it is passed on in memory and never written.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed meanwhile.
    pub fn task(
        self,
        root: &Root,
        dir: TaskDir,
        spec: &TaskSpec,
        environment: &[CString],
    ) -> io::Result<Link> {
        let birth = Birth::written(spec, environment)?;
        let NetPolicy::Allow(hosts) = &spec.net else {
            return self.send(Errand::Start(spec.task_id), root, &dir, &birth);
        };
        let proxy = proxy::start(hosts, spec.task_id)?;
        let errand = Errand::StartBehind(spec.task_id);
        let more = [dir.away(), Some(proxy.as_fd())];
        self.hand(errand, [root.as_fd(), dir.as_fd()], more, &birth)
    }

    /// Has it take over a task whose shim is dead, and hands it the lock. `found` are processes of
    /// the task, so that not each of a thousand rescuers has to look at the whole machine; it makes
    /// sure of them itself.
    ///
    /// # Errors
    ///
    /// As [`Self::task`].
    pub fn rescue(self, root: &Root, task: &LockedTask, found: &[ProcRef]) -> io::Result<Link> {
        self.send(Errand::Rescue(task.dir().id()), root, task.dir(), &handed(found)?)
    }

    /// Lets it take over several tasks.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed meanwhile.
    pub fn gather(mut self) -> io::Result<Gathering> {
        self.between.as_mut().map_or(Ok(()), detached::Between::left)?;
        Ok(Gathering { link: Link::over(self.socket) })
    }

    /// Has it take on a process that is marked. `leader` holds it, `output` is the file that it writes
    /// to, where that is the user's.
    ///
    /// # Errors
    ///
    /// As [`Self::task`].
    pub fn adopt(
        self,
        root: &Root,
        adoption: &Adoption,
        leader: BorrowedFd<'_>,
        output: Option<BorrowedFd<'_>>,
    ) -> io::Result<Link> {
        let content = serde_json::to_vec(adoption).map_err(io::Error::other)?;
        let errand = Errand::Adopt(adoption.spec.task_id);
        self.hand(errand, [root.as_fd(), leader], [output, None], &content)
    }

    fn send(self, errand: Errand, root: &Root, dir: &TaskDir, content: &[u8]) -> io::Result<Link> {
        self.hand(errand, [root.as_fd(), dir.as_fd()], [dir.away(), None], content)
    }

    fn hand(
        mut self,
        errand: Errand,
        [root, dir]: [BorrowedFd<'_>; 2],
        more: [Option<BorrowedFd<'_>>; 2],
        content: &[u8],
    ) -> io::Result<Link> {
        self.between.as_mut().map_or(Ok(()), detached::Between::left)?;
        hand_over(&self.socket, errand, [root, dir], more, content)?;
        Ok(Link::over(self.socket))
    }
}

/// A process that is to be taken on while it runs, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    /// The process, the leader of the task.
    pub process: ProcRef,
    /// What the task is.
    pub spec: TaskSpec,
    /// The state directory.
    pub root: PathBuf,
    /// How long it may run before it is put on record, in milliseconds.
    pub keep_after_ms: u64,
    /// Name of the file that it writes to, which is handed over, where it is the user's.
    pub output: Option<String>,
    /// Program of the sandbox that it is in, where it was found from outside.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// Names of programs that are no members once they have left the command's session.
    #[serde(default)]
    pub spare_programs: Vec<String>,
    /// When it was marked.
    pub at: MonotonicMs,
    /// The same moment on the wall clock.
    pub wall: UnixMs,
}

impl Adoption {
    /// Reads it back from the file in memory.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        Ok(serde_json::from_slice(&file::read_whole(memory.as_fd(), BIRTH_MAX)?)?)
    }
}

/// A shim that is given one task after the other. It begins with what it has when this is dropped.
#[derive(Debug)]
pub struct Gathering {
    link: Link,
}

impl Gathering {
    /// Most tasks that one shim takes over: with six descriptors each, and as many again for their
    /// processes, it stays below the usual limit of 1,024.
    pub const MOST: usize = 64;

    /// Hands it one more task, as [`Shim::rescue`] does. Its answer comes over the link.
    ///
    /// # Errors
    ///
    /// The operating system's; `EPIPE` when the shim was killed, or has begun without us.
    pub fn rescue(&self, root: &Root, task: &LockedTask, found: &[ProcRef]) -> io::Result<&Link> {
        let errand = Errand::RescueAmong(task.dir().id());
        let dir = task.dir();
        let content = handed(found)?;
        let more = [dir.away(), None];
        hand_over(&self.link, errand, [root.as_fd(), dir.as_fd()], more, &content)?;
        Ok(&self.link)
    }
}

fn handed(found: &[ProcRef]) -> io::Result<Vec<u8>> {
    serde_json::to_vec(&found[..found.len().min(HANDED)]).map_err(io::Error::other)
}

fn hand_over(
    socket: impl AsFd,
    errand: Errand,
    [root, dir]: [BorrowedFd<'_>; 2],
    more: [Option<BorrowedFd<'_>>; 2],
    content: &[u8],
) -> io::Result<()> {
    let memory = descriptor::memory_file("siding-errand")?;
    file::write_all_at(&memory, content, 0)?;
    let mut descriptors = vec![root, dir, memory.as_fd()];
    descriptors.extend(more.into_iter().flatten());
    let packet = serde_json::to_vec(&errand).map_err(io::Error::other)?;
    socket::send_with(socket, &packet, &descriptors)
}

/// Most processes that are handed to a rescuer. It must hold one that lives, and finds the others
/// when those that it holds have ended.
const HANDED: usize = 256;

/// All that a new task is born with.
#[derive(Debug, PartialEq, Eq)]
pub struct Birth {
    /// What it is asked to be.
    pub spec: TaskSpec,
    /// Its whole environment, as `NAME=value`.
    pub environment: Vec<CString>,
}

/// Longest birth. A command may have 2 MiB of arguments and variables.
const BIRTH_MAX: usize = 16 << 20;

impl Birth {
    /// Reads it back from the file in memory.
    ///
    /// # Errors
    ///
    /// The operating system's; `InvalidData` when the file holds something else.
    pub fn read(memory: impl AsFd) -> io::Result<Self> {
        let bytes = file::read_whole(memory.as_fd(), BIRTH_MAX)?;
        let broken = || io::Error::new(io::ErrorKind::InvalidData, "not a task's birth");
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(broken)?;
        let spec = serde_json::from_slice(&bytes[..end])?;
        let environment = bytes[end + 1..]
            .split_inclusive(|&byte| byte == 0)
            .map(|variable| CStr::from_bytes_with_nul(variable).map(CStr::to_owned))
            .collect::<Result<_, _>>()
            .map_err(|_| broken())?;
        Ok(Self { spec, environment })
    }

    /// Writes the specification as one line of JSON, then each variable ended by a zero byte.
    fn written(spec: &TaskSpec, environment: &[CString]) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(spec).map_err(io::Error::other)?;
        bytes.push(b'\n');
        for variable in environment {
            bytes.extend_from_slice(variable.to_bytes_with_nul());
        }
        Ok(bytes)
    }
}
