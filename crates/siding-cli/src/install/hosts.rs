//! The hosts that siding can be installed in, with their files and what siding writes into them.

mod claude_code;
mod codex;
mod gemini;
mod opencode;

use std::path::PathBuf;

use siding_model::session_host::SessionHost;
use siding_model::shell_words::quote_word;

use super::program::SidingProgram;
use super::target::TargetFile;
use crate::failure::Failure;

pub(crate) use self::claude_code::Scope;

/// The directories from which the paths of a host's files are built.
#[derive(Debug, Clone)]
pub(crate) struct BaseDirs {
    pub(crate) home: PathBuf,
    pub(crate) cwd: PathBuf,
}

impl BaseDirs {
    /// Returns the home directory, from `HOME`, and the working directory of this process.
    ///
    /// # Errors
    ///
    /// `HOME` is not an absolute path, or the working directory is unknown.
    pub(crate) fn from_process() -> Result<Self, Failure> {
        let home = absolute_path_variable("HOME").ok_or_else(|| {
            Failure::new("HOME is not set to an absolute path")
                .with_hint("set it to your home directory, where the host's files are")
        })?;
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::new(format!("could not find the working directory: {error}"))
        })?;
        Ok(Self { home, cwd })
    }

    /// Returns the value of an environment variable, if it is an absolute path.
    pub(crate) fn variable_dir(&self, variable: &str) -> Option<PathBuf> {
        absolute_path_variable(variable)
    }

    /// Returns the directory of the user's settings, as the XDG Base Directory Specification
    /// defines it.
    pub(crate) fn config_dir(&self) -> PathBuf {
        self.variable_dir("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config"))
    }
}

fn absolute_path_variable(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// A host that calls hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HookHost {
    /// Claude Code
    ClaudeCode,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
}

impl HookHost {
    /// Returns the prefix of the host's session ids.
    pub(crate) const fn session_prefix(self) -> &'static str {
        let host = match self {
            Self::ClaudeCode => SessionHost::ClaudeCode,
            Self::Codex => SessionHost::Codex,
            Self::Gemini => SessionHost::Gemini,
        };
        host.session_prefix()
    }
}

/// An agent program that siding can be installed in.
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
    /// Returns the host's name for messages.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::Opencode => "opencode",
        }
    }

    /// Returns the host's name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }

    /// Returns whether the host has separate files for each [`Scope`].
    pub(crate) const fn has_scopes(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini | Self::Opencode => false,
        }
    }

    /// Returns the host as a caller of hooks; `None` if it calls none.
    pub(crate) const fn hook_host(self) -> Option<HookHost> {
        match self {
            Self::ClaudeCode => Some(HookHost::ClaudeCode),
            Self::Codex => Some(HookHost::Codex),
            Self::Gemini => Some(HookHost::Gemini),
            Self::Opencode => None,
        }
    }

    /// Returns whether the host calls hooks.
    pub(crate) const fn has_hooks(self) -> bool {
        self.hook_host().is_some()
    }

    /// Returns whether the host's own shell calls can have a budget, because the host moves a call
    /// to the background at the call's timeout.
    pub(crate) const fn has_budget(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini | Self::Opencode => false,
        }
    }

    /// Returns whether the host's shells are adopted through a script that the hook at the start
    /// of a session sets up.
    pub(crate) const fn adopts_by_hook(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini | Self::Opencode => false,
        }
    }

    /// Returns the key of the setting that disables the host's hooks; `None` if siding knows no
    /// such setting.
    pub(crate) const fn disable_hooks_key(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("disableAllHooks"),
            Self::Codex | Self::Gemini | Self::Opencode => None,
        }
    }

    /// Returns the file name of the host's program in the search path.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::Codex | Self::Gemini | Self::Opencode => self.name(),
        }
    }

    /// Returns notes to print after an install, such as remaining manual steps.
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
            "new sessions use it; `siding doctor --host {name}` checks it, `siding uninstall \
             {name}{scope}` removes it"
        ));
        notes
    }

    /// Returns the host's files and their intended contents. `budget` is the budget of the host's
    /// own shell calls, if the host supports one.
    ///
    /// # Errors
    ///
    /// The program's path cannot be written into the host's files.
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

/// Returns the command line of `siding hook` for a host that runs hooks in a shell.
fn hook_command_line(program: &SidingProgram, host: &str, word: &str) -> String {
    format!("{} hook --host {host} {word}", quote_word(&program.path))
}
