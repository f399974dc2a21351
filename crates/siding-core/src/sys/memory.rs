//! Memory that really goes back to the kernel when it is dropped.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A buffer of whole pages, zero at first. An allocator would keep its pages after the drop, and
/// an idle shim must not.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    /// Maps `len` bytes.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a new private mapping at a place of the kernel's choice overlaps nothing.
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

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable, initialized bytes and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the exclusive borrow of `self` makes it the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; nobody can borrow it any more.
        let _cannot_fail = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}
