//! Claude Code: its hooks and the locations of its files.
//!
//! Observed with 2.1.197: the host ignores a settings file with a comment or a trailing comma as a
//! whole, and calls a hook that has `args` next to `command` without a shell. A person's MCP
//! servers are in `.claude.json`, which is in `CLAUDE_CONFIG_DIR` or the home directory; those for
//! a single project are in the same file, under the path of the repository's root. The MCP servers
//! for everyone in a project are in `.mcp.json`.

use std::path::{Path, PathBuf};

use super::BaseDirs;
use crate::install::hooks::HookEntry;
use crate::install::json::Dialect;
use crate::install::json_value::JsonValue;
use crate::install::program::{BUDGET_FLAG, SidingProgram};
use crate::install::target::{FileContent, StatusLineTarget, TargetFile};

/// The people and projects to which an installation applies.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    clap::ValueEnum,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scope {
    /// For you, in all projects
    #[default]
    User,
    /// For everyone in this project; the files are checked in
    Project,
    /// For you, in this project
    Local,
}

impl Scope {
    /// Every scope, the widest first.
    pub(crate) const ALL: [Self; 3] = [Self::User, Self::Project, Self::Local];

    /// Returns the flag of the scope, with a leading space; empty for the default scope.
    pub(crate) const fn flag(self) -> &'static str {
        match self {
            Self::User => "",
            Self::Project => " --scope project",
            Self::Local => " --scope local",
        }
    }

    /// Returns a description of the people and projects that the scope applies to.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::User => "for you in all projects",
            Self::Project => "for everyone in this project",
            Self::Local => "for you in this project",
        }
    }
}

struct HookRow {
    event: &'static str,
    matcher: Option<&'static str>,
    event_arg: &'static str,
    /// Seconds after which the host stops waiting for the hook.
    timeout: u64,
    /// Whether the hook runs in the background and wakes the host with exit code 2.
    wakes_host: bool,
}

const fn hook_row(
    event: &'static str,
    matcher: Option<&'static str>,
    word: &'static str,
) -> HookRow {
    HookRow { event, matcher, event_arg: word, timeout: 5, wakes_host: false }
}

/// Matcher for the tools that run commands, or type text that a shell may run.
const COMMAND_TOOLS: Option<&str> =
    Some("Bash|Monitor|mcp__siding__run|mcp__siding__keys|mcp__siding__input");
/// Matcher for the host's shell tool.
const BASH_TOOL: Option<&str> = Some("Bash");
/// Timeout of a hook that waits for a notice: eight hours, longer than a person usually leaves a
/// session with running tasks unattended.
const WAITER_TIMEOUT_SECONDS: u64 = 28_800;

/// The hook entries of siding for this host, except the one that `--notify` adds.
const HOOK_ROWS: [HookRow; 10] = [
    HookRow { timeout: 10, ..hook_row("SessionStart", None, "session-start") },
    hook_row("UserPromptSubmit", None, "user-prompt-submit"),
    hook_row("PreToolUse", COMMAND_TOOLS, "pre-tool-use"),
    hook_row("PostToolUse", BASH_TOOL, "post-tool-use"),
    HookRow {
        timeout: WAITER_TIMEOUT_SECONDS,
        wakes_host: true,
        ..hook_row("PostToolUse", BASH_TOOL, "await-notice")
    },
    hook_row("PostToolUseFailure", BASH_TOOL, "post-tool-use-failure"),
    hook_row("PostToolBatch", None, "post-tool-batch"),
    hook_row("Stop", None, "stop"),
    HookRow {
        timeout: WAITER_TIMEOUT_SECONDS,
        wakes_host: true,
        ..hook_row("Stop", None, "await-notice")
    },
    // The host reduces the timeout of all `SessionEnd` hooks to 1.5 s, unless a settings file sets
    // a larger timeout.
    HookRow { timeout: 10, ..hook_row("SessionEnd", None, "session-end") },
];

/// Arguments of the hooks that set the budget of foreground calls and report it.
const BUDGET_EVENTS: [&str; 2] = ["pre-tool-use", "post-tool-use"];

