//! Checks the dependencies between crates against tables of allowed crates and banned packages.
//!
//! The tables correspond to the table of crates in ARCHITECTURE.md. A crate without an entry fails
//! the step, so that the author of a new crate must decide on its dependencies.

use anyhow::{Context, Result, bail};

use crate::metadata::{Member, Metadata};
use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// The dependencies that a crate may have.
struct CrateRule {
    name: &'static str,
    /// Crates of this workspace that the crate's `Cargo.toml` may name as a dependency of any kind.
    allowed_crates: &'static [&'static str],
    /// Packages that must not be in the crate's tree of normal dependencies, at any depth.
    banned_packages: &'static [&'static [&'static str]],
    /// Whether the crate may call the operating system directly, through libc or rustix.
    may_call_os: bool,
}

/// Asynchronous runtimes, which the synchronous crates must not contain.
const ASYNC_PACKAGES: &[&str] = &["tokio", "async-std", "smol", "async-io", "futures-executor"];
/// Parsers of command lines, which only programs need.
const ARGUMENT_PARSERS: &[&str] = &["clap", "clap_builder", "lexopt", "pico-args"];
/// The packages of SQLite, which only siding-history and the crates above it may use.
const SQLITE_PACKAGES: &[&str] = &["rusqlite", "libsqlite3-sys"];
/// Interfaces of the operating system, which only siding-core and the tests call.
const OS_PACKAGES: &[&str] = &["libc", "rustix", "nix", "windows-sys"];
/// Packages that are banned in siding-core, the shim and the crates below them.
const BANNED_IN_SHIM_AND_CORE: &[&[&str]] = &[ASYNC_PACKAGES, ARGUMENT_PARSERS, SQLITE_PACKAGES];
/// Packages that are banned in crates that compute without calling the operating system.
const BANNED_IN_PURE_CRATES: &[&[&str]] =
    &[ASYNC_PACKAGES, ARGUMENT_PARSERS, SQLITE_PACKAGES, OS_PACKAGES];

/// The rules for every crate. Each crate comes after the crates that it may depend on.
const CRATE_RULES: &[CrateRule] = &[
    CrateRule {
        name: "siding-model",
        // Its tests turn on its own feature `test-util`.
        allowed_crates: &["siding-model"],
        banned_packages: BANNED_IN_PURE_CRATES,
        may_call_os: false,
    },
    CrateRule {
        name: "siding-guard",
        allowed_crates: &["siding-model"],
        banned_packages: BANNED_IN_PURE_CRATES,
        may_call_os: false,
    },
    CrateRule {
        name: "siding-core",
        allowed_crates: &["siding-model"],
        banned_packages: BANNED_IN_SHIM_AND_CORE,
        may_call_os: true,
    },
    CrateRule {
        // The only crate that uses SQLite. siding-core and the shim, which run and supervise tasks,
        // are built without SQLite.
        name: "siding-history",
        allowed_crates: &["siding-core", "siding-model"],
        banned_packages: &[ASYNC_PACKAGES, ARGUMENT_PARSERS],
        may_call_os: false,
    },
    CrateRule {
        // Expected durations come from the callers, so that no viewer needs SQLite.
        name: "siding-live",
        allowed_crates: &["siding-core", "siding-model"],
        banned_packages: BANNED_IN_SHIM_AND_CORE,
        may_call_os: false,
    },
    CrateRule {
        // The shim keeps no screen. It computes one only to answer a query for the position of the
        // cursor.
        name: "siding-terminal",
        allowed_crates: &["siding-core", "siding-model"],
        banned_packages: BANNED_IN_SHIM_AND_CORE,
        may_call_os: false,
    },
    CrateRule {
        name: "siding-top",
        allowed_crates: &["siding-core", "siding-live", "siding-model", "siding-terminal"],
        banned_packages: BANNED_IN_SHIM_AND_CORE,
        may_call_os: false,
    },
    CrateRule {
        name: "siding-shim",
        allowed_crates: &["siding-core", "siding-model", "siding-terminal"],
        banned_packages: BANNED_IN_SHIM_AND_CORE,
        may_call_os: false,
    },
    CrateRule {
        name: "siding-tools",
        allowed_crates: &[
            "siding-core",
            "siding-model",
            "siding-guard",
            "siding-history",
            "siding-terminal",
        ],
        banned_packages: &[ARGUMENT_PARSERS],
        may_call_os: false,
    },
    CrateRule {
        // Asynchronous runtimes are allowed, because the HTTP servers and the HTTP client need
        // them.
        name: "siding-http",
        allowed_crates: &["siding-core"],
        banned_packages: &[ARGUMENT_PARSERS, SQLITE_PACKAGES],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-mcp",
        allowed_crates: &[
            "siding-core",
            "siding-model",
            "siding-terminal",
            "siding-tools",
            "siding-http",
        ],
        banned_packages: &[],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-workflow",
        allowed_crates: &["siding-core", "siding-model"],
        banned_packages: &[ASYNC_PACKAGES, ARGUMENT_PARSERS, SQLITE_PACKAGES],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-agent",
        allowed_crates: &[
            "siding-core",
            "siding-model",
            "siding-guard",
            "siding-history",
            "siding-terminal",
            "siding-tools",
            "siding-http",
            "siding-workflow",
        ],
        banned_packages: &[],
        may_call_os: false,
    },
    CrateRule {
        // siding-a2a runs the agent as a program, so it does not depend on siding-agent.
        name: "siding-a2a",
        allowed_crates: &["siding-core", "siding-model", "siding-tools", "siding-http"],
        banned_packages: &[ARGUMENT_PARSERS],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-web",
        allowed_crates: &[
            "siding-core",
            "siding-model",
            "siding-history",
            "siding-http",
            "siding-live",
            "siding-terminal",
            "siding-workflow",
        ],
        banned_packages: &[ARGUMENT_PARSERS],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-cli",
        allowed_crates: &[
            "siding-core",
            "siding-model",
            "siding-live",
            "siding-terminal",
            "siding-shim",
            "siding-top",
            "siding-mcp",
            "siding-a2a",
            "siding-agent",
            "siding-workflow",
            "siding-guard",
            "siding-history",
            "siding-http",
            "siding-web",
        ],
        banned_packages: &[],
        may_call_os: false,
    },
    CrateRule {
        name: "siding-e2e",
        allowed_crates: &[
            "siding-cli",
            "siding-core",
            "siding-guard",
            "siding-model",
            "siding-shim",
        ],
        banned_packages: &[],
        may_call_os: true,
    },
    CrateRule { name: "xtask", allowed_crates: &[], banned_packages: &[], may_call_os: false },
];

