//! The local mirror of a task that runs on a remote machine: the records that only the mirror's
//! journal contains, and the state that follows from them.

mod clock;
mod event;
mod job;
mod state;

pub use clock::RemoteClock;
pub use event::RemoteEvent;
pub use job::{JobEnd, JobStatus, QueueTime};
pub use state::{InputLoss, PendingStop, RemoteState, Unreachable};
