//! The remote machine on which `siding run --on` runs a command.

use siding_core::remote::remote_executor;
use siding_core::task::run::request::WorkingDirectory;
use siding_core::task::run::{NONINTERACTIVE_VARIABLES, TaskStdin};
use siding_model::executor::{ExecutorSettings, LOCAL_EXECUTOR, RemoteExecutor};
use siding_model::id::TaskKind;
use siding_model::settings::Settings;

use super::Args;
use crate::cmd::executors::unknown_executor;
use crate::failure::Failure;

/// The remote machine of a command, and what the settings say about it.
#[derive(Debug)]
pub(super) struct ChosenExecutor<'s> {
    name: String,
    settings: &'s ExecutorSettings,
}

/// Returns the executor that `--on` names, otherwise the default one; `None` for this machine.
pub(super) fn choose<'s>(
    args: &Args,
    settings: &'s Settings,
) -> Result<Option<ChosenExecutor<'s>>, Failure> {
    let name = args.on.as_deref().unwrap_or(&settings.default_executor);
    // siding's own programs, such as agents, run on this machine.
    if name == LOCAL_EXECUTOR || args.kind != TaskKind::LocalBash {
        return Ok(None);
    }
    let Some(found) = settings.executor.get(name) else {
        return Err(unknown_executor(name, &settings.executor));
    };
    if args.env_clear {
        return Err(Failure::new("--env-clear cannot be used with --on")
            .with_hint("a remote command gets the variables of its login; set others with --env"));
    }
    Ok(Some(ChosenExecutor { name: name.to_owned(), settings: found }))
}

impl ChosenExecutor<'_> {
    /// Returns the directory of the remote machine for a local one.
    pub(super) fn directory(&self, local: &WorkingDirectory) -> WorkingDirectory {
        WorkingDirectory::on_remote_machine(self.settings.remote_directory(local.as_str()))
    }

    /// Returns the local variables that the settings send to the remote command. For an agent, also
    /// those that keep programs from prompting.
    pub(super) fn sent_variables(&self, is_unattended: bool) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> =
            std::env::vars().filter(|(name, _)| self.settings.sends_variable(name)).collect();
        for (name, value) in NONINTERACTIVE_VARIABLES {
            if is_unattended && !variables.iter().any(|(known, _)| known == name) {
                variables.push((name.to_owned(), value.to_owned()));
            }
        }
        variables
    }

    /// Checks that the command needs no local input, because none is sent.
    pub(super) fn check_stdin(&self, stdin: &TaskStdin) -> Result<(), Failure> {
        match stdin {
            TaskStdin::Null => Ok(()),
            TaskStdin::Pipe | TaskStdin::Inherit(_) => {
                let name = &self.name;
                Err(Failure::new(format!("--on {name}: the standard input is not sent there"))
                    .with_hint("let the command read a file on that machine, or give --stdin null"))
            }
        }
    }

    /// Returns the executor as the task records it.
    pub(super) fn record(self) -> RemoteExecutor {
        remote_executor(&self.name, self.settings)
    }
}
