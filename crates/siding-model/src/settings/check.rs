//! What single keys ask of a value beyond its kind. An error says what is allowed.

use crate::signal::Signal;

/// Refuses nothing.
pub(super) fn accept_any<V>(_: &V) -> Result<(), &'static str> {
    Ok(())
}

/// Refuses zero.
pub(super) fn require_nonzero<V: Default + PartialEq>(value: &V) -> Result<(), &'static str> {
    if *value == V::default() { Err("more than zero") } else { Ok(()) }
}

/// Refuses the signal that would stop processes where they are, unable to end.
pub(super) fn require_terminating_signal(signal: &Signal) -> Result<(), &'static str> {
    if *signal == Signal::STOP {
        Err("a signal that lets a process end, such as `TERM`")
    } else {
        Ok(())
    }
}

/// Refuses what cannot be the name of a program.
pub(super) fn require_program_name<S: AsRef<str>>(name: &S) -> Result<(), &'static str> {
    let name = name.as_ref();
    if name.trim().is_empty() || name.contains('\0') {
        Err("the name or path of a shell, such as `bash`")
    } else {
        Ok(())
    }
}
