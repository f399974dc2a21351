//! Hosts: their marks, their records, and the start of their supervisors.
//!
//! ```text
//! hosts/h-2f3c9a0b1d4e5f60/record    identity of the host (HostRecord)
//!                         /current   session of its conversation, and settings for adopted tasks
//!                         /bell      a FIFO that wakes the supervisor
//!                         /lock      held by the supervisor while it lives
//!                         /claim.ID  a command that is being adopted and has no shim yet
//! ```

mod files;
mod mark;
mod sandbox_adoption;
mod supervisor;

pub use files::{AdoptionRoute, HostContext, HostFiles, adoption_route};
pub use mark::{mark_host, processes_with_mark};
pub use sandbox_adoption::{
    adopt_sandboxed_commands, drop_host_mark, is_unsupervised, retry_claims,
};
pub use supervisor::{
    SUPERVISOR_ARGUMENT, SUPERVISOR_LOCK_FD, SUPERVISOR_NAME, SuperviseError, check_supervisable,
    supervise, supervised_mark,
};
