//! Checks licenses, bans, sources and advisories of the dependencies with cargo-deny (`deny.toml`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// The cargo-deny version for which `deny.toml` is written.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Runs cargo-deny, and installs it first if it is missing.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let program = match find_or_install(workspace) {
        Ok(program) => program,
        Err(error) if workspace.is_ci => return Err(error),
        Err(error) => return Ok(StepOutcome::Skipped(format!("{error:#}"))),
    };
    workspace.command(&program, &["--locked", "check", "bans", "licenses", "sources"]).run()?;
    if let Err(error) = fetch_advisories(workspace, &program) {
        return Ok(StepOutcome::PassedWithNote(format!("advisories not checked: {error}")));
    }
    // The check runs offline with the fetched database, so that a network failure cannot affect it.
    workspace.command(&program, &["--locked", "--offline", "check", "advisories"]).run()?;
    Ok(StepOutcome::Passed)
}

/// Fetches the database of advisories. The caller turns an error into a note, because there may be
/// no network.
fn fetch_advisories(workspace: &Workspace, program: &Path) -> Result<()> {
    workspace
        .command(program, &["fetch", "db"])
        // git must not ask for a password, or wait forever on a network that drops packets.
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_HTTP_LOW_SPEED_LIMIT", "1000")
        .env("GIT_HTTP_LOW_SPEED_TIME", "20")
        .run()
        .context("the database could not be fetched")
}

/// Returns the path of a cargo-deny with [`CARGO_DENY_VERSION`]: on `PATH`, or in the target
/// directory, where it is installed if necessary. The user's installation is not changed.
fn find_or_install(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.metadata.target_directory.join("tools");
    let ours = tools.join("bin").join("cargo-deny");
    for candidate in [PathBuf::from("cargo-deny"), ours.clone()] {
        if has_pinned_version(workspace, &candidate) {
            return Ok(candidate);
        }
    }
    println!(
        "  cargo-deny {CARGO_DENY_VERSION} is not installed; building it once takes a few minutes"
    );
    let (root, build) = (tools.display().to_string(), tools.join("build"));
    let install = [
        "install",
        "--quiet",
        "--locked",
        "--force",
        "cargo-deny",
        "--version",
        CARGO_DENY_VERSION,
        "--root",
        &root,
    ];
    workspace
        .cargo(&install)
        .env("CARGO_TARGET_DIR", &build)
        .run()
        .context("could not install cargo-deny")?;
    // The build directory is large and no longer needed.
    std::fs::remove_dir_all(&build)
        .with_context(|| format!("could not remove `{}`", build.display()))?;
    if !has_pinned_version(workspace, &ours) {
        bail!("`{}` does not run", ours.display());
    }
    Ok(ours)
}

fn has_pinned_version(workspace: &Workspace, program: &Path) -> bool {
    workspace
        .command(program, &["--version"])
        .read_stdout()
        .is_some_and(|answer| is_pinned_version_output(&answer))
}

fn is_pinned_version_output(answer: &str) -> bool {
    answer.split_whitespace().eq(["cargo-deny", CARGO_DENY_VERSION])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused() {
        assert!(is_pinned_version_output("cargo-deny 0.20.2\n"));
        assert!(!is_pinned_version_output("cargo-deny 0.20.20\n"));
        assert!(!is_pinned_version_output(""));
    }
}
