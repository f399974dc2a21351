//! The TOML structure of a workflow. The error for an unknown key lists the allowed keys.
//!
//! Values that are validated later carry their spans, so that a mistake is reported with its line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::OnFailure;

/// Environment variables by name.
pub(super) type RawEnv = BTreeMap<String, Spanned<String>>;
/// The values of a matrix, by key.
pub(super) type RawMatrix = BTreeMap<String, Spanned<Vec<toml::Value>>>;

/// The top level of a workflow's file.
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

impl RawFile {
    /// Returns the executors that steps name, each with the id of its step.
    pub(super) fn executors(&self) -> Vec<(String, Spanned<String>)> {
        let steps = self.step.iter().map(Spanned::get_ref);
        steps.filter_map(|step| Some((step.id.get_ref().clone(), step.on.clone()?))).collect()
    }
}

/// A `[[step]]` table.
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
    pub(super) on: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) env: RawEnv,
    #[serde(default)]
    pub(super) matrix: RawMatrix,
}
