//! The ceiling on locked packages: each one is code of somebody else that we answer for.

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Packages that `Cargo.lock` may hold. Raise it on purpose, in the commit that needs it.
///
/// The webhook took 34: HTTP and TLS are 19 of them, the rest are for systems that siding is not
/// built for. The MCP server took 56: the SDK and tokio, hyper for HTTP, and what those bring. All
/// of it is used by siding-mcp alone. The models of siding-agent took 103: genai speaks two APIs, and
/// reqwest beneath it brings HTTP/2, addresses with their Unicode tables, and the certificates of
/// systems that siding is not built for. All of it is used by siding-agent alone (ADR 14), but
/// for reqwest, by which siding-mcp reaches other servers.
const MAX_LOCKED_PACKAGES: usize = 320;

/// Denies a `Cargo.lock` that has grown past the ceiling.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let path = workspace.root.join("Cargo.lock");
    let lock = std::fs::read_to_string(path).context("could not read `Cargo.lock`")?;
    let packages = count_packages(&lock);
    if packages > MAX_LOCKED_PACKAGES {
        bail!(
            "`Cargo.lock` holds {packages} packages, at most {MAX_LOCKED_PACKAGES} are allowed; drop some, or \
             raise the ceiling in xtask/src/check/lock.rs and say why"
        );
    }
    Ok(StepOutcome::PassedWithNote(format!("{packages} of at most {MAX_LOCKED_PACKAGES} packages")))
}

fn count_packages(lock: &str) -> usize {
    lock.lines().filter(|line| line.trim_end() == "[[package]]").count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_package_tables_count() {
        let lock =
            "version = 4\n\n[[package]]\nname = \"a\"\n\n[[package]]\nname = \"[[package]]\"\n";
        assert_eq!(count_packages(lock), 2);
    }
}
