//! The remote machine on which a new task runs.

use siding_model::executor::{
    ExecutorSettings, LOCAL_EXECUTOR, RemoteExecutor, SLURM_EXECUTOR, SSH_VARIABLES, SlurmOptions,
};
use siding_model::history::history_directory;
use siding_model::settings::{Executors, Key, SettingSource, Settings};

use super::environment::{BaseEnvironment, NONINTERACTIVE_VARIABLES};
use super::error::RunError;
use super::request::WorkingDirectory;
use super::stdin::TaskStdin;

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
        let builtin = [LOCAL_EXECUTOR, SLURM_EXECUTOR].into_iter();
        let own = executors.names().filter(|name| *name != SLURM_EXECUTOR);
        let known = builtin.chain(own);
        let known: Vec<String> = known.map(|one| format!("`{one}`")).collect();
        Self { name: name.to_owned(), known: known.join(", ") }
    }
}

/// The reason why no executor was chosen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecutorError {
    /// No executor has the requested name.
    #[error(transparent)]
    Unknown(#[from] UnknownExecutor),
    /// The setting `default_executor` names no executor.
    #[error("{place}: `default_executor`: {unknown}")]
    UnknownDefault {
        /// The source of the setting.
        place: SettingSource,
        /// The name, and the known ones.
        unknown: UnknownExecutor,
    },
    /// Options of a job were given for an executor that runs no jobs.
    #[error(
        "`{name}` is no Slurm cluster, so it has no {option}; choose an executor with `kind = \
         \"slurm\"`"
    )]
    NoCluster {
        /// Name of the executor.
        name: String,
        /// The first option that only a cluster has.
        option: &'static str,
    },
}

/// The remote machine that was chosen for a task, with its settings.
#[derive(Debug, Clone)]
pub struct ExecutorChoice {
    name: String,
    settings: ExecutorSettings,
    /// The remote directory to which the project of the working directory was copied, and the rest
    /// of the path below that directory; `None` unless the call requests a copy.
    copied_directory: Option<String>,
}

impl ExecutorChoice {
    /// Chooses the executor with this name, otherwise the default one of the settings. `None` is
    /// this machine. The name of a cluster may be followed by a partition: `slurm:gpu`. The name
    /// `slurm` needs no settings: it is the cluster whose commands are on this machine.
    ///
    /// # Errors
    ///
    /// [`ExecutorError`].
    pub fn find(name: Option<&str>, settings: &Settings) -> Result<Option<Self>, ExecutorError> {
        let is_default = name.is_none();
        let given = name.unwrap_or(&settings.default_executor);
        let (name, partition) = match given.split_once(':') {
            Some((name, partition)) => (name, Some(partition).filter(|one| !one.is_empty())),
            None => (given, None),
        };
        let found = match settings.executor.get(name) {
            Some(found) => found.clone(),
            None if name == LOCAL_EXECUTOR && partition.is_none() => return Ok(None),
            None if name == SLURM_EXECUTOR => ExecutorSettings::local_cluster(),
            None => {
                let unknown = UnknownExecutor::new(given, &settings.executor);
                if !is_default {
                    return Err(unknown.into());
                }
                let place = settings.value_source(Key::DefaultExecutor).clone();
                return Err(ExecutorError::UnknownDefault { place, unknown });
            }
        };
        let choice = Self { name: name.to_owned(), settings: found, copied_directory: None };
        let partition = partition.map(str::to_owned);
        choice.with_job_options(SlurmOptions { partition, ..SlurmOptions::default() }).map(Some)
    }

    /// Adds the options of a call, which take precedence over those of the settings.
    ///
    /// # Errors
    ///
    /// [`ExecutorError::NoCluster`] for options if the executor is no cluster.
    pub fn with_job_options(mut self, options: SlurmOptions) -> Result<Self, ExecutorError> {
        match (self.settings.slurm.take(), options.first_option()) {
            (Some(settings), _) => self.settings.slurm = Some(settings.with_call(options)),
            (None, None) => {}
            (None, Some(option)) => {
                return Err(ExecutorError::NoCluster { name: self.name, option });
            }
        }
        Ok(self)
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

    /// Returns whether the executor is a cluster whose commands are on this machine. Its nodes
    /// share the files of this machine.
    #[must_use]
    pub const fn shares_files(&self) -> bool {
        self.settings.host.is_none()
    }

    /// Returns the settings of the executor.
    #[must_use]
    pub const fn settings(&self) -> &ExecutorSettings {
        &self.settings
    }

    /// Returns the executor as the task records it.
    #[must_use]
    pub fn to_remote(&self) -> RemoteExecutor {
        remote_executor(&self.name, &self.settings)
    }

    /// Returns the remote directory that corresponds to a local one.
    pub(super) fn directory(&self, local: &WorkingDirectory) -> WorkingDirectory {
        let mapped = || self.settings.remote_directory(local.as_str());
        WorkingDirectory::on_remote_machine(self.copied_directory.clone().unwrap_or_else(mapped))
    }

    /// Returns the directory under which the history groups the runs of a command that is started
    /// in a local directory; for `None`, the command runs on this machine.
    #[must_use]
    pub fn history_directory(executor: Option<&Self>, local: &WorkingDirectory) -> String {
        match executor {
            Some(one) => history_directory(Some(&one.name), one.directory(local).as_str()),
            None => history_directory(None, local.as_str()),
        }
    }

    /// Returns the variables that the remote command receives in addition to those of the request:
    /// the local ones that the settings list and, for an agent, those that prevent prompts.
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
}

impl ExecutorChoice {
    /// Rejects a job that reads input from this machine, which may be switched off when the job
    /// starts.
    ///
    /// # Errors
    ///
    /// [`RunError::JobInput`].
    pub(super) fn check_stdin(&self, stdin: &TaskStdin) -> Result<(), RunError> {
        match stdin {
            TaskStdin::Pipe | TaskStdin::Inherit(_) if self.settings.slurm.is_some() => {
                Err(RunError::JobInput { executor: self.name.clone() })
            }
            TaskStdin::Null | TaskStdin::Pipe | TaskStdin::Inherit(_) | TaskStdin::Terminal(_) => {
                Ok(())
            }
        }
    }
}

/// Returns an executor of the settings as a task records it, with the variables of this process
/// that ssh needs.
#[must_use]
pub fn remote_executor(name: &str, settings: &ExecutorSettings) -> RemoteExecutor {
    let known = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
    RemoteExecutor {
        name: name.to_owned(),
        destination: settings.host.clone(),
        program: settings.program.clone(),
        slurm: settings.slurm.clone(),
        ssh_variables: SSH_VARIABLES.iter().filter_map(known).collect(),
    }
}
