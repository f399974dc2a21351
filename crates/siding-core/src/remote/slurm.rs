//! Tasks that run as jobs in a Slurm cluster.
//!
//! ```text
//!  submitting machine                 shared directory              node of the cluster
//!  mirror ─ siding __serve ─ sbatch ─────────────────────────────►  siding __job ─ shim
//!              │   ▲ squeue              jobs/ID/request     ──read──►  │           │
//!              │   └──── reads ────────  jobs/ID/attempt-0/  ◄──────────┴── writes ─┘
//!              └── srun (only for requests) ────────────────────────────────────────►
//! ```
//!
//! The instances of a matrix step of a workflow are submitted together, as one job array. Each
//! instance has a follower of its own, and one of these followers calls sbatch for all.
//!
//! The batch script executes siding on the node. That siding starts the task under a shim of its
//! own, in a state directory that only this attempt of the job uses. The submitting machine follows
//! the journal and the output in the shared directory, so a running task needs no connection to the
//! node and no answer from the cluster. The follower queries the cluster about waiting jobs and,
//! every half minute, about running jobs, because their node may have failed. It also queries the
//! cause of an end that Slurm may have caused or that the records lack. `docs/adr/0030-slurm.md`
//! gives the reasons.

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
