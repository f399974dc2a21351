//! One file of a host, and what is to be in it.

use std::path::PathBuf;

use super::file::OriginalFile;
use super::hooks::{self, HookEntry};
use super::json::{Dialect, JsonDocument, TextError};
use super::json_value::JsonValue;
use super::program::ProgramNames;
use super::record::{InstallRecord, OriginalEmptyFile};
use super::toml::{self, CodexBlock};
use super::{mcp_server, status_line};

/// One file of a host, and what is to be in it.
#[derive(Debug, Clone)]
pub(crate) struct TargetFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What is to be in it.
    pub(crate) content: FileContent,
}

/// What is to be in a file.
#[derive(Debug, Clone)]
pub(crate) enum FileContent {
    /// Hook entries and the server's entry, among what others have there.
    Json {
        /// What the host's parser takes.
        dialect: Dialect,
        /// The hook entries.
        hooks: Vec<HookEntry>,
        /// The server's entry, with the keys of the object it is in.
        server: Option<(Vec<String>, JsonValue)>,
        /// The status line, where the file has a place for one.
        status_line: Option<StatusLineTarget>,
    },
    /// A block of tables, behind what others have there.
    Toml(CodexBlock),
    /// This text and nothing else: the file is siding's own.
    Owned(String),
}

/// A status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusLineTarget {
    /// The program that it calls.
    pub(crate) program: String,
    /// Whether it was asked for; otherwise one that is there stays.
    pub(crate) is_requested: bool,
}

impl TargetFile {
    /// Returns the budget that an earlier install wrote into the hooks of the file. A file that cannot
    /// be read has none; the install itself reports why.
    pub(crate) fn installed_budget(&self, names: &ProgramNames) -> Option<String> {
        let FileContent::Json { dialect, .. } = &self.content else { return None };
        let original = OriginalFile::read(&self.path).ok()?;
        let json = JsonDocument::parse(original.text().ok()??, *dialect).ok()?;
        hooks::find(&json, names).iter().find_map(|found| names.hook_budget(&found.handler))
    }

    /// Returns a file's text with everything in it that is to be there. `old` is `None` when there
    /// is no file; `made` is what an earlier install remembered, and comes to remember this one.
    ///
    /// # Errors
    ///
    /// When the file is not as its host reads it.
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
                    // What an earlier install remembered is of a file that was changed since.
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

    /// Returns a file's text without anything of siding's; `None` when nothing is left of a file
    /// that install made.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
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
                // What the host would not read can have something of siding's in it all the same.
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
                // Written by this siding or by another one, not by a person.
                let ours = old.lines().next() == text.lines().next();
                Ok(match record.and_then(|made| made.blank.as_ref()) {
                    Some(OriginalEmptyFile::NoFile) if ours => None,
                    Some(OriginalEmptyFile::Text(before)) if ours => Some(before.clone()),
                    _ => Some(old.to_owned()),
                })
            }
        }
    }

    /// Returns whether something of siding's is in a text all the same: another scope's, which has
    /// its place in the same file.
    pub(crate) fn is_shared(&self, text: &str, names: &ProgramNames) -> bool {
        matches!(self.content, FileContent::Json { .. })
            && JsonDocument::parse(text, Dialect::Loose)
                .is_ok_and(|json| contains_siding(&json, names))
    }
}

/// Returns whether a hook or a server of siding's is in a file, in whosever place.
fn contains_siding(json: &JsonDocument, names: &ProgramNames) -> bool {
    !hooks::find(json, names).is_empty()
        || json.get(&[]).is_some_and(|value| mcp_server::contains_siding(&value, names))
}

/// Returns whether there is nothing in the file but brackets.
fn is_empty_object(json: &JsonDocument) -> bool {
    json.clone().into_text().split_whitespace().collect::<String>() == "{}"
}

fn as_strs(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}
