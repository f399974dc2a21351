//! `cargo xtask test`: installs what the tests need on a fresh machine, and runs all checks, the
//! tests of the web page in a real browser, or those of remote machines and clusters.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::check;
use crate::duration::format_duration;
use crate::steps::RunOutcome;
use crate::workspace::Workspace;

/// The environment variable with the path of chromedriver.
const DRIVER_VARIABLE: &str = "SIDING_CHROMEDRIVER";
/// The environment variable with the directory for the screenshots.
const SCREENSHOTS_VARIABLE: &str = "SIDING_SCREENSHOTS";
/// The directory of the screenshots in the documentation.
const SCREENSHOT_DIRECTORY: &str = "docs/web";
/// The program that starts the remote machine of tests.
const SSHD_SCRIPT: &str = "tools/engines/sshd.sh";
/// The program that starts the cluster of tests.
const SLURM_SCRIPT: &str = "tools/engines/slurm.sh";

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "test",
    about: "tests everything on a fresh machine, and installs what the tests need",
    usage: "\
Usage: cargo xtask test [--browser | --engines]

  --browser  opens every page of `siding web` in Chromium, and writes docs/web/*.png;
             needs chromedriver on PATH or in SIDING_CHROMEDRIVER
  --engines  runs tasks over ssh and in a Slurm cluster, and breaks the connections and the
             cluster; needs sshd, ssh, rsync and Slurm (Debian: openssh-server, rsync,
             slurm-wlm, munge)

Without a flag, runs every step of `cargo xtask check`. Needs a Rust toolchain and a C
linker; builds cargo-deny into the target directory when it is not there. Works as root and
as an ordinary user, and changes nothing outside of the target directory, the temporary
directory and cargo's caches.
",
    run: run_test,
};

fn run_test(arguments: &[String]) -> Result<ExitCode> {
    match arguments {
        [] => {}
        [flag] if flag == "--browser" => return run_browser_tests(&Workspace::open()?),
        [flag] if flag == "--engines" => return run_engine_tests(&Workspace::open()?),
        _ => {
            bail!("takes only `--browser` or `--engines`; `cargo xtask check` takes more arguments")
        }
    }
    let started = Instant::now();
    println!("Testing siding: format, lints, documents, rules of the workspace, licenses, tests.");
    println!("On 2 cores a first run takes about 10 minutes (4 of them build cargo-deny, once),");
    println!("a later one about 5. Everything that is built stays in the target directory.");
    let outcome = check::run_all_steps(&Workspace::open()?);
    let took = format_duration(started.elapsed());
    Ok(match outcome {
        RunOutcome::Passed => {
            println!("siding passed all of its tests in {took}");
            ExitCode::SUCCESS
        }
        RunOutcome::PassedWithSkips => {
            println!("siding passed its tests in {took}, except the steps SKIPPED above");
            ExitCode::SUCCESS
        }
        RunOutcome::Failed => {
            println!("siding FAILED its tests after {took}");
            ExitCode::FAILURE
        }
    })
}

/// Runs the tests of the web page that need a browser, and writes the screenshots of the
/// documentation.
fn run_browser_tests(workspace: &Workspace) -> Result<ExitCode> {
    let driver = std::env::var(DRIVER_VARIABLE).unwrap_or_else(|_| "chromedriver".to_owned());
    if !workspace.command(&driver, &["--version"]).succeeds_silently() {
        bail!(
            "could not start `{driver}`; install it (Debian: chromium-driver), or set \
             {DRIVER_VARIABLE} to its path"
        );
    }
    let test = ["test", "--locked", "-p", "siding-e2e", "--test", "web", "browser::"];
    workspace
        .cargo(&[&test[..], &["--", "--ignored", "--test-threads", "1"]].concat())
        .env(DRIVER_VARIABLE, &driver)
        .env(SCREENSHOTS_VARIABLE, workspace.root.join(SCREENSHOT_DIRECTORY))
        .run()?;
    println!("the screenshots are in {SCREENSHOT_DIRECTORY}; look at them before you commit them");
    Ok(ExitCode::SUCCESS)
}

/// Runs the tests of tasks on remote machines that need an sshd or a Slurm cluster.
fn run_engine_tests(workspace: &Workspace) -> Result<ExitCode> {
    let script = workspace.root.join(SSHD_SCRIPT);
    if !workspace.command(&script, &["check"]).succeeds_silently() {
        bail!("found no sshd or no ssh; install both (Debian: apt-get install openssh-server)");
    }
    if !workspace.command("rsync", &["--version"]).succeeds_silently() {
        bail!("found no rsync; install it (Debian: apt-get install rsync)");
    }
    let script = workspace.root.join(SLURM_SCRIPT);
    if !workspace.command(&script, &["check"]).succeeds_silently() {
        bail!("found no Slurm or no munge; install both (Debian: apt-get install slurm-wlm munge)");
    }
    let test = ["test", "--locked", "-p", "siding-e2e", "--test", "executors"];
    workspace.cargo(&[&test[..], &["--", "--ignored"]].concat()).run()?;
    Ok(ExitCode::SUCCESS)
}
