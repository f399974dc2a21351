//! Memory that is returned to the kernel when it is no longer used.

use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap,
};

/// A buffer of whole pages, initially zero, which are unmapped on drop. An allocator would keep the
/// pages, and an idle shim must not use memory.
#[derive(Debug)]
pub struct MappedBuffer {
    start: NonNull<u8>,
    len: usize,
}

impl MappedBuffer {
    /// Maps `len` bytes.
    ///
    /// # Errors
    ///
    /// The I/O error of the system call.
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }
}

impl Deref for MappedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable, initialized bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for MappedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` writable, initialized bytes and lives as long as `self`; the
        // exclusive borrow of `self` makes the slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for MappedBuffer {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` created; no borrow of it is left.
        let _best_effort = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A stack with a guard below it, so that an overflow ends the process instead of overwriting the
/// memory below.
#[derive(Debug)]
pub(super) struct GuardedStack {
    start: NonNull<u8>,
    len: usize,
}

impl GuardedStack {
    /// Maps `len` bytes and the guard.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let len = len + STACK_GUARD_BYTES;
        // SAFETY: a new private mapping overlaps nothing, and no other code uses it yet.
        unsafe {
            let start =
                mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE)?;
            let stack =
                Self { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len };
            let usable = MprotectFlags::READ | MprotectFlags::WRITE;
            mprotect(start.add(STACK_GUARD_BYTES), len - STACK_GUARD_BYTES, usable)?;
            Ok(stack)
        }
    }

    /// Returns the upper end, from which the stack grows down.
    pub(super) fn top(&self) -> *mut c_void {
        self.start.as_ptr().wrapping_add(self.len).cast()
    }
}

impl Drop for GuardedStack {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` created; the process that ran on it has exited.
        let _best_effort = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The size of the inaccessible range below a stack, in bytes: the guard of [`GuardedStack`]. The
/// gap that the kernel keeps free below the first stack of a process is larger (1 MiB,
/// `stack_guard_gap`).
const STACK_GUARD_BYTES: usize = 128 << 10;
/// The stack below the frame of [`release_unused`] that is kept for the calls that this function
/// makes, in bytes.
const RED_ZONE_BYTES: usize = 8 << 10;
/// How much of the stack below the bytes of `RED_ZONE_BYTES` is released, in bytes: no shim has
/// used more.
const STACK_RELEASE_BYTES: usize = 64 << 10;

/// The most that the frames on the first stack of a process take when the process is copied, in
/// bytes.
const MAX_FRAMES_BYTES: usize = 1 << 20;

/// Returns the unused memory of this thread's stack and of the allocator to the kernel and, in a
/// forked process, the abandoned first stack. Takes about 10 µs, and later a page fault for each
/// page that is needed again.
pub fn release_unused() {
    ABANDONED_STACK.release();
    #[cfg(target_env = "gnu")]
    // SAFETY: only frees memory that is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
    let here = 0_u8;
    let end = ((&raw const here).expose_provenance() - RED_ZONE_BYTES) & !(PAGE_BYTES - 1);
    let start = ptr::with_exposed_provenance_mut::<c_void>(end - STACK_RELEASE_BYTES);
    // SAFETY: below the frames in use no object is alive, and the range, which is shorter than
    // `STACK_GUARD_BYTES`, contains only stack and guard. The kernel skips unmapped parts
    // (madvise(2)).
    let _best_effort = unsafe { madvise(start, STACK_RELEASE_BYTES, Advice::LinuxDontNeed) };
}

/// The first stack in the memory of a forked process. The forked process itself runs on another
/// stack (`super::daemonize::fork_daemon`).
///
/// The intermediate process, which shares this memory, runs on this stack until it exits. The exit
/// may come after the forked process has started to run.
#[derive(Debug)]
struct AbandonedStack {
    /// An address in the last frame on this stack; zero if this process was not forked, or the
    /// stack was released.
    frame: AtomicUsize,
    /// The process ID of the intermediate process.
    copier_pid: AtomicI32,
}

static ABANDONED_STACK: AbandonedStack =
    AbandonedStack { frame: AtomicUsize::new(0), copier_pid: AtomicI32::new(0) };

/// Records that this process, the intermediate one, starts the forked process in its own memory and
/// on another stack, and then exits: its own stack is unused from then on. `frame` is the last
/// object on that stack.
pub(super) fn abandon_stack<T>(frame: *const T) {
    ABANDONED_STACK.frame.store(frame.expose_provenance(), Ordering::Relaxed);
    ABANDONED_STACK
        .copier_pid
        .store(rustix::process::getpid().as_raw_nonzero().get(), Ordering::Relaxed);
}

impl AbandonedStack {
    fn release(&self) {
        let frame = self.frame.load(Ordering::Relaxed);
        let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        // The intermediate process is the parent of this one until it exits, and still uses the
        // stack until then.
        if frame == 0 || parent == self.copier_pid.load(Ordering::Relaxed) {
            return;
        }
        self.frame.store(0, Ordering::Relaxed);
        // Above the frames is memory that the kernel has filled and that stays in use: the pointers
        // to the arguments and to the environment, and the strings.
        let Some(top) = super::procfs::self_stack_start() else { return };
        // The range consists of whole pages of this machine, because the kernel would round its
        // length up.
        let page = rustix::param::page_size();
        let start = (frame & !(page - 1)).saturating_sub(STACK_RELEASE_BYTES);
        let end = top & !(page - 1);
        // A larger distance means that the frame is not on the first stack: the range would then
        // include other memory.
        if top.saturating_sub(frame) > MAX_FRAMES_BYTES {
            return;
        }
        let place = ptr::with_exposed_provenance_mut::<c_void>(start);
        // SAFETY: the intermediate process, which ran on these frames, has exited, and this process
        // never ran on them. Below them the range contains only stack and gap, because it reaches
        // less far than `STACK_GUARD_BYTES`.
        let _best_effort =
            unsafe { madvise(place, end.saturating_sub(start), Advice::LinuxDontNeed) };
    }
}

/// The smallest page size of all machines for which siding is built, in bytes.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Returns how many bytes of this thread's stack are in memory.
    fn resident_stack_bytes() -> u64 {
        let here = 0_u8;
        let here = (&raw const here).addr();
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("is there");
        let mut lines = maps.lines().skip_while(|line| {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let number = |text| usize::from_str_radix(text, 16).ok();
            !range.is_some_and(|(start, end)| {
                number(start).is_some_and(|start| start <= here)
                    && number(end).is_some_and(|end| here < end)
            })
        });
        let line = lines.find_map(|line| line.strip_prefix("Rss:")).expect("is mapped");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("is a number") << 10
    }

    #[inline(never)]
    fn use_stack() {
        black_box([1_u8; 48 << 10]);
    }

    #[test]
    fn unused_stack_memory_is_released() {
        use_stack();
        let before = resident_stack_bytes();
        release_unused();
        assert!(
            resident_stack_bytes() + (40 << 10) <= before,
            "{before} bytes before, {} after",
            resident_stack_bytes()
        );
    }

    #[test]
    fn a_stack_is_usable_above_its_guard() {
        let stack = GuardedStack::new(1 << 20).expect("maps");
        let top = stack.top().cast::<u8>();
        // SAFETY: the first and the last of the requested bytes.
        unsafe {
            top.sub(1).write(1);
            top.sub(1 << 20).write(1);
            assert_eq!((top.sub(1).read(), top.sub(1 << 20).read()), (1, 1));
        }
    }
}
