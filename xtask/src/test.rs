//! `cargo xtask test`: installs what the tests need on a fresh machine, and runs all checks.

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::check;
use crate::duration::format_duration;
use crate::steps::RunOutcome;
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "test",
    about: "tests everything on a fresh machine, and installs what the tests need",
    usage: "\
Usage: cargo xtask test

Runs every step of `cargo xtask check`. Needs a Rust toolchain and a C linker; builds cargo-deny
into the target directory when it is not there. Works as root and as an ordinary user, and
changes nothing outside of the target directory, the temporary directory and cargo's caches.
",
    run: run_test,
};

fn run_test(arguments: &[String]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        bail!("takes no arguments; `cargo xtask check` takes some");
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
