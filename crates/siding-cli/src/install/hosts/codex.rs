//! Codex: hooks, MCP server, and adoption of its shells by `BASH_ENV`.
//!
//! Read in its source (`codex-rs/hooks`, `codex-rs/config`): `hooks.json` beside `config.toml` has
//! Claude Code's shape, commands are lines for a shell, timeouts are seconds, and there is no event
//! for the end of a session. `shell_environment_policy.set` is what its commands find in their
//! environment.

use std::path::PathBuf;

use super::{Places, shell_call};
use crate::cmd::shell_init;
use crate::failure::Failure;
use crate::install::hooks::Entry;
use crate::install::json::Dialect;
use crate::install::program::Program;
use crate::install::target::{Content, Target};
use crate::install::toml::Block;
use crate::install::tree::Tree;

/// Every entry that siding has there: event, matcher, word, seconds.
const ROWS: [(&str, Option<&str>, &str, u64); 5] = [
    ("SessionStart", None, "session-start", 10),
    ("UserPromptSubmit", None, "user-prompt-submit", 5),
    ("PreToolUse", Some("Bash"), "pre-tool-use", 5),
    ("PostToolUse", Some("Bash"), "post-tool-use", 5),
    ("Stop", None, "stop", 5),
];

/// Returns the files.
pub(super) fn targets(places: &Places, program: &Program) -> Result<Vec<Target>, Failure> {
    let home = places.set("CODEX_HOME").unwrap_or_else(|| places.home.join(".codex"));
    let shell_file = shell_file(places);
    let hooks = ROWS.iter().map(|(event, matcher, word, timeout)| {
        let handler = Tree::map([
            ("type", Tree::text("command")),
            ("command", Tree::text(shell_call(program, "codex", word))),
            ("timeout", Tree::Number(*timeout)),
        ]);
        Entry { event, matcher: *matcher, word, handler }
    });
    let hooks = Content::Json {
        dialect: Dialect::Strict,
        hooks: hooks.collect(),
        server: None,
        status_line: None,
    };
    let text = shell_init::text(program.path.as_ref(), None)?;
    let block =
        Block { program: program.path.clone(), shell_file: shell_file.display().to_string() };
    Ok(vec![
        Target { path: shell_file, content: Content::Own(text) },
        Target { path: home.join("hooks.json"), content: hooks },
        Target { path: home.join("config.toml"), content: Content::Toml(block) },
    ])
}

/// Returns the file that its shells read first.
fn shell_file(places: &Places) -> PathBuf {
    places.config().join("siding/bash-env")
}

/// Returns what a person should know beside.
pub(super) fn notes(places: &Places) -> Vec<String> {
    vec![
        "Codex runs new hooks only when you have looked at them: call `/hooks` in a session and \
         trust siding's"
            .to_owned(),
        format!(
            "its shells are adopted by BASH_ENV=`{}`; if your [shell_environment_policy] has a \
             `set` of its own, put that line there yourself",
            shell_file(places).display()
        ),
    ]
}
