//! Memory that is returned to the kernel when it is no longer used.

use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// A buffer of whole pages, initially zero, which are unmapped on drop. An allocator would keep the
/// pages for later allocations, which an idle shim does not make.
#[derive(Debug)]
pub struct MappedBuffer {
    start: NonNull<u8>,
    len: usize,
}

impl MappedBuffer {
    /// Maps `len` bytes, which the kernel allocates only when they are first written.
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
        // SAFETY: the arguments are those of the mapping that `new` created; no borrow of it is
        // left.
        let _best_effort = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// The stack below the frame of [`release_unused`] that is kept for the calls that this function
/// makes, in bytes.
const RED_ZONE_BYTES: usize = 8 << 10;
/// The size of the part of the stack that is released, below the red zone, in bytes. No shim was
/// observed to use more.
const STACK_RELEASE_BYTES: usize = 64 << 10;

/// Releases the unused memory of this thread's stack and, with glibc, of the allocator. Takes about
/// 10 µs, and a page fault for each page that is needed again.
pub fn release_unused() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call only frees memory that is not in use.
    unsafe {
        libc::malloc_trim(0);
    }
    let here = 0_u8;
    let end = ((&raw const here).expose_provenance() - RED_ZONE_BYTES) & !(PAGE_BYTES - 1);
    let start = ptr::with_exposed_provenance_mut::<c_void>(end - STACK_RELEASE_BYTES);
    // SAFETY: below the frames in use no object is alive. The range contains nothing but stack,
    // because only the first thread of a shim or of a host supervisor calls this function, and the
    // kernel keeps 1 MiB free below the first stack of a process (`stack_guard_gap`). Unmapped
    // parts are left out (madvise(2)).
    let _best_effort = unsafe { madvise(start, STACK_RELEASE_BYTES, Advice::LinuxDontNeed) };
}

/// The smallest page size of all machines for which siding is built, in bytes.
const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// Returns the number of bytes of this thread's stack that are in memory.
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
}
