//! Looking at what a task's processes do, cheaply enough to do it every now and then.
//!
//! Owns the way from `/proc` to the facts that [`siding_model::evidence`] judges, and from a
//! judgement back to names for people. One sample takes about 30 µs a process, or one system call
//! where nothing has run since the last, and holds no names; names are looked up only for the few
//! processes that explain a verdict.
//!
//! The same walk tells what a task uses, for [`siding_model::limits`], without a look at what its
//! threads do: about 15 µs a process.
//!
//! It works best in an ancestor of the processes: Yama (`kernel.yama.ptrace_scope` 1, the default
//! of Ubuntu) lets nobody else see their system calls. So it runs in the shim.

mod explain;
mod objects;
mod sample;
mod usage;

pub use explain::links;
pub use objects::Given;
pub use sample::{below, of_processes, unmoved};
pub use usage::{
    Wanted, connections, count_descriptors, shared_once, uses_below, uses_in, uses_of,
    written_bytes,
};
