//! One file of a host, and what is to be in it.

use std::path::PathBuf;

use super::file::Original;
use super::hooks::{self, Entry};
use super::json::{Dialect, Fault, Json};
use super::made::{Blank, Made};
use super::program::Names;
use super::toml::{self, Block};
use super::tree::Tree;
use super::{server, status_line};

/// One file of a host, and what is to be in it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What is to be in it.
    pub(crate) content: Content,
}

/// What is to be in a file.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Hook entries and the server's entry, among what others have there.
    Json {
        /// What the host's parser takes.
        dialect: Dialect,
        /// The hook entries.
        hooks: Vec<Entry>,
        /// The server's entry, with the keys of the object it is in.
        server: Option<(Vec<String>, Tree)>,
        /// The status line, where the file has a place for one.
        status_line: Option<StatusLine>,
    },
    /// A block of tables, behind what others have there.
    Toml(Block),
    /// This text and nothing else: the file is siding's own.
    Own(String),
}

/// A status line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusLine {
    /// The program that it calls.
    pub(crate) program: String,
    /// Whether it was asked for; otherwise one that is there stays.
    pub(crate) asked: bool,
}

impl Target {
    /// Returns the budget that an earlier install wrote into the hooks of the file. A file that cannot
    /// be read has none; the install itself reports why.
    pub(crate) fn installed_budget(&self, names: &Names) -> Option<String> {
        let Content::Json { dialect, .. } = &self.content else { return None };
        let original = Original::read(&self.path).ok()?;
        let json = Json::read(original.text().ok()??, *dialect).ok()?;
        hooks::find(&json, names).iter().find_map(|found| names.hook_budget(&found.handler))
    }

    /// Returns a file's text with everything in it that is to be there. `old` is `None` when there
    /// is no file; `made` is what an earlier install remembered, and comes to remember this one.
    ///
    /// # Errors
    ///
    /// When the file is not as its host reads it.
    pub(crate) fn installed(
        &self,
        old: Option<&str>,
        names: &Names,
        made: &mut Made,
    ) -> Result<String, Fault> {
        match &self.content {
            Content::Json { dialect, hooks, server, status_line } => {
                let text = match old {
                    Some(text) if !Json::is_blank(text) => text,
                    other => {
                        let text = other.map(|text| Blank::Text(text.to_owned()));
                        *made =
                            Made { blank: Some(text.unwrap_or(Blank::NoFile)), ..Made::default() };
                        "{}\n"
                    }
                };
                let mut json = Json::read(text, *dialect)?;
                if !holds_ours(&json, names) && made.blank.is_none() {
                    // What an earlier install remembered is of a file that was changed since.
                    *made = Made::default();
                }
                if !hooks.is_empty() {
                    hooks::install(&mut json, hooks, names, made)?;
                }
                if let Some((keys, entry)) = server {
                    server::install(&mut json, &borrowed(keys), entry, names, made)?;
                }
                if let Some(StatusLine { program, asked }) = status_line {
                    status_line::install(&mut json, *asked, program, names, made)?;
                }
                Ok(json.into_text())
            }
            Content::Toml(block) => toml::install(old, block, names, made),
            Content::Own(text) => {
                if old != Some(text.as_str()) && made.blank.is_none() {
                    let before = old.map(|text| Blank::Text(text.to_owned()));
                    made.blank = Some(before.unwrap_or(Blank::NoFile));
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
    pub(crate) fn removed(
        &self,
        old: &str,
        names: &Names,
        made: Option<&Made>,
    ) -> Result<Option<String>, Fault> {
        match &self.content {
            Content::Json { server, status_line, .. } => {
                if Json::is_blank(old) {
                    return Ok(Some(old.to_owned()));
                }
                // What the host would not read can have something of siding's in it all the same.
                let mut json = Json::read(old, Dialect::Loose)?;
                hooks::remove(&mut json, names, made);
                if let Some((keys, _)) = server {
                    server::remove(&mut json, &borrowed(keys), names, made);
                }
                if status_line.is_some() {
                    status_line::remove(&mut json, names, made);
                }
                if json.len(&[]) == Some(0) && json.clone().into_text() != old {
                    super::made::tidy(&mut json, &[], made);
                    match made.and_then(|made| made.blank.as_ref()) {
                        Some(Blank::NoFile) if is_bare(&json) => return Ok(None),
                        Some(Blank::Text(text)) if is_bare(&json) => return Ok(Some(text.clone())),
                        _ => {}
                    }
                }
                Ok(Some(json.into_text()))
            }
            Content::Toml(_) => toml::remove(old, names, made),
            Content::Own(text) => {
                // Written by this siding or by another one, not by a person.
                let ours = old.lines().next() == text.lines().next();
                Ok(match made.and_then(|made| made.blank.as_ref()) {
                    Some(Blank::NoFile) if ours => None,
                    Some(Blank::Text(before)) if ours => Some(before.clone()),
                    _ => Some(old.to_owned()),
                })
            }
        }
    }

    /// Returns whether something of siding's is in a text all the same: another scope's, which has
    /// its place in the same file.
    pub(crate) fn is_shared(&self, text: &str, names: &Names) -> bool {
        matches!(self.content, Content::Json { .. })
            && Json::read(text, Dialect::Loose).is_ok_and(|json| holds_ours(&json, names))
    }
}

/// Returns whether a hook or a server of siding's is in a file, in whosever place.
fn holds_ours(json: &Json, names: &Names) -> bool {
    !hooks::find(json, names).is_empty()
        || json.get(&[]).is_some_and(|value| server::is_below(&value, names))
}

/// Returns whether there is nothing in the file but brackets.
fn is_bare(json: &Json) -> bool {
    json.clone().into_text().split_whitespace().collect::<String>() == "{}"
}

fn borrowed(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}
