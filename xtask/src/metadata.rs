//! The part of `cargo metadata` that the checks need.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

/// The packages of the workspace and all their dependencies.
pub(crate) struct Metadata {
    /// The directory in which cargo stores its builds.
    pub(crate) target_directory: PathBuf,
    /// The packages that belong to this workspace, by name.
    pub(crate) members: BTreeMap<String, Member>,
    /// Names of all packages, by package id.
    names: BTreeMap<String, String>,
    /// The dependencies of each package, by package id, for a build on Linux. Build and development
    /// dependencies are omitted.
    normal_dependencies: BTreeMap<String, Vec<String>>,
}

/// A package of this workspace.
pub(crate) struct Member {
    id: String,
    /// The package's version, which must be the same in the whole workspace.
    pub(crate) version: String,
    /// Absolute path of the directory with the package's `Cargo.toml`.
    pub(crate) directory: PathBuf,
    /// Names of the dependencies of every kind in `Cargo.toml`.
    pub(crate) direct_dependencies: Vec<String>,
    /// The root files of the package's library, programs and build script.
    pub(crate) root_files: Vec<PathBuf>,
}

impl Metadata {
    /// Parses the output of `cargo metadata --format-version 1`.
    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(json).context("unreadable cargo metadata")?;
        let members: Vec<&str> =
            list_field(&value, "workspace_members")?.iter().filter_map(Value::as_str).collect();
        let mut parsed = Self {
            target_directory: PathBuf::from(string_field(&value, "target_directory")?),
            members: BTreeMap::new(),
            names: BTreeMap::new(),
            normal_dependencies: BTreeMap::new(),
        };
        for package in list_field(&value, "packages")? {
            let (id, name) = (string_field(package, "id")?, string_field(package, "name")?);
            parsed.names.insert(id.to_owned(), name.to_owned());
            if members.contains(&id) {
                parsed.members.insert(name.to_owned(), Member::parse(package)?);
            }
        }
        for node in list_field(&value["resolve"], "nodes")? {
            let mut normal = Vec::new();
            for dependency in list_field(node, "deps")? {
                if list_field(dependency, "dep_kinds")?.iter().any(|kind| kind["kind"].is_null()) {
                    normal.push(string_field(dependency, "pkg")?.to_owned());
                }
            }
            parsed.normal_dependencies.insert(string_field(node, "id")?.to_owned(), normal);
        }
        Ok(parsed)
    }

    /// Returns the shortest chain of packages through which `from` depends on `wanted`, or `None`
    /// if `from` does not depend on `wanted`.
    pub(crate) fn dependency_chain(&self, from: &Member, wanted: &str) -> Option<Vec<&str>> {
        // A breadth-first search finds the shortest chain first.
        let mut came_from: BTreeMap<&str, Option<&str>> =
            BTreeMap::from([(from.id.as_str(), None)]);
        let mut queue = std::collections::VecDeque::from([from.id.as_str()]);
        while let Some(id) = queue.pop_front() {
            if self.names.get(id).is_some_and(|name| name == wanted) {
                let mut chain = Vec::new();
                let mut at = Some(id);
                while let Some(id) = at {
                    chain.push(self.names[id].as_str());
                    at = came_from[id];
                }
                chain.reverse();
                return Some(chain);
            }
            for next in self.normal_dependencies.get(id).into_iter().flatten() {
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, Some(id));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

impl Member {
    fn parse(package: &Value) -> Result<Self> {
        let mut directory = PathBuf::from(string_field(package, "manifest_path")?);
        directory.pop();
        let mut direct = Vec::new();
        for dependency in list_field(package, "dependencies")? {
            direct.push(string_field(dependency, "name")?.to_owned());
        }
        let mut roots = Vec::new();
        for target in list_field(package, "targets")? {
            let product = list_field(target, "kind")?.iter().filter_map(Value::as_str);
            if product
                .into_iter()
                .any(|kind| matches!(kind, "lib" | "bin" | "proc-macro" | "custom-build"))
            {
                roots.push(PathBuf::from(string_field(target, "src_path")?));
            }
        }
        Ok(Self {
            id: string_field(package, "id")?.to_owned(),
            version: string_field(package, "version")?.to_owned(),
            directory,
            direct_dependencies: direct,
            root_files: roots,
        })
    }
}

fn list_field<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata without a list `{key}`"))
}

fn string_field<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("cargo metadata without a text `{key}`"))
}

#[cfg(test)]
pub(crate) mod fixtures {
    //! Builds the metadata of invented workspaces for tests.

    use serde_json::{Value, json};

    use super::Metadata;

    /// Builds metadata from `(package, [(dependency, kind)])`. The kind is `normal`, `dev` or
    /// `build`; packages called `siding…` and `xtask` are members.
    pub(crate) fn metadata(packages: &[(&str, &[(&str, &str)])]) -> Metadata {
        let is_member = |name: &str| name.starts_with("siding") || name == "xtask";
        let members: Vec<&str> =
            packages.iter().map(|(name, _)| *name).filter(|name| is_member(name)).collect();
        let nodes: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<Value> = dependencies
                    .iter()
                    .map(|(name, kind)| {
                        let kind = if *kind == "normal" { Value::Null } else { json!(kind) };
                        json!({ "pkg": name, "dep_kinds": [{ "kind": kind, "target": null }] })
                    })
                    .collect();
                json!({ "id": name, "deps": dependencies })
            })
            .collect();
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, dependencies)| {
                let direct: Vec<Value> =
                    dependencies.iter().map(|(name, _)| json!({ "name": name })).collect();
                json!({
                    "id": name,
                    "name": name,
                    "version": "0.1.0",
                    "manifest_path": format!("/root/crates/{name}/Cargo.toml"),
                    "dependencies": direct,
                    "targets": [],
                })
            })
            .collect();
        let value = json!({
            "target_directory": "/root/target",
            "workspace_members": members,
            "packages": packages,
            "resolve": { "nodes": nodes },
        });
        Metadata::parse(value.to_string().as_bytes()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_names_every_link_and_ignores_development_dependencies() {
        let metadata = fixtures::metadata(&[
            ("siding-model", &[("jiff", "normal"), ("proptest", "dev")]),
            ("jiff", &[("clock", "normal")]),
            ("clock", &[("libc", "normal"), ("jiff", "normal")]),
            ("libc", &[]),
            ("proptest", &[("rustix", "normal")]),
            ("rustix", &[]),
        ]);
        let model = &metadata.members["siding-model"];
        assert_eq!(
            metadata.dependency_chain(model, "libc").unwrap(),
            ["siding-model", "jiff", "clock", "libc"]
        );
        assert_eq!(metadata.dependency_chain(model, "rustix"), None);
        assert_eq!(model.direct_dependencies, ["jiff", "proptest"]);
    }

    #[test]
    fn input_that_is_not_metadata_is_refused() {
        assert!(Metadata::parse(b"{}").is_err());
        assert!(Metadata::parse(b"not json").is_err());
    }
}
