//! Codex: hooks, MCP server, and adoption of its shells through `BASH_ENV`.
//!
//! According to Codex's source (`codex-rs/hooks`, `codex-rs/config`), `hooks.json` next to
//! `config.toml` has the format of Claude Code's hooks. Commands are shell command lines, timeouts
//! are in seconds, and the end of a session has no event. `shell_environment_policy.set` adds
//! variables to the environment of Codex's commands.

use std::path::PathBuf;

use super::{BaseDirs, hook_command_line};
use crate::failure::Failure;
use crate::install::hooks::HookEntry;
use crate::install::json::Dialect;
use crate::install::json_value::JsonValue;
use crate::install::program::SidingProgram;
use crate::install::target::{FileContent, TargetFile};
use crate::install::toml::CodexBlock;
use crate::shell_init;

/// The hook entries of siding, except the one that `--notify` adds: event, matcher, argument,
/// timeout in seconds.
const HOOK_ROWS: [(&str, Option<&str>, &str, u64); 5] = [
    ("SessionStart", None, "session-start", 10),
    ("UserPromptSubmit", None, "user-prompt-submit", 5),
    ("PreToolUse", Some("Bash"), "pre-tool-use", 5),
    ("PostToolUse", Some("Bash"), "post-tool-use", 5),
    ("Stop", None, "stop", 5),
];

/// Returns the files that an install changes, with siding's part of each.
pub(super) fn targets(
    places: &BaseDirs,
    program: &SidingProgram,
) -> Result<Vec<TargetFile>, Failure> {
    let home = places.variable_dir("CODEX_HOME").unwrap_or_else(|| places.home.join(".codex"));
    let shell_file = shell_file(places);
    let hooks = HOOK_ROWS.iter().map(|(event, matcher, word, timeout)| {
        let handler = JsonValue::map([
            ("type", JsonValue::text("command")),
            ("command", JsonValue::text(hook_command_line(program, "codex", word))),
            ("timeout", JsonValue::Number(*timeout)),
        ]);
        HookEntry { event, matcher: *matcher, event_arg: word, handler }
    });
    let hooks = FileContent::Json {
        dialect: Dialect::Strict,
        hooks: hooks.collect(),
        server: None,
        status_line: None,
    };
    let text = shell_init::init_script(program.path.as_ref(), None)?;
    let block =
        CodexBlock { program: program.path.clone(), shell_file: shell_file.display().to_string() };
    Ok(vec![
        TargetFile { path: shell_file, content: FileContent::Owned(text) },
        TargetFile { path: home.join("hooks.json"), content: hooks },
        TargetFile { path: home.join("config.toml"), content: FileContent::Toml(block) },
    ])
}

/// Returns the path of the script that the host's shells read first, because `BASH_ENV` names it.
fn shell_file(places: &BaseDirs) -> PathBuf {
    places.config_dir().join("siding/bash-env")
}

/// Returns the notes to print after an install, such as remaining manual steps.
pub(super) fn notes(places: &BaseDirs) -> Vec<String> {
    vec![
        "Codex runs new hooks only after you have approved them: call `/hooks` in a session and \
         trust siding's"
            .to_owned(),
        format!(
            "its shells are adopted by BASH_ENV=`{}`; if your [shell_environment_policy] has a \
             `set` of its own, add that line there yourself",
            shell_file(places).display()
        ),
    ]
}
