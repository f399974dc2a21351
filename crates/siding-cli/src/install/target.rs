//! Computes the text of a host's file with and without siding.

use std::path::PathBuf;

use super::file::OriginalFile;
use super::hooks::{self, HookEntry};
use super::json::{Dialect, JsonDocument, TextError};
use super::json_value::JsonValue;
use super::program::ProgramNames;
use super::record::{InstallRecord, OriginalEmptyFile};
use super::toml::{self, CodexBlock};
use super::{mcp_server, status_line};

/// A file of a host and its intended content.
#[derive(Debug, Clone)]
pub(crate) struct TargetFile {
    pub(crate) path: PathBuf,
    pub(crate) content: FileContent,
}

/// The intended content of a file.
#[derive(Debug, Clone)]
pub(crate) enum FileContent {
    /// Hook entries, the server's entry and the status line, added to existing content.
    Json {
        /// The JSON variant that the host accepts.
        dialect: Dialect,
        /// Empty if the host has its hooks in another file, or has none.
        hooks: Vec<HookEntry>,
        /// The server's entry, with the path of the object that contains it.
        server: Option<(Vec<String>, JsonValue)>,
        /// The status line, if the file supports one.
        status_line: Option<StatusLineTarget>,
    },
    /// A block of tables, appended to existing content.
    Toml(CodexBlock),
    /// Exactly this text: siding owns the whole file.
    Owned(String),
}

/// The status line to install or update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusLineTarget {
    /// The program that the status line calls.
    pub(crate) program: String,
    /// Whether the user requested the status line; otherwise only an existing one of siding is
    /// updated.
    pub(crate) is_requested: bool,
}

impl TargetFile {
    /// Returns the budget that an earlier install wrote into the file's hooks, if there is one.
    /// Returns `None` for an unreadable file too; the install itself reports the error.
    pub(crate) fn installed_budget(&self, names: &ProgramNames) -> Option<String> {
        let FileContent::Json { dialect, .. } = &self.content else { return None };
        let original = OriginalFile::read(&self.path).ok()?;
        let json = JsonDocument::parse(original.text().ok()??, *dialect).ok()?;
        hooks::find(&json, names).iter().find_map(|found| names.hook_budget(&found.handler))
    }

    /// Returns the file's new text, which includes the intended content. `old` is `None` if the
    /// file does not exist. `record` is the record of an earlier install, and is updated for this
    /// install.
    ///
    /// # Errors
    ///
    /// The text of the file is not valid for its host.
    pub(crate) fn text_with_siding(
        &self,
        old: Option<&str>,
        names: &ProgramNames,
        record: &mut InstallRecord,
    ) -> Result<String, TextError> {
        match &self.content {
            FileContent::Json { dialect, hooks, server, status_line } => {
                let text = match old {
                    Some(text) if !JsonDocument::is_blank(text) => text,
                    other => {
                        let text = other.map(|text| OriginalEmptyFile::Text(text.to_owned()));
                        *record = InstallRecord {
                            blank: Some(text.unwrap_or(OriginalEmptyFile::NoFile)),
                            ..InstallRecord::default()
                        };
                        "{}\n"
                    }
                };
                let mut json = JsonDocument::parse(text, *dialect)?;
                if !contains_siding(&json, names) && record.blank.is_none() {
                    // The record of an earlier install describes a file that has been replaced
                    // since, so it does not apply.
                    *record = InstallRecord::default();
                }
                if !hooks.is_empty() {
                    hooks::install(&mut json, hooks, names, record)?;
                }
                if let Some((keys, entry)) = server {
                    mcp_server::install(&mut json, &as_strs(keys), entry, names, record)?;
                }
                if let Some(StatusLineTarget { program, is_requested: asked }) = status_line {
                    status_line::install(&mut json, *asked, program, names, record)?;
                }
                Ok(json.into_text())
            }
            FileContent::Toml(block) => toml::install(old, block, names, record),
            FileContent::Owned(text) => {
                if old != Some(text.as_str()) && record.blank.is_none() {
                    let before = old.map(|text| OriginalEmptyFile::Text(text.to_owned()));
                    record.blank = Some(before.unwrap_or(OriginalEmptyFile::NoFile));
                }
                Ok(text.clone())
            }
        }
    }

    /// Returns the file's text without siding; `None` if nothing is left of a file that the install
    /// created.
    ///
    /// # Errors
    ///
    /// The text cannot be parsed.
    pub(crate) fn text_without_siding(
        &self,
        old: &str,
        names: &ProgramNames,
        record: Option<&InstallRecord>,
    ) -> Result<Option<String>, TextError> {
        match &self.content {
            FileContent::Json { server, status_line, .. } => {
                if JsonDocument::is_blank(old) {
                    return Ok(Some(old.to_owned()));
                }
                // Comments and trailing commas are allowed, so that siding's entries can be removed
                // even from a file that the host would reject.
                let mut json = JsonDocument::parse(old, Dialect::Loose)?;
                hooks::remove(&mut json, names, record);
                if let Some((keys, _)) = server {
                    mcp_server::remove(&mut json, &as_strs(keys), names, record);
                }
                if status_line.is_some() {
                    status_line::remove(&mut json, names, record);
                }
                if json.len(&[]) == Some(0) && json.clone().into_text() != old {
                    super::record::remove_if_empty(&mut json, &[], record);
                    match record.and_then(|made| made.blank.as_ref()) {
                        Some(OriginalEmptyFile::NoFile) if is_empty_object(&json) => {
                            return Ok(None);
                        }
                        Some(OriginalEmptyFile::Text(text)) if is_empty_object(&json) => {
                            return Ok(Some(text.clone()));
                        }
                        _ => {}
                    }
                }
                Ok(Some(json.into_text()))
            }
            FileContent::Toml(_) => toml::remove(old, names, record),
            FileContent::Owned(text) => {
                // The first line is the same in every version of siding, so a file with a different
                // first line was not written by siding.
                let ours = old.lines().next() == text.lines().next();
                Ok(match record.and_then(|made| made.blank.as_ref()) {
                    Some(OriginalEmptyFile::NoFile) if ours => None,
                    Some(OriginalEmptyFile::Text(before)) if ours => Some(before.clone()),
                    _ => Some(old.to_owned()),
                })
            }
        }
    }

    /// Returns whether the text of a JSON file still contains siding's entries; false for any other
    /// file. After an uninstall, such entries belong to another scope that uses the same file.
    pub(crate) fn is_shared(&self, text: &str, names: &ProgramNames) -> bool {
        matches!(self.content, FileContent::Json { .. })
            && JsonDocument::parse(text, Dialect::Loose)
                .is_ok_and(|json| contains_siding(&json, names))
    }
}

/// Returns whether a file contains a hook or a server of siding, for any scope.
fn contains_siding(json: &JsonDocument, names: &ProgramNames) -> bool {
    !hooks::find(json, names).is_empty()
        || json.get(&[]).is_some_and(|value| mcp_server::contains_siding(&value, names))
}

/// Returns whether the file contains only an empty object.
fn is_empty_object(json: &JsonDocument) -> bool {
    json.clone().into_text().split_whitespace().collect::<String>() == "{}"
}

fn as_strs(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}
