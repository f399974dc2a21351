//! Gemini CLI: hooks and MCP server, both in one file, with comments.
//!
//! Read in its documentation (docs/hooks/reference.md of its source): events have names of their
//! own, commands are lines for a shell, and timeouts are milliseconds.

use super::{Places, shell_call};
use crate::install::hooks::Entry;
use crate::install::json::Dialect;
use crate::install::program::Program;
use crate::install::target::{Content, Target};
use crate::install::tree::Tree;

/// Every entry that siding has there: event, matcher, word, milliseconds.
const ROWS: [(&str, Option<&str>, &str, u64); 6] = [
    ("SessionStart", None, "session-start", 10_000),
    ("BeforeAgent", None, "before-agent", 5_000),
    ("BeforeTool", Some("run_shell_command"), "before-tool", 5_000),
    ("AfterTool", Some("run_shell_command"), "after-tool", 5_000),
    ("AfterAgent", None, "after-agent", 5_000),
    ("SessionEnd", None, "session-end", 10_000),
];

/// Returns the files.
pub(super) fn targets(places: &Places, program: &Program) -> Vec<Target> {
    let hooks = ROWS.iter().map(|(event, matcher, word, timeout)| {
        let handler = Tree::map([
            ("name", Tree::text(format!("siding {word}"))),
            ("type", Tree::text("command")),
            ("command", Tree::text(shell_call(program, "gemini", word))),
            ("timeout", Tree::Number(*timeout)),
        ]);
        Entry { event, matcher: *matcher, word, handler }
    });
    let server =
        Tree::map([("command", Tree::text(&program.path)), ("args", Tree::texts(["mcp"]))]);
    let server = Some((vec!["mcpServers".to_owned()], server));
    let path = places.home.join(".gemini/settings.json");
    let content = Content::Json {
        dialect: Dialect::Comments,
        hooks: hooks.collect(),
        server,
        status_line: None,
    };
    vec![Target { path, content }]
}
