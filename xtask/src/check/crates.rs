//! Which crate may be built on which.
//!
//! The tables below are the picture in ARCHITECTURE.md. A crate that is in no table fails the
//! step, so nobody adds one without deciding where it stands.

use anyhow::{Context, Result, bail};

use crate::metadata::{Member, Metadata};
use crate::steps::Finding;
use crate::workspace::Workspace;

/// The place of one crate.
struct Place {
    name: &'static str,
    /// Crates of this workspace that its `Cargo.toml` may name, for any kind of dependency.
    may_use: &'static [&'static str],
    /// Packages that must not be built into it, however deep.
    free_of: &'static [&'static [&'static str]],
    /// Whether it may call the operating system itself, through libc or rustix.
    may_call_os: bool,
}

/// What makes a program asynchronous.
const ASYNC: &[&str] = &["tokio", "async-std", "smol", "async-io", "futures-executor"];
/// What reads command lines.
const ARGUMENTS: &[&str] = &["clap", "clap_builder", "lexopt", "pico-args"];
/// What brings SQLite.
const SQLITE: &[&str] = &["rusqlite", "libsqlite3-sys"];
/// What reaches the operating system.
const OS: &[&str] = &["libc", "rustix", "nix", "windows-sys"];
/// What the crates below and in the shim are free of.
const LIGHT: &[&[&str]] = &[ASYNC, ARGUMENTS, SQLITE];
/// What a pure crate is free of.
const PURE: &[&[&str]] = &[ASYNC, ARGUMENTS, SQLITE, OS];

/// Every crate, from the ground up.
const PLACES: &[Place] = &[
    Place { name: "siding-model", may_use: &[], free_of: PURE, may_call_os: false },
    Place { name: "siding-guard", may_use: &["siding-model"], free_of: PURE, may_call_os: false },
    Place { name: "siding-core", may_use: &["siding-model"], free_of: LIGHT, may_call_os: true },
    Place {
        // SQLite stays in here: whoever keeps or runs a task is built without it.
        name: "siding-history",
        may_use: &["siding-core", "siding-model"],
        free_of: &[ASYNC, ARGUMENTS],
        may_call_os: false,
    },
    Place {
        name: "siding-shim",
        may_use: &["siding-core", "siding-model"],
        free_of: LIGHT,
        may_call_os: false,
    },
    Place {
        name: "siding-tools",
        may_use: &["siding-core", "siding-model", "siding-guard", "siding-history"],
        free_of: &[ARGUMENTS],
        may_call_os: false,
    },
    Place {
        // Beside whoever serves or asks over HTTP; the client of the webhooks is older, and blocks.
        name: "siding-http",
        may_use: &["siding-core"],
        free_of: &[ARGUMENTS, SQLITE],
        may_call_os: false,
    },
    Place {
        name: "siding-mcp",
        may_use: &["siding-core", "siding-model", "siding-tools", "siding-http"],
        free_of: &[],
        may_call_os: false,
    },
    Place {
        name: "siding-agent",
        may_use: &[
            "siding-core",
            "siding-model",
            "siding-guard",
            "siding-history",
            "siding-tools",
            "siding-http",
        ],
        free_of: &[],
        may_call_os: false,
    },
    Place {
        // It runs the agent as a program, and does not know it.
        name: "siding-a2a",
        may_use: &["siding-core", "siding-model", "siding-tools", "siding-http"],
        free_of: &[ARGUMENTS],
        may_call_os: false,
    },
    Place {
        name: "siding-dash",
        may_use: &["siding-core", "siding-model", "siding-history"],
        free_of: &[],
        may_call_os: false,
    },
    Place {
        name: "siding-cli",
        may_use: &[
            "siding-core",
            "siding-model",
            "siding-shim",
            "siding-mcp",
            "siding-a2a",
            "siding-agent",
            "siding-dash",
            "siding-guard",
            "siding-history",
        ],
        free_of: &[],
        may_call_os: false,
    },
    Place {
        name: "siding-e2e",
        may_use: &["siding-cli", "siding-core", "siding-guard", "siding-model", "siding-shim"],
        free_of: &[],
        may_call_os: true,
    },
    Place { name: "xtask", may_use: &[], free_of: &[], may_call_os: false },
];

/// Denies edges and packages that the tables do not allow.
pub(super) fn check(workspace: &Workspace) -> Result<Finding> {
    let mut faults = faults(&workspace.metadata);
    for (name, member) in &workspace.metadata.members {
        let path = member.directory.join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        if !inherits_lints(&manifest) {
            faults.push(format!("{name} does not say `[lints] workspace = true`"));
        }
    }
    for fault in &faults {
        println!("  {fault}");
    }
    if !faults.is_empty() {
        bail!("broken rules: {} (see xtask/src/check/crates.rs)", faults.len());
    }
    Ok(Finding::Passed)
}

