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

pub use explain::explain_chain;
pub use objects::KnownFds;
pub use sample::{reuse_if_unchanged, sample_descendants, sample_processes};
pub use usage::{
    UsageFields, connections, count_descriptors, proportional_memory, usage_from_sample,
    usage_of_descendants, usage_of_processes, written_bytes,
};
