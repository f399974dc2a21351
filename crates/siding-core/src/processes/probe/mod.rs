//! Sampling what a task's processes do, cheaply enough to repeat it regularly.
//!
//! Collects the facts from `/proc` that [`siding_model::evidence`] judges, and turns a diagnosis
//! into names for people. A sample takes about 30 µs for each process, or one system call for each
//! if none has run since the last sample. Samples hold no names: these are looked up only for the
//! few processes that explain a verdict.
//!
//! The same walk measures the usage of a task, for [`siding_model::limits`], without inspecting
//! threads: about 15 µs for each process.
//!
//! Sampling works best in an ancestor of the processes: Yama (`kernel.yama.ptrace_scope` 1, the
//! default of Ubuntu) shows their system calls to no other process. It therefore runs in the shim.

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