fn faults(metadata: &Metadata) -> Vec<String> {
    let mut faults = Vec::new();
    let mut versions: Vec<&str> =
        metadata.members.values().map(|member| member.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        faults.push(format!("crates have several versions: {}", versions.join(", ")));
    }
    for (name, member) in &metadata.members {
        match PLACES.iter().find(|place| place.name == name) {
            Some(place) => faults.extend(place.faults(metadata, member)),
            None => faults.push(format!("{name} has no place in the table")),
        }
    }
    faults
}

impl Place {
    fn faults(&self, metadata: &Metadata, member: &Member) -> Vec<String> {
        let mut faults = Vec::new();
        let name = self.name;
        for dependency in &member.direct {
            let dependency = dependency.as_str();
            if metadata.members.contains_key(dependency) && !self.may_use.contains(&dependency) {
                faults.push(format!("{name} must not depend on {dependency}"));
            }
            if OS.contains(&dependency) && !self.may_call_os {
                faults.push(format!(
                    "{name} must not depend on {dependency}: OS calls belong to siding-core"
                ));
            }
        }
        for banned in self.free_of.iter().copied().flatten() {
            if let Some(chain) = metadata.chain(member, banned) {
                faults.push(format!("{name} must be free of {banned}: {}", chain.join(" → ")));
            }
        }
        faults
    }
}

/// Returns whether a `Cargo.toml` takes over the lint table of the workspace.
fn inherits_lints(manifest: &str) -> bool {
    manifest
        .split_once("\n[lints]\n")
        .is_some_and(|(_, table)| table.trim_start().starts_with("workspace = true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::sample::metadata;

    #[test]
    fn the_allowed_picture_has_no_fault() {
        let allowed = metadata(&[
            ("siding-model", &[("serde", "normal"), ("proptest", "dev")]),
            ("siding-core", &[("siding-model", "normal"), ("libc", "normal")]),
            ("siding-shim", &[("siding-core", "normal"), ("siding-model", "normal")]),
            ("siding-cli", &[("siding-shim", "normal"), ("clap", "normal")]),
            ("siding-e2e", &[("siding-cli", "normal"), ("libc", "normal")]),
            ("xtask", &[]),
            ("serde", &[]),
            ("clap", &[]),
            ("libc", &[]),
            ("proptest", &[("libc", "normal")]),
        ]);
        assert_eq!(faults(&allowed), [""; 0]);
    }

    #[test]
    fn an_edge_upwards_is_a_fault_even_for_tests() {
        let upwards = metadata(&[("siding-core", &[("siding-shim", "dev")]), ("siding-shim", &[])]);
        assert_eq!(faults(&upwards), ["siding-core must not depend on siding-shim"]);
    }

    #[test]
    fn a_banned_package_is_found_at_any_depth() {
        let heavy = metadata(&[
            ("siding-shim", &[("siding-core", "normal")]),
            ("siding-core", &[("wrapper", "normal")]),
            ("wrapper", &[("tokio", "normal")]),
            ("tokio", &[]),
        ]);
        assert_eq!(
            faults(&heavy),
            [
                "siding-core must be free of tokio: siding-core → wrapper → tokio",
                "siding-shim must be free of tokio: siding-shim → siding-core → wrapper → tokio",
            ]
        );
    }

    #[test]
    fn the_model_cannot_reach_the_system() {
        let impure = metadata(&[
            ("siding-model", &[("clock", "normal")]),
            ("clock", &[("libc", "normal")]),
            ("libc", &[]),
        ]);
        assert_eq!(
            faults(&impure),
            ["siding-model must be free of libc: siding-model → clock → libc"]
        );
    }

    #[test]
    fn only_the_core_names_the_system_itself() {
        let direct = metadata(&[("siding-cli", &[("libc", "normal")]), ("libc", &[])]);
        assert_eq!(
            faults(&direct),
            ["siding-cli must not depend on libc: OS calls belong to siding-core"]
        );
    }

    #[test]
    fn an_unknown_crate_is_a_fault() {
        let unknown = metadata(&[("siding-extra", &[])]);
        assert_eq!(faults(&unknown), ["siding-extra has no place in the table"]);
    }

    #[test]
    fn the_lint_table_must_be_taken_over() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(!inherits_lints("[package]\nname = \"a\"\n"));
        assert!(!inherits_lints("[package]\n\n[lints]\nrust.missing_docs = \"allow\"\n"));
    }
}