/// Rejects dependencies that the tables do not allow, crates with different versions, and manifests
/// that do not inherit the workspace's lints.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut violations = find_violations(&workspace.metadata);
    violations.extend(find_unused_rules(&workspace.metadata));
    for (name, member) in &workspace.metadata.members {
        let path = member.directory.join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        if !inherits_lints(&manifest) {
            violations.push(format!("{name} lacks `[lints] workspace = true`"));
        }
    }
    for violation in &violations {
        println!("  {violation}");
    }
    if !violations.is_empty() {
        bail!("broken rules: {} (see xtask/src/check/crates.rs)", violations.len());
    }
    Ok(StepOutcome::Passed)
}

fn find_violations(metadata: &Metadata) -> Vec<String> {
    let mut violations = Vec::new();
    let mut versions: Vec<&str> =
        metadata.members.values().map(|member| member.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        violations.push(format!("crates have several versions: {}", versions.join(", ")));
    }
    for (name, member) in &metadata.members {
        match CRATE_RULES.iter().find(|place| place.name == name) {
            Some(place) => violations.extend(place.find_violations(metadata, member)),
            None => violations.push(format!("{name} is not in the table")),
        }
    }
    violations
}

/// Returns an error for each rule whose crate is not in the workspace.
fn find_unused_rules(metadata: &Metadata) -> Vec<String> {
    let unused = CRATE_RULES.iter().filter(|rule| !metadata.members.contains_key(rule.name));
    unused.map(|rule| format!("{} is in the table, but not in the workspace", rule.name)).collect()
}

impl CrateRule {
    fn find_violations(&self, metadata: &Metadata, member: &Member) -> Vec<String> {
        let mut violations = Vec::new();
        let name = self.name;
        for dependency in &member.direct_dependencies {
            let dependency = dependency.as_str();
            if metadata.members.contains_key(dependency)
                && !self.allowed_crates.contains(&dependency)
            {
                violations.push(format!("{name} must not depend on {dependency}"));
            }
            if OS_PACKAGES.contains(&dependency) && !self.may_call_os {
                violations.push(format!(
                    "{name} must not depend on {dependency}: OS calls belong to siding-core"
                ));
            }
        }
        for banned in self.banned_packages.iter().copied().flatten() {
            if let Some(chain) = metadata.dependency_chain(member, banned) {
                violations
                    .push(format!("{name} must not depend on {banned}: {}", chain.join(" → ")));
            }
        }
        violations
    }
}

/// Returns whether a `Cargo.toml` inherits the lint table of the workspace.
fn inherits_lints(manifest: &str) -> bool {
    manifest
        .split_once("\n[lints]\n")
        .is_some_and(|(_, table)| table.trim_start().starts_with("workspace = true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::fixtures::metadata;

    #[test]
    fn allowed_dependencies_have_no_violation() {
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
        assert_eq!(find_violations(&allowed), [""; 0]);
    }

    #[test]
    fn an_upward_dependency_is_a_violation_even_for_tests() {
        let upwards = metadata(&[("siding-core", &[("siding-shim", "dev")]), ("siding-shim", &[])]);
        assert_eq!(find_violations(&upwards), ["siding-core must not depend on siding-shim"]);
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
            find_violations(&heavy),
            [
                "siding-core must not depend on tokio: siding-core → wrapper → tokio",
                "siding-shim must not depend on tokio: siding-shim → siding-core → wrapper → tokio",
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
            find_violations(&impure),
            ["siding-model must not depend on libc: siding-model → clock → libc"]
        );
    }

    #[test]
    fn only_the_core_may_depend_on_libc() {
        let direct = metadata(&[("siding-cli", &[("libc", "normal")]), ("libc", &[])]);
        assert_eq!(
            find_violations(&direct),
            ["siding-cli must not depend on libc: OS calls belong to siding-core"]
        );
    }

    #[test]
    fn an_unlisted_crate_is_a_violation() {
        let unknown = metadata(&[("siding-extra", &[])]);
        assert_eq!(find_violations(&unknown), ["siding-extra is not in the table"]);
    }

    #[test]
    fn a_rule_without_a_crate_is_a_violation() {
        let names = CRATE_RULES.iter().map(|rule| (rule.name, &[][..]));
        let members: Vec<_> = names.collect();
        assert_eq!(find_unused_rules(&metadata(&members)), [""; 0]);
        assert_eq!(
            find_unused_rules(&metadata(&members[1..])),
            ["siding-model is in the table, but not in the workspace"]
        );
    }

    #[test]
    fn workspace_lints_must_be_inherited() {
        assert!(inherits_lints("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(!inherits_lints("[package]\nname = \"a\"\n"));
        assert!(!inherits_lints("[package]\n\n[lints]\nrust.missing_docs = \"allow\"\n"));
    }
}
