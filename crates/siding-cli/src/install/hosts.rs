//! The hosts that siding can be installed in: which files they have, and what goes where.

mod claude_code;
mod codex;
mod gemini;
mod opencode;

use std::path::PathBuf;

use super::program::{SidingProgram, shell_quote};
use super::target::TargetFile;
use crate::failure::Failure;

pub(crate) use self::claude_code::Scope;

/// Where files are looked for.
#[derive(Debug, Clone)]
pub(crate) struct BaseDirs {
    /// The user's home.
    pub(crate) home: PathBuf,
    /// The working directory.
    pub(crate) cwd: PathBuf,
}

impl BaseDirs {
    /// Returns those of this process.
    ///
    /// # Errors
    ///
    /// When there is no home or no working directory.
    pub(crate) fn from_process() -> Result<Self, Failure> {
        let home = absolute_path_variable("HOME").ok_or_else(|| {
            Failure::new("HOME is not set to an absolute path")
                .with_hint("set it to your home directory: the host's files are found by it")
        })?;
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::new(format!("could not find the working directory: {error}"))
        })?;
        Ok(Self { home, cwd })
    }

    /// Returns the directory that a variable names.
    pub(crate) fn variable_dir(&self, variable: &str) -> Option<PathBuf> {
        absolute_path_variable(variable)
    }

    /// Returns the directory of the user's settings, by the XDG specification.
    pub(crate) fn config_dir(&self) -> PathBuf {
        self.variable_dir("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
    }
}

fn absolute_path_variable(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// An agent program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Host {
    /// Claude Code: hooks, MCP server
    ClaudeCode,
    /// Codex: hooks, MCP server, BASH_ENV
    Codex,
    /// Gemini CLI: hooks, MCP server
    Gemini,
    /// opencode: MCP server
    Opencode,
}

impl Host {
    /// Returns its name as a person writes it.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
        }
    }

    /// Returns its name as an argument.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Returns whether there is a choice whose settings are changed.
    pub(crate) const fn has_scopes(self) -> bool {
        matches!(self, Self::ClaudeCode)
    }

    /// Returns whether it calls hooks.
    pub(crate) const fn has_hooks(self) -> bool {
        !matches!(self, Self::Opencode)
    }

    /// Returns whether its own shell calls can have a budget: it moves a call to the background at the
    /// call's timeout.
    pub(crate) const fn has_budget(self) -> bool {
        matches!(self, Self::ClaudeCode)
    }

    /// Returns whether its first hook has its shells adopted.
    pub(crate) const fn adopts_by_hook(self) -> bool {
        matches!(self, Self::ClaudeCode)
    }

    /// Returns the setting that switches its hooks off.
    pub(crate) const fn disable_hooks_key(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("disableAllHooks"),
            Self::Codex | Self::Gemini | Self::Opencode => None,
        }
    }

    /// Returns the name of its program.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex | Self::Gemini | Self::Opencode => self.name(),
        }
    }

    /// Returns what a person should know or do beside an install.
    pub(crate) fn notes(
        self,
        places: &BaseDirs,
        scope: Scope,
        program: &SidingProgram,
    ) -> Vec<String> {
        let mut notes = match self {
            Self::ClaudeCode => claude_code::notes(scope, program),
            Self::Codex => codex::notes(places),
            Self::Gemini => Vec::new(),
            Self::Opencode => opencode::notes(),
        };
        let name = self.name();
        let scope = if self.has_scopes() { scope.flag() } else { "" };
        notes.push(format!(
            "new sessions have it; `siding doctor --host {name}` checks it, `siding uninstall \
             {name}{scope}` takes it out"
        ));
        notes
    }

    /// Returns its files, and what is to be in them. `budget` is that of the host's own shell calls,
    /// where the host has one.
    ///
    /// # Errors
    ///
    /// When the program's path is none that a shell could be told.
    pub(crate) fn targets(
        self,
        places: &BaseDirs,
        scope: Scope,
        program: &SidingProgram,
        budget: Option<&str>,
    ) -> Result<Vec<TargetFile>, Failure> {
        match self {
            Self::ClaudeCode => Ok(claude_code::targets(places, scope, program, budget)),
            Self::Codex => codex::targets(places, program),
            Self::Gemini => Ok(gemini::targets(places, program)),
            Self::Opencode => Ok(opencode::targets(places, program)),
        }
    }
}

/// Returns the line by which a host that uses a shell calls `siding hook`.
fn hook_command_line(program: &SidingProgram, host: &str, word: &str) -> String {
    format!("{} hook --host {host} {word}", shell_quote(&program.path))
}
