//! Limits the number of locked packages. Each package is code that siding contains or is built
//! with, so a new one needs a reason.

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Maximum number of packages in `Cargo.lock`. A commit that needs more must raise the limit and
/// state the reason.
///
/// The MCP server added 56 packages: the SDK, tokio, hyper for HTTP, and their dependencies. The
/// connections to models in siding-agent added 103: genai implements two APIs, and its dependency
/// reqwest needs HTTP/2, TLS, Unicode tables for addresses, and the certificate stores of systems
/// that siding does not support. reqwest is the only HTTP client: the agent, A2A, MCP connections
/// and the webhook share it. `crc` added two. It replaced `crc32fast`, which searches for CPU
/// features in every process (docs/adr/0021), but remains in the list through genai. The dynamic
/// engine of clap_complete, which completes ids and sessions, added `is_executable`.
/// prometheus-parse, with which the tests read the metrics, added three (docs/adr/0024).
/// ratatui-core, which computes the changed cells of `siding top`, added 13; four of these belong to
/// its optional palettes and are not built (docs/adr/0026). maud, which escapes all text in the
/// pages of `siding web`, added four (docs/adr/0027). vt100, which computes the screen of a terminal,
/// added three, and avt, with which the tests compare the screens, one (docs/adr/0031). The list also
/// contains the crates of this workspace.
const MAX_LOCKED_PACKAGES: usize = 349;

/// Rejects a `Cargo.lock` with more packages than the limit.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let path = workspace.root.join("Cargo.lock");
    let lock = std::fs::read_to_string(path).context("could not read `Cargo.lock`")?;
    let packages = count_packages(&lock);
    if packages > MAX_LOCKED_PACKAGES {
        bail!(
            "`Cargo.lock` holds {packages} packages, at most {MAX_LOCKED_PACKAGES} are allowed; remove some, or \
             raise the limit in xtask/src/check/lock.rs and say why"
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
