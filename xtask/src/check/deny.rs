//! Licences, bans, sources and advisories of the dependencies, judged by cargo-deny (`deny.toml`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::Finding;
use crate::workspace::Workspace;

/// The version whose settings `deny.toml` is written for.
const VERSION: &str = "0.20.2";

/// Runs cargo-deny, installing it first where it is missing.
pub(super) fn check(workspace: &Workspace) -> Result<Finding> {
    let program = match program(workspace) {
        Ok(program) => program,
        Err(error) if workspace.ci => return Err(error),
        Err(error) => return Ok(Finding::LeftOut(format!("{error:#}"))),
    };
    workspace.program(&program, &["--locked", "check", "bans", "licenses", "sources"]).run()?;
    if let Err(error) = fetch_advisories(workspace, &program) {
        return Ok(Finding::Noted(format!("advisories not looked at: {error}")));
    }
    // Offline: what is judged is what was fetched, and a network that fails now changes nothing.
    workspace.program(&program, &["--locked", "--offline", "check", "advisories"]).run()?;
    Ok(Finding::Passed)
}

/// Fetches the database of advisories. Where no network allows that, it is no fault of ours.
fn fetch_advisories(workspace: &Workspace, program: &Path) -> Result<()> {
    workspace
        .program(program, &["fetch", "db"])
        // git must neither ask nor wait for ever behind a network that swallows packets.
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_HTTP_LOW_SPEED_LIMIT", "1000")
        .env("GIT_HTTP_LOW_SPEED_TIME", "20")
        .run()
        .context("their database could not be fetched")
}

/// Returns a cargo-deny of the right version: the one on `PATH`, the one built before, or a new
/// one under the target directory, where nothing of the user's is touched.
fn program(workspace: &Workspace) -> Result<PathBuf> {
    let tools = workspace.metadata.target_directory.join("tools");
    let ours = tools.join("bin").join("cargo-deny");
    for candidate in [PathBuf::from("cargo-deny"), ours.clone()] {
        if is_right_version(workspace, &candidate) {
            return Ok(candidate);
        }
    }
    println!("  cargo-deny {VERSION} is not here; building it once takes a few minutes");
    let (root, build) = (tools.display().to_string(), tools.join("build"));
    let install = [
        "install",
        "--quiet",
        "--locked",
        "--force",
        "cargo-deny",
        "--version",
        VERSION,
        "--root",
        &root,
    ];
    workspace
        .cargo(&install)
        .env("CARGO_TARGET_DIR", &build)
        .run()
        .context("could not install cargo-deny")?;
    // What is left of the build is large and never used again.
    std::fs::remove_dir_all(&build)
        .with_context(|| format!("could not remove `{}`", build.display()))?;
    if !is_right_version(workspace, &ours) {
        bail!("`{}` does not run", ours.display());
    }
    Ok(ours)
}

fn is_right_version(workspace: &Workspace, program: &Path) -> bool {
    workspace.program(program, &["--version"]).answer().is_some_and(|answer| names_version(&answer))
}

fn names_version(answer: &str) -> bool {
    answer.split_whitespace().eq(["cargo-deny", VERSION])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_taken() {
        assert!(names_version("cargo-deny 0.20.2\n"));
        assert!(!names_version("cargo-deny 0.20.20\n"));
        assert!(!names_version(""));
    }
}
