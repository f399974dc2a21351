//! The remote machine on which a new task runs.

use std::path::{Path, PathBuf};

use siding_model::executor::{ExecutorSettings, LOCAL_EXECUTOR, RemoteExecutor, SSH_VARIABLES};
use siding_model::settings::{Executors, Settings};

use super::environment::{BaseEnvironment, NONINTERACTIVE_VARIABLES};
use super::error::RunError;
use super::request::WorkingDirectory;
use super::stdin::TaskStdin;
use crate::remote::{SyncError, SyncPlan};

/// No executor of the settings has the requested name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no executor has the name `{name}`; the known names are: {known}")]
pub struct UnknownExecutor {
    name: String,
    known: String,
}

impl UnknownExecutor {
    /// Creates the error for a name that is not in the settings.
    #[must_use]
    pub fn new(name: &str, executors: &Executors) -> Self {
        let known = std::iter::once(LOCAL_EXECUTOR).chain(executors.names());
        let known: Vec<String> = known.map(|one| format!("`{one}`")).collect();
        Self { name: name.to_owned(), known: known.join(", ") }
    }
}

/// The remote machine that was chosen for a task, and what the settings say about it.
#[derive(Debug, Clone)]
pub struct ExecutorChoice {
    name: String,
    settings: ExecutorSettings,
    /// The remote directory to which the project of the working directory was copied, with the part
    /// of the path below it; `None` unless the call requests a copy.
    copied_directory: Option<String>,
}

impl ExecutorChoice {
    /// Chooses the executor with this name, otherwise the default one of the settings. `None` is
    /// this machine.
    ///
    /// # Errors
    ///
    /// [`UnknownExecutor`].
    pub fn find(name: Option<&str>, settings: &Settings) -> Result<Option<Self>, UnknownExecutor> {
        let name = name.unwrap_or(&settings.default_executor);
        if name == LOCAL_EXECUTOR {
            return Ok(None);
        }
        let found = settings.executor.get(name);
        let found = found.ok_or_else(|| UnknownExecutor::new(name, &settings.executor))?;
        let (name, settings) = (name.to_owned(), found.clone());
        Ok(Some(Self { name, settings, copied_directory: None }))
    }

    /// Lists the files of the project that contains the working directory, to copy them to the
    /// machine. `extra` are paths to be copied in addition, relative to that directory.
    ///
    /// # Errors
    ///
    /// [`SyncError`].
    pub fn plan_sync(
        &self,
        local: &WorkingDirectory,
        extra: &[PathBuf],
    ) -> Result<SyncPlan, SyncError> {
        SyncPlan::new(self.to_remote(), &self.settings, Path::new(local.as_str()), extra)
    }

    /// Sets the working directory on the machine, to which the project was copied.
    #[must_use]
    pub fn in_directory(self, directory: String) -> Self {
        Self { copied_directory: Some(directory), ..self }
    }

    /// Returns the name of the executor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the executor as the task records it.
    pub(super) fn to_remote(&self) -> RemoteExecutor {
        remote_executor(&self.name, &self.settings)
    }

    /// Returns the directory of the remote machine for a local one.
    pub(super) fn directory(&self, local: &WorkingDirectory) -> WorkingDirectory {
        let mapped = || self.settings.remote_directory(local.as_str());
        WorkingDirectory::on_remote_machine(self.copied_directory.clone().unwrap_or_else(mapped))
    }

    /// Returns the variables that the remote command receives besides those of the request: the
    /// local ones that the settings list and, for an agent, those that keep programs from
    /// prompting.
    ///
    /// # Errors
    ///
    /// [`RunError::RemoteEnvironment`] for a request without the variables of a login.
    pub(super) fn sent_variables(
        &self,
        base: BaseEnvironment,
    ) -> Result<Vec<(String, String)>, RunError> {
        let sent = |(name, _): &(String, String)| self.settings.sends_variable(name);
        let mut variables: Vec<(String, String)> = std::env::vars().filter(sent).collect();
        match base {
            BaseEnvironment::Inherited => {}
            BaseEnvironment::Unattended => {
                for (name, value) in NONINTERACTIVE_VARIABLES {
                    if !variables.iter().any(|(known, _)| known == name) {
                        variables.push((name.to_owned(), value.to_owned()));
                    }
                }
            }
            BaseEnvironment::Empty => {
                return Err(RunError::RemoteEnvironment { executor: self.name.clone() });
            }
        }
        Ok(variables)
    }

    /// Checks that the command needs no local input, because none is sent.
    ///
    /// # Errors
    ///
    /// [`RunError::RemoteInput`].
    pub(super) fn check_stdin(&self, stdin: &TaskStdin) -> Result<(), RunError> {
        match stdin {
            TaskStdin::Null => Ok(()),
            TaskStdin::Pipe | TaskStdin::Inherit(_) => {
                Err(RunError::RemoteInput { executor: self.name.clone() })
            }
        }
    }
}

/// Returns an executor of the settings as a task records it, with the variables of this process that
/// ssh needs.
#[must_use]
pub fn remote_executor(name: &str, settings: &ExecutorSettings) -> RemoteExecutor {
    let known = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    RemoteExecutor {
        name: name.to_owned(),
        destination: settings.host.clone(),
        program: settings.program.clone(),
        ssh_variables: SSH_VARIABLES.iter().filter_map(known).collect(),
    }
}
