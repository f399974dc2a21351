//! opencode: MCP server only, because opencode has no hooks that call a program.
//!
//! According to opencode's documentation, its settings file is `opencode.json` or `opencode.jsonc`
//! in `~/.config/opencode`. Both may have comments and trailing commas, and a server's command is a
//! list.

use super::BaseDirs;
use crate::install::json::Dialect;
use crate::install::json_value::JsonValue;
use crate::install::program::SidingProgram;
use crate::install::target::{FileContent, TargetFile};

/// Returns the file that an install changes, with siding's part of it.
pub(super) fn targets(places: &BaseDirs, program: &SidingProgram) -> Vec<TargetFile> {
    let dir = places.config_dir().join("opencode");
    let with_comments = dir.join("opencode.jsonc");
    let path = if with_comments.exists() { with_comments } else { dir.join("opencode.json") };
    let server = JsonValue::map([
        ("type", JsonValue::text("local")),
        ("command", JsonValue::texts([program.path.as_str(), "mcp"])),
        ("enabled", JsonValue::Flag(true)),
    ]);
    let server = Some((vec!["mcp".to_owned()], server));
    let content =
        FileContent::Json { dialect: Dialect::Loose, hooks: Vec::new(), server, status_line: None };
    vec![TargetFile { path, content }]
}

/// Returns the notes to print after an install, such as remaining manual steps.
pub(super) fn notes() -> Vec<String> {
    vec![
        "opencode calls no hooks; to let its shells be adopted: `siding shell-init bash > \
         ~/.config/siding/bash-env`, then start it as `BASH_ENV=~/.config/siding/bash-env opencode`"
            .to_owned(),
    ]
}
