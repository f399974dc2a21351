//! Constraints on the values of single keys, in addition to the type. The error is a text that says
//! which values are allowed.

use std::time::Duration;

use crate::executor::is_executor_name;
use crate::signal::Signal;

/// Accepts every value.
pub(super) fn accept_any<V>(_: &V) -> Result<(), &'static str> {
    Ok(())
}

/// Rejects zero.
pub(super) fn require_nonzero<V: Default + PartialEq>(value: &V) -> Result<(), &'static str> {
    if *value == V::default() { Err("a value above zero") } else { Ok(()) }
}

/// Rejects a time that would give a terminal back between two keystrokes, or that would refuse an
/// agent's keys for hours after a person has left without detaching.
pub(super) fn require_attach_idle(idle: &Duration) -> Result<(), &'static str> {
    let allowed = Duration::from_secs(1)..=Duration::from_secs(3_600);
    if allowed.contains(idle) { Ok(()) } else { Err("a duration from `1s` to `1h`") }
}

/// Rejects SIGSTOP, which suspends processes and does not end them.
pub(super) fn require_terminating_signal(signal: &Signal) -> Result<(), &'static str> {
    if *signal == Signal::STOP {
        Err("a signal that lets a process end, such as `TERM`")
    } else {
        Ok(())
    }
}

/// Rejects a text that cannot be the name of a program.
pub(super) fn require_program_name<S: AsRef<str>>(name: &S) -> Result<(), &'static str> {
    let name = name.as_ref();
    if name.trim().is_empty() || name.contains('\0') {
        Err("the name or path of a shell, such as `bash`")
    } else {
        Ok(())
    }
}

/// Rejects a text that cannot be the name of an executor.
pub(super) fn require_executor_name<S: AsRef<str>>(name: &S) -> Result<(), &'static str> {
    if is_executor_name(name.as_ref()) {
        Ok(())
    } else {
        Err("`local`, or the name of an executor: 1 to 40 letters, digits, dashes and underscores")
    }
}
