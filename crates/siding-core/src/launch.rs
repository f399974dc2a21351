//! Starting shims: for a new task, or for one whose shim was killed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;
use siding_model::process::ProcRef;
use siding_model::spec::TaskSpec;

use crate::link::Link;
use crate::store::{LockedTask, Root, TaskDir};
use crate::sys::{descriptor, file, socket, spawn};

/// First argument by which the program knows that it is to be a shim.
pub const SHIM_ARGUMENT: &str = "__shim";
/// Second argument of a shim that takes over from a dead one.
pub const RESCUE_ARGUMENT: &str = "rescue";

/// Descriptors a shim is started with, after 0, 1 and 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Inherited {
    /// Socket to whoever started it.
    Starter = 3,
    /// The state directory.
    Root = 4,
    /// The task's directory, which carries the task's lock.
    Task = 5,
    /// A file in memory: the specification, or for a rescue the processes that were found
    /// (`[ProcRef]`).
    Spec = 6,
}

/// The program that is executed to become a shim: the one that runs now, even if another has
/// been installed in its place since.
pub const THIS_PROGRAM: &CStr = c"/proc/self/exe";

/// Starts the shim of a new task and hands it the directory's lock. `environment` is the task's
/// whole environment, as `NAME=value`; it is passed on in memory and never written.
///
/// # Errors
///
/// The operating system's.
pub fn task(
    root: &Root,
    dir: TaskDir,
    spec: &TaskSpec,
    environment: &[CString],
    program: &CStr,
) -> io::Result<Link> {
    let memory = in_memory(spec)?;
    let arguments = [spec.task_id.to_string()];
    shim(root, &dir, &arguments, environment, &memory, program)
}

/// Most processes that are handed to a rescuer. It must hold one that lives, and finds the others
/// when those that it holds have ended.
const HANDED: usize = 256;

/// Starts a shim for a task whose shim is dead, and hands it the lock. `found` are processes of the
/// task, so that not each of a thousand rescuers has to look at the whole machine; it makes sure
/// of them itself.
///
/// # Errors
///
/// The operating system's.
pub fn rescue(
    root: &Root,
    task: &LockedTask,
    found: &[ProcRef],
    program: &CStr,
) -> io::Result<Link> {
    let memory = in_memory(&found[..found.len().min(HANDED)])?;
    let arguments = [task.dir().id().to_string(), RESCUE_ARGUMENT.to_owned()];
    shim(root, task.dir(), &arguments, &[], &memory, program)
}

/// Puts what a shim has to know into a file in memory.
fn in_memory(content: &(impl Serialize + ?Sized)) -> io::Result<OwnedFd> {
    let memory = descriptor::memory_file("siding-spec")?;
    file::write_all_at(&memory, &serde_json::to_vec(content).map_err(io::Error::other)?, 0)?;
    Ok(memory)
}

fn shim(
    root: &Root,
    dir: &TaskDir,
    arguments: &[String],
    environment: &[CString],
    memory: &OwnedFd,
    program: &CStr,
) -> io::Result<Link> {
    let null = file::open_null()?;
    let (ours, theirs) = socket::pair()?;
    let null = null.as_fd();
    let descriptors = [null, null, null, theirs.as_fd(), root.as_fd(), dir.as_fd(), memory.as_fd()];
    let argv = ["siding", SHIM_ARGUMENT]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .map(|word| CString::new(word).map_err(io::Error::from))
        .collect::<io::Result<Vec<_>>>()?;
    spawn::detached(&spawn::Detached {
        program,
        argv: &argv,
        environment,
        descriptors: &descriptors,
    })?;
    Ok(Link::over(ours))
}
