//! The shapes of a workflow's TOML. What serde refuses, it refuses with the keys that are allowed.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::plan::OnFailure;

/// A whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) name: Option<String>,
    pub(super) max_parallel: Option<i64>,
    #[serde(default)]
    pub(super) on_failure: OnFailure,
    pub(super) timeout: Option<String>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) step: Vec<Spanned<RawStep>>,
}

/// One `[[step]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStep {
    pub(super) id: String,
    pub(super) run: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) needs: Vec<String>,
    #[serde(rename = "if")]
    pub(super) condition: Option<String>,
    pub(super) timeout: Option<String>,
    #[serde(default)]
    pub(super) retries: i64,
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) matrix: BTreeMap<String, Vec<toml::Value>>,
}
