//! The shapes of a workflow's TOML. What serde refuses, it refuses with the keys that are allowed.
//!
//! Every value that is checked later has its place in the file, so that a mistake names its own line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::plan::OnFailure;

/// Variables by name.
pub(super) type RawEnv = BTreeMap<String, Spanned<String>>;
/// The values of a matrix by key.
pub(super) type RawMatrix = BTreeMap<String, Spanned<Vec<toml::Value>>>;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) name: Option<String>,
    pub(super) max_parallel: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) on_failure: OnFailure,
    pub(super) timeout: Option<Spanned<String>>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) env: RawEnv,
    #[serde(default)]
    pub(super) step: Vec<Spanned<RawStep>>,
}

/// One `[[step]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) id: Spanned<String>,
    pub(super) run: Option<Spanned<String>>,
    pub(super) prompt: Option<Spanned<String>>,
    pub(super) model: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) needs: Vec<Spanned<String>>,
    #[serde(rename = "if")]
    pub(super) condition: Option<Spanned<String>>,
    pub(super) timeout: Option<Spanned<String>>,
    pub(super) retries: Option<Spanned<i64>>,
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) env: RawEnv,
    #[serde(default)]
    pub(super) matrix: RawMatrix,
}
