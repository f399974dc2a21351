//! `cargo xtask bench`: compares the speed and size of siding with those of well-known commands.
//!
//! Builds siding and `siding-bench`, and runs `siding-bench`, which contains the measurements
//! (`crates/siding-e2e/src/bin/siding_bench`).

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::duration::format_duration;
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "bench",
    about: "measures speed and size of siding, next to the figures of well-known commands",
    usage: "\
Usage: cargo xtask bench [--quick] [--json] [--stall] [--tokens] [--guard] [--engines]
                         [--terminals] [ROW...]

  --quick  few repetitions, about two minutes on an idle machine
  --stall  the row `stall`: precision and recall of the findings about quiet tasks
  --tokens the row `tokens`: what a model reads to follow a build, against polling
  --guard  the row `guard`: precision, recall and time of the guard's verdicts
  --engines the rows `ssh` (next to plain ssh; needs openssh-server) and `slurm` (next to
           `sbatch --wait` and submitit; needs slurm-wlm and munge), which no other call measures
  --terminals the row `terminals`: tokens and right runs of an agent that drives npm, python, gdb,
           git and ssh, against tmux with sleeps; 50 runs with each, half an hour; needs tmux,
           leaves out a program that is missing, and is measured by no other call
  --json   prints the table as JSON, and nothing else, to stdout
  ROW...   measures these rows only: true, spooler, adopt, hook, exit, wait, output, flat-memory,
           idle, all-in, scale, crowd, list, recover, top, web, stall, tokens, guard, agent, ssh,
           slurm, terminals

Builds the release program and `siding-bench`, then prints one table. Each line is also printed to
stderr when it is measured. A ratio compares two contenders that took turns in the same run. The
exit code is 1 if a row could not be measured; a missed target is a result, with exit code 0. As
root, `all-in` can create the memory cgroup that it needs, and `crowd` runs as an ordinary user.
The tasks' state is in the temporary directory (TMPDIR), whose file system therefore influences the
figures. Only figures of an idle machine are meaningful.
",
    run: run_bench,
};

fn run_bench(arguments: &[String]) -> Result<ExitCode> {
    let workspace = Workspace::open()?;
    let started = Instant::now();
    // Builds twice, because a joint build would unify the features of both packages. siding would
    // then contain the failpoints of the tests, which the shipped program does not have.
    build_release(&workspace, &["--package", "siding-cli"])?;
    build_release(&workspace, &["--package", "siding-e2e", "--bin", "siding-bench"])?;
    eprintln!("built in {}", format_duration(started.elapsed()));
    let directory = workspace.metadata.target_directory.join("release");
    let status = Command::new(directory.join("siding-bench"))
        .arg("--siding")
        .arg(directory.join("siding"))
        .args(arguments)
        .status()
        .context("could not start `siding-bench`")?;
    eprintln!("took {} in total", format_duration(started.elapsed()));
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds a release program. Cargo reports its progress on stderr, so that stdout contains only the
/// table.
fn build_release(workspace: &Workspace, what: &[&str]) -> Result<()> {
    let arguments = [&["build", "--release", "--locked"], what].concat();
    eprintln!("  $ cargo {}", arguments.join(" "));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(&arguments)
        .current_dir(&workspace.root)
        .status()
        .context("could not start cargo")?;
    if !status.success() {
        bail!("`cargo {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}