/// Returns the hook entries that call `program`; those in [`BUDGET_EVENTS`] pass the budget.
fn hook_entries(program: &str, budget: Option<&str>) -> Vec<HookEntry> {
    HOOK_ROWS
        .iter()
        .map(|row| {
            let budget = budget.filter(|_| BUDGET_EVENTS.contains(&row.event_arg));
            let budget = budget.into_iter().flat_map(|budget| [BUDGET_FLAG, budget]);
            let args = ["hook"].into_iter().chain(budget).chain([row.event_arg]);
            let mut handler = vec![
                ("type".to_owned(), JsonValue::text("command")),
                ("command".to_owned(), JsonValue::text(program)),
                ("args".to_owned(), JsonValue::texts(args)),
            ];
            if row.wakes_host {
                // Without `async`, Claude Code 2.1.197 waits for the hook in a headless run
                // (`claude -p`).
                handler.push(("async".to_owned(), JsonValue::Flag(true)));
                handler.push(("asyncRewake".to_owned(), JsonValue::Flag(true)));
            }
            handler.push(("timeout".to_owned(), JsonValue::Number(row.timeout)));
            let handler = JsonValue::Map(handler);
            HookEntry { event: row.event, matcher: row.matcher, event_arg: row.event_arg, handler }
        })
        .collect()
}

/// Returns the server's entry in the form that `claude mcp add` writes.
fn server_entry(program: &str) -> JsonValue {
    JsonValue::map([
        ("type", JsonValue::text("stdio")),
        ("command", JsonValue::text(program)),
        ("args", JsonValue::texts(["mcp"])),
        ("env", JsonValue::Map(Vec::new())),
    ])
}

/// Returns the files that an install changes, the settings first, with siding's part of each.
pub(super) fn targets(
    places: &BaseDirs,
    scope: Scope,
    program: &SidingProgram,
    budget: Option<&str>,
) -> Vec<TargetFile> {
    let (settings, servers, keys): (PathBuf, PathBuf, Vec<String>) = match scope {
        Scope::User => (
            config_dir(places).join("settings.json"),
            state_file(places),
            vec!["mcpServers".to_owned()],
        ),
        Scope::Project => {
            let dir = places.cwd.join(".claude");
            let keys = vec!["mcpServers".to_owned()];
            (dir.join("settings.json"), places.cwd.join(".mcp.json"), keys)
        }
        Scope::Local => {
            let root = repository_root(&places.cwd).display().to_string();
            let keys = ["projects".to_owned(), root, "mcpServers".to_owned()];
            let dir = places.cwd.join(".claude");
            (dir.join("settings.local.json"), state_file(places), keys.to_vec())
        }
    };
    let path = if scope == Scope::Project { program.shared_path() } else { &program.path };
    let json = |hooks, server, status_line| FileContent::Json {
        dialect: Dialect::Strict,
        hooks,
        server,
        status_line,
    };
    let line = StatusLineTarget { program: path.to_owned(), is_requested: false };
    let server = Some((keys, server_entry(path)));
    vec![
        TargetFile { path: settings, content: json(hook_entries(path, budget), None, Some(line)) },
        TargetFile { path: servers, content: json(Vec::new(), server, None) },
    ]
}

/// Returns the notes to print after an install, such as remaining manual steps.
pub(super) fn notes(scope: Scope, program: &SidingProgram) -> Vec<String> {
    let mut notes = Vec::new();
    if scope == Scope::Project {
        notes.push("Claude Code asks each person once whether to start this server".to_owned());
    }
    if scope == Scope::Project && !program.on_path {
        notes.push(format!(
            "these files are for everyone, and they contain the path `{}`, because this siding is \
             not in the search path; put it there and install again",
            program.path
        ));
    }
    notes
}

/// Returns the directory of the user's settings: `CLAUDE_CONFIG_DIR`, otherwise `~/.claude`.
fn config_dir(places: &BaseDirs) -> PathBuf {
    places.variable_dir("CLAUDE_CONFIG_DIR").unwrap_or_else(|| places.home.join(".claude"))
}

/// Returns the file in which the host keeps its state.
fn state_file(places: &BaseDirs) -> PathBuf {
    places
        .variable_dir("CLAUDE_CONFIG_DIR")
        .unwrap_or_else(|| places.home.clone())
        .join(".claude.json")
}

/// Returns the directory by which the host identifies a project: the root of its repository; in a
/// linked work tree, the root of the main work tree; outside a repository, `cwd`.
fn repository_root(cwd: &Path) -> PathBuf {
    let Some(root) = cwd.ancestors().find(|dir| dir.join(".git").exists()) else {
        return cwd.to_owned();
    };
    // In a linked work tree `.git` is a file: `gitdir: MAIN/.git/worktrees/NAME`
    // (gitrepository-layout(5)).
    let main = std::fs::read_to_string(root.join(".git")).ok().and_then(|text| {
        let dir = PathBuf::from(text.strip_prefix("gitdir:")?.trim());
        let git = dir.parent().filter(|dir| dir.ends_with("worktrees"))?.parent()?;
        git.ends_with(".git").then(|| git.parent().map(Path::to_owned))?
    });
    main.unwrap_or_else(|| root.to_owned())
}
