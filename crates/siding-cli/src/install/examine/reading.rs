//! A host's file, as far as it can be read.

use crate::install::file::Original;
use crate::install::hosts::Scope;
use crate::install::json::Json;
use crate::install::program::Program;
use crate::install::target::{Content, Target};
use crate::install::{server, toml};

/// One file, read.
pub(super) struct Reading {
    pub(super) scope: Scope,
    pub(super) target: Target,
    /// What is in it; `None` when there is no file or nothing in it.
    pub(super) text: Option<String>,
    /// The same, if it is JSON.
    pub(super) json: Option<Json>,
    /// Why it cannot be read.
    pub(super) fault: Option<String>,
}

impl Reading {
    /// Reads a file.
    pub(super) fn of(scope: Scope, target: Target) -> Self {
        let read = Original::read(&target.path).and_then(|original| {
            Ok(original.text()?.filter(|text| !Json::is_blank(text)).map(str::to_owned))
        });
        let (text, mut fault) = match read {
            Ok(text) => (text, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut json = None;
        if let Some(text) = &text {
            let parsed = match &target.content {
                Content::Json { dialect, .. } => {
                    Json::read(text, *dialect).map(|value| json = Some(value))
                }
                Content::Toml(_) => toml::shell_file(text).map(drop),
                Content::Own(_) => Ok(()),
            };
            let path = target.path.display();
            fault = parsed.err().map(|fault| format!("`{path}`, {fault}"));
        }
        Self { scope, target, text, json, fault }
    }

    /// Returns the program of the server's entry in this file.
    pub(super) fn server(&self, program: &Program) -> Option<String> {
        match &self.target.content {
            Content::Json { server: Some((keys, _)), .. } => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let entry = server::find(self.json.as_ref()?, &keys, &program.names);
                entry.map(|(called, _)| called)
            }
            Content::Toml(_) => {
                toml::server(self.text.as_deref()?, &program.names).unwrap_or_default()
            }
            Content::Json { .. } | Content::Own(_) => None,
        }
    }
}
