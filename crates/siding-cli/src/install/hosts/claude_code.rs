//! Claude Code: its hooks, and where it has its files.
//!
//! As 2.1.197 does it, tried with that version: a settings file with a comment or a trailing comma
//! is ignored as a whole; `args` beside `command` makes a call without a shell; MCP servers are in
//! `.claude.json` in the home or `CLAUDE_CONFIG_DIR`, those of one person in one project under the
//! repository's root, those of a project in `.mcp.json`.

use std::path::{Path, PathBuf};

use super::Places;
use crate::install::hooks::Entry;
use crate::install::json::Dialect;
use crate::install::program::{BUDGET_FLAG, Program};
use crate::install::target::{Content, StatusLine, Target};
use crate::install::tree::Tree;

/// Whose settings are changed.
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
    /// Yours, in all projects
    #[default]
    User,
    /// Everybody's in this project; files that are checked in
    Project,
    /// Yours in this project
    Local,
}

impl Scope {
    /// Every scope, the widest first.
    pub(crate) const ALL: [Self; 3] = [Self::User, Self::Project, Self::Local];

    /// Returns the flag for it, with a blank before; none for the one that is meant without.
    pub(crate) const fn flag(self) -> &'static str {
        match self {
            Self::User => "",
            Self::Project => " --scope project",
            Self::Local => " --scope local",
        }
    }

    /// Returns whose settings those are.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::User => "for you in all projects",
            Self::Project => "for everybody in this project",
            Self::Local => "for you in this project",
        }
    }
}

/// One row of the table below.
struct Row {
    event: &'static str,
    matcher: Option<&'static str>,
    word: &'static str,
    /// Seconds after which the host gives up.
    timeout: u64,
    /// Whether it runs beside the session and wakes it by exit code 2.
    wakes: bool,
}

const fn row(event: &'static str, matcher: Option<&'static str>, word: &'static str) -> Row {
    Row { event, matcher, word, timeout: 5, wakes: false }
}

/// Tools that run commands.
const TOOLS: Option<&str> = Some("Bash|Monitor|mcp__siding__run");
/// The tool whose calls are looked after.
const BASH: Option<&str> = Some("Bash");
/// Eight hours: longer than a person leaves a session alone in which something runs.
const WAITER: u64 = 28_800;

/// Every entry that siding has there, and the only place that lists them.
const ROWS: [Row; 10] = [
    Row { timeout: 10, ..row("SessionStart", None, "session-start") },
    row("UserPromptSubmit", None, "user-prompt-submit"),
    row("PreToolUse", TOOLS, "pre-tool-use"),
    row("PostToolUse", BASH, "post-tool-use"),
    Row { timeout: WAITER, wakes: true, ..row("PostToolUse", BASH, "await-notice") },
    row("PostToolUseFailure", BASH, "post-tool-use-failure"),
    row("PostToolBatch", None, "post-tool-batch"),
    row("Stop", None, "stop"),
    Row { timeout: WAITER, wakes: true, ..row("Stop", None, "await-notice") },
    // The host shortens all of them to 1.5 s unless a settings file says more.
    Row { timeout: 10, ..row("SessionEnd", None, "session-end") },
];

/// Events at which the budget of foreground calls is set, and told.
const BUDGET_WORDS: [&str; 2] = ["pre-tool-use", "post-tool-use"];

/// Returns the hook entries that call `program`, those that need the budget with it.
fn entries(program: &str, budget: Option<&str>) -> Vec<Entry> {
    ROWS.iter()
        .map(|row| {
            let budget = budget.filter(|_| BUDGET_WORDS.contains(&row.word));
            let budget = budget.into_iter().flat_map(|budget| [BUDGET_FLAG, budget]);
            let args = ["hook"].into_iter().chain(budget).chain([row.word]);
            let mut handler = vec![
                ("type".to_owned(), Tree::text("command")),
                ("command".to_owned(), Tree::text(program)),
                ("args".to_owned(), Tree::texts(args)),
            ];
            if row.wakes {
                // Without the first, 2.1.197 waits for it where nobody is idle (`claude -p`).
                handler.push(("async".to_owned(), Tree::Flag(true)));
                handler.push(("asyncRewake".to_owned(), Tree::Flag(true)));
            }
            handler.push(("timeout".to_owned(), Tree::Number(row.timeout)));
            let handler = Tree::Map(handler);
            Entry { event: row.event, matcher: row.matcher, word: row.word, handler }
        })
        .collect()
}

