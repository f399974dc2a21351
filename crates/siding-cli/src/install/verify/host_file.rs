//! Reads a host's file for the checks, and stores the error of a file that cannot be read.

use crate::install::file::OriginalFile;
use crate::install::hosts::Scope;
use crate::install::json::JsonDocument;
use crate::install::program::SidingProgram;
use crate::install::target::{FileContent, TargetFile};
use crate::install::{mcp_server, toml};

pub(super) struct HostSettingsFile {
    pub(super) scope: Scope,
    pub(super) target: TargetFile,
    /// Text of the file; `None` if the file is missing, blank or unreadable.
    pub(super) text: Option<String>,
    /// The parsed text, if it is JSON.
    pub(super) json: Option<JsonDocument>,
    /// The reason why the file cannot be read or parsed.
    pub(super) error: Option<String>,
}

impl HostSettingsFile {
    /// Reads and parses a file, and stores an error in [`Self::error`].
    pub(super) fn read(scope: Scope, target: TargetFile) -> Self {
        let read = OriginalFile::read(&target.path).and_then(|original| {
            Ok(original.text()?.filter(|text| !JsonDocument::is_blank(text)).map(str::to_owned))
        });
        let (text, mut fault) = match read {
            Ok(text) => (text, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut json = None;
        if let Some(text) = &text {
            let parsed = match &target.content {
                FileContent::Json { dialect, .. } => {
                    JsonDocument::parse(text, *dialect).map(|value| json = Some(value))
                }
                FileContent::Toml(_) => toml::shell_file(text).map(drop),
                FileContent::Owned(_) => Ok(()),
            };
            let path = target.path.display();
            fault = parsed.err().map(|fault| format!("`{path}`, {fault}"));
        }
        Self { scope, target, text, json, error: fault }
    }

    /// Returns the program that the entry of siding's MCP server in this file starts.
    pub(super) fn server_program(&self, program: &SidingProgram) -> Option<String> {
        match &self.target.content {
            FileContent::Json { server: Some((keys, _)), .. } => {
                let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
                let entry = mcp_server::find(self.json.as_ref()?, &keys, &program.names);
                entry.map(|(called, _)| called)
            }
            FileContent::Toml(_) => {
                toml::server_program(self.text.as_deref()?, &program.names).unwrap_or_default()
            }
            FileContent::Json { .. } | FileContent::Owned(_) => None,
        }
    }
}
