//! Tests of tasks that run on another machine over ssh, or as a job in a Slurm cluster.
//! `cargo xtask test --engines` runs those that need an sshd or Slurm. The other machines are this
//! one: see [`ssh_remote`] and [`slurm_cluster`].

mod connections;
mod fake_slurm;
mod fake_ssh;
mod full_disk;
mod input;
mod interruptions;
mod lifetime;
mod lists;
mod local_tasks;
mod pending_stops;
mod results;
mod serve;
mod slurm_arrays;
mod slurm_cluster;
mod slurm_ends;
mod slurm_faults;
mod slurm_results;
mod slurm_signals;
mod slurm_states;
mod slurm_submission;
mod ssh_remote;
mod sync;
mod takeover;
mod terminals;
mod unanswered_keys;
mod waits;

use std::path::Path;

use siding_e2e::Sandbox;

/// Returns a sandbox that fails its test if the test leaves processes running. An [`SshRemote`] or
/// [`SlurmCluster`] in it must be dropped first.
///
/// [`SlurmCluster`]: slurm_cluster::SlurmCluster
/// [`SshRemote`]: ssh_remote::SshRemote
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Creates the file that [`wait_for_file_command`] waits for.
fn create_file(path: &Path) {
    std::fs::write(path, "").expect("test directory");
}

/// Returns a shell text that waits until the test creates this file. The path is absolute, so that
/// the text does not depend on the directory of the remote command.
fn wait_for_file_command(path: &Path) -> String {
    format!("until [ -e {} ]; do sleep .02; done", path.display())
}

/// Returns the decimal numbers from 1 to `last`, one per line, as seq(1) writes them.
fn numbered_lines(last: u32) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect()
}
