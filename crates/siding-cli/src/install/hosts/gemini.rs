//! Gemini CLI: hooks and MCP server, both in one file that may have comments.
//!
//! According to `docs/hooks/reference.md` in its source, Gemini CLI has its own event names,
//! commands are shell command lines, and timeouts are in milliseconds.

use super::{BaseDirs, hook_command_line};
use crate::install::hooks::HookEntry;
use crate::install::json::Dialect;
use crate::install::json_value::JsonValue;
use crate::install::program::SidingProgram;
use crate::install::target::{FileContent, TargetFile};

/// The hook entries of siding, except the one that `--notify` adds: event, matcher, argument,
/// timeout in milliseconds.
const HOOK_ROWS: [(&str, Option<&str>, &str, u64); 6] = [
    ("SessionStart", None, "session-start", 10_000),
    ("BeforeAgent", None, "before-agent", 5_000),
    ("BeforeTool", Some("run_shell_command"), "before-tool", 5_000),
    ("AfterTool", Some("run_shell_command"), "after-tool", 5_000),
    ("AfterAgent", None, "after-agent", 5_000),
    ("SessionEnd", None, "session-end", 10_000),
];

/// Returns the file that an install changes, with siding's part of it.
pub(super) fn targets(places: &BaseDirs, program: &SidingProgram) -> Vec<TargetFile> {
    let hooks = HOOK_ROWS.iter().map(|(event, matcher, word, timeout)| {
        let handler = JsonValue::map([
            ("name", JsonValue::text(format!("siding {word}"))),
            ("type", JsonValue::text("command")),
            ("command", JsonValue::text(hook_command_line(program, "gemini", word))),
            ("timeout", JsonValue::Number(*timeout)),
        ]);
        HookEntry { event, matcher: *matcher, event_arg: word, handler }
    });
    let server = JsonValue::map([
        ("command", JsonValue::text(&program.path)),
        ("args", JsonValue::texts(["mcp"])),
    ]);
    let server = Some((vec!["mcpServers".to_owned()], server));
    let path = places.home.join(".gemini/settings.json");
    let content = FileContent::Json {
        dialect: Dialect::Comments,
        hooks: hooks.collect(),
        server,
        status_line: None,
    };
    vec![TargetFile { path, content }]
}
