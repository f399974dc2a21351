//! opencode: MCP server. It has no hooks that call a program.
//!
//! Its file is JSON with comments and commas at the end, `opencode.json` or `opencode.jsonc` in
//! `~/.config/opencode`; a server's command is a list (seen in its documentation).

use super::Places;
use crate::install::json::Dialect;
use crate::install::program::Program;
use crate::install::target::{Content, Target};
use crate::install::tree::Tree;

/// Returns the files.
pub(super) fn targets(places: &Places, program: &Program) -> Vec<Target> {
    let dir = places.config().join("opencode");
    let with_comments = dir.join("opencode.jsonc");
    let path = if with_comments.exists() { with_comments } else { dir.join("opencode.json") };
    let server = Tree::map([
        ("type", Tree::text("local")),
        ("command", Tree::texts([program.path.as_str(), "mcp"])),
        ("enabled", Tree::Flag(true)),
    ]);
    let server = Some((vec!["mcp".to_owned()], server));
    let content =
        Content::Json { dialect: Dialect::Loose, hooks: Vec::new(), server, status_line: None };
    vec![Target { path, content }]
}

/// Returns what a person should know or do beside.
pub(super) fn notes() -> Vec<String> {
    vec![
        "opencode calls no hooks; to have its shells adopted: `siding shell-init bash > \
         ~/.config/siding/bash-env`, then start it as `BASH_ENV=~/.config/siding/bash-env opencode`"
            .to_owned(),
    ]
}
