//! Samples what a task's processes do, cheaply enough to repeat the sample regularly.
//!
//! The module collects the facts from `/proc` that [`siding_model::evidence`] judges, and names the
//! processes that explain a diagnosis. A sample takes about 30 µs for each process. If no process
//! has run since the last sample, one system call for each process is enough. Samples contain no
//! command lines, because only those of the few processes that explain a verdict are needed.
//!
//! The same walk of the process tree measures a task's usage for [`siding_model::limits`]. The
//! measurement takes about 15 µs for each process, because no thread is inspected.
//!
//! The shim of a task takes the samples for evidence, because Yama (`kernel.yama.ptrace_scope` 1,
//! the default of Ubuntu) shows the system calls of a process only to its ancestors. Viewers also
//! take samples, which may lack these calls.

mod explain;
mod objects;
mod sample;
mod usage;

pub use explain::{explain_chain, explain_processes};
pub use objects::KnownFds;
pub use sample::{reuse_if_unchanged, sample_descendants, sample_processes};
pub use usage::{
    UsageFields, connections, count_descriptors, proportional_memory, usage_from_sample,
    usage_of_descendants, usage_of_processes, written_bytes,
};
