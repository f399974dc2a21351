//! The steps that run the programs of the toolchain: rustfmt, clippy, rustdoc, the tests.

use anyhow::{Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Rejects files that rustfmt would change.
pub(super) fn check_format(workspace: &Workspace) -> Result<StepOutcome> {
    if !workspace.has_subcommand("fmt") {
        return skip_missing_component(workspace, "rustfmt");
    }
    workspace.cargo(&["fmt", "--all", "--", "--check"]).run()?;
    Ok(StepOutcome::Passed)
}

/// Rejects warnings of rustc and clippy, in the build of the tests and in that of the shipped
/// program.
pub(super) fn run_clippy(workspace: &Workspace) -> Result<StepOutcome> {
    if !workspace.has_subcommand("clippy") {
        return skip_missing_component(workspace, "clippy");
    }
    let everything = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    workspace.cargo(&everything).run()?;
    // A build of the whole workspace enables the failpoints of the tests in all crates. The shipped
    // program is built without failpoints, so its package is checked again alone.
    let shipped = ["clippy", "--package", "siding-cli", "--locked", "--", "-D", "warnings"];
    workspace.cargo(&shipped).run()?;
    Ok(StepOutcome::Passed)
}

/// Rejects warnings of rustdoc, most of which are broken links.
pub(super) fn build_docs(workspace: &Workspace) -> Result<StepOutcome> {
    workspace
        .cargo(&["doc", "--workspace", "--no-deps", "--locked", "--document-private-items"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()?;
    Ok(StepOutcome::Passed)
}

/// Runs every test with cargo-nextest if it is installed, otherwise with `cargo test`.
pub(super) fn run_tests(workspace: &Workspace) -> Result<StepOutcome> {
    if !workspace.has_subcommand("nextest") {
        workspace.cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]).run()?;
        return Ok(StepOutcome::Passed);
    }
    // cargo-nextest cannot run the examples in the documentation. The examples run first, so that
    // the summary of nextest is the last output.
    workspace.cargo(&["test", "--doc", "--workspace", "--locked", "--quiet"]).run()?;
    // Most tests wait for processes and need little CPU time, so more threads than cores are
    // useful.
    let threads = 2 * std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let threads = threads.to_string();
    let run = ["nextest", "run", "--workspace", "--locked", "--no-fail-fast", "--test-threads"];
    workspace.cargo(&[&run[..], &[&threads]].concat()).run()?;
    Ok(StepOutcome::Passed)
}

/// Skips a step because the toolchain lacks a component. In CI a missing component is a failure.
fn skip_missing_component(workspace: &Workspace, component: &str) -> Result<StepOutcome> {
    let advice = format!(
        "this toolchain has no {component}; install it with `rustup component add {component}`"
    );
    if workspace.is_ci {
        bail!(advice);
    }
    Ok(StepOutcome::Skipped(advice))
}