/// Returns the server's entry as `claude mcp add` writes it.
fn server(program: &str) -> Tree {
    Tree::map([
        ("type", Tree::text("stdio")),
        ("command", Tree::text(program)),
        ("args", Tree::texts(["mcp"])),
        ("env", Tree::Map(Vec::new())),
    ])
}

/// Returns the files, the settings first.
pub(super) fn targets(
    places: &Places,
    scope: Scope,
    program: &Program,
    budget: Option<&str>,
) -> Vec<Target> {
    let (settings, servers, keys): (PathBuf, PathBuf, Vec<String>) = match scope {
        Scope::User => {
            (config(places).join("settings.json"), state(places), vec!["mcpServers".to_owned()])
        }
        Scope::Project => {
            let dir = places.cwd.join(".claude");
            let keys = vec!["mcpServers".to_owned()];
            (dir.join("settings.json"), places.cwd.join(".mcp.json"), keys)
        }
        Scope::Local => {
            let root = repository(&places.cwd).display().to_string();
            let keys = ["projects".to_owned(), root, "mcpServers".to_owned()];
            let dir = places.cwd.join(".claude");
            (dir.join("settings.local.json"), state(places), keys.to_vec())
        }
    };
    let path = if scope == Scope::Project { program.shared() } else { &program.path };
    let json = |hooks, server, status_line| Content::Json {
        dialect: Dialect::Strict,
        hooks,
        server,
        status_line,
    };
    let line = StatusLine { program: path.to_owned(), asked: false };
    let server = Some((keys, server(path)));
    vec![
        Target { path: settings, content: json(entries(path, budget), None, Some(line)) },
        Target { path: servers, content: json(Vec::new(), server, None) },
    ]
}

/// Returns what a person should know beside.
pub(super) fn notes(scope: Scope, program: &Program) -> Vec<String> {
    let mut notes = Vec::new();
    if scope == Scope::Project {
        notes.push("Claude Code asks each person once whether to start this server".to_owned());
    }
    if scope == Scope::Project && !program.on_path {
        notes.push(format!(
            "these files are for everybody, and they name `{}`, since no `siding` in the search \
             path is this one; put siding there and install again",
            program.path
        ));
    }
    notes
}

/// Returns the directory of the user's settings.
fn config(places: &Places) -> PathBuf {
    places.set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| places.home.join(".claude"))
}

/// Returns the file in which the host keeps what it knows.
fn state(places: &Places) -> PathBuf {
    places.set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| places.home.clone()).join(".claude.json")
}

/// Returns the directory by which the host knows a project: the root of its repository, that of
/// the main one for a work tree beside it.
fn repository(cwd: &Path) -> PathBuf {
    let Some(root) = cwd.ancestors().find(|dir| dir.join(".git").exists()) else {
        return cwd.to_owned();
    };
    // In a work tree `.git` is a file: `gitdir: MAIN/.git/worktrees/NAME` (gitrepository-layout(5)).
    let main = std::fs::read_to_string(root.join(".git")).ok().and_then(|text| {
        let dir = PathBuf::from(text.strip_prefix("gitdir:")?.trim());
        let git = dir.parent().filter(|dir| dir.ends_with("worktrees"))?.parent()?;
        git.ends_with(".git").then(|| git.parent().map(Path::to_owned))?
    });
    main.unwrap_or_else(|| root.to_owned())
}
