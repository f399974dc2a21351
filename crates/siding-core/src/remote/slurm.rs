//! Tasks that are jobs in a Slurm cluster.
//!
//! ```text
//!  submitting machine                 shared directory              node of the cluster
//!  mirror ─ siding __serve ─ sbatch ─────────────────────────────►  siding __job ─ shim
//!              │   ▲ squeue              jobs/ID/request     ──read──►  │           │
//!              │   └──── reads ────────  jobs/ID/attempt-0/  ◄──────────┴── writes ─┘
//!              └── srun (only for requests) ────────────────────────────────────────►
//! ```
//!
//! The instances of a matrix step of a workflow are submitted together, as one job array. Each of them
//! has a follower of its own, and one of these followers calls sbatch for all.
//!
//! The batch script executes siding on the node, which starts the task under a shim of its own, in a
//! state directory that belongs to this attempt of the job alone. The submitting machine follows the
//! journal and the output in the shared directory, so a running task needs no connection to the node
//! and no answer of the cluster. The cluster is asked only about jobs that wait, and about those whose
//! record does not say how they ended.

mod array_spool;
mod commands;
mod follow;
mod node;
mod node_link;
mod queue;
mod spool;

pub use node::{JOB_ARGUMENT, JobError, run_job};

pub(super) use commands::slurm_command;
pub(super) use follow::JobFollower;
pub(super) use spool::SpooledTask;
