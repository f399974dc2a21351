//! `puppet`, a program that misbehaves on request; see [`puppet`] for its verbs. The program starts
//! without Rust's runtime. The runtime would open missing standard descriptors and ignore SIGPIPE,
//! and so hide the state in which the parent process started puppet.

#![cfg_attr(not(test), no_main)]

mod puppet;

use std::ffi::{CStr, c_char, c_int};

/// The entry point, which the C library calls instead of Rust's runtime.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, expect(dead_code, reason = "the test harness brings its own main"))]
extern "C" fn entry(count: c_int, words: *const *const c_char) -> c_int {
    let words = (0..usize::try_from(count).unwrap_or(0))
        .map(|index| {
            // SAFETY: the C library passes `count` pointers to strings that live as long as the
            // process; nothing has changed them yet.
            let word = unsafe { CStr::from_ptr(*words.add(index)) };
            word.to_string_lossy().into_owned()
        })
        .collect();
    puppet::run(words)
}
