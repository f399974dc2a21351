//! The tasks on the machines of executors, as siding there lists them.

use std::process::{ExitCode, Stdio};

use serde_json::Value;
use siding_core::parallel;
use siding_core::remote::{ProgramCopy, ssh};
use siding_core::task::run::{UnknownExecutor, remote_executor};
use siding_model::executor::{ExecutorSettings, LOCAL_EXECUTOR};
use siding_model::text::make_visible;

use super::Args;
use crate::cmd::executors::program_copy;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};

/// The value of `--on` for this machine and every executor of the settings.
const ALL_EXECUTORS: &str = "all";

/// The list of one machine, or the reason why there is none.
type RemoteList = Result<Vec<u8>, String>;

impl Args {
    /// Lists the tasks of the executor `on`, or of this machine and every executor.
    pub(super) fn list_on(&self, on: &str) -> Result<ExitCode, Failure> {
        let settings = context::load_settings()?;
        let wanted: Vec<(&str, &ExecutorSettings)> = match on {
            LOCAL_EXECUTOR => return self.list_local(),
            ALL_EXECUTORS => settings.executor.iter().collect(),
            name => settings.executor.iter().filter(|(known, _)| *known == name).collect(),
        };
        if wanted.is_empty() && on != ALL_EXECUTORS {
            return Err(UnknownExecutor::new(on, &settings.executor).into());
        }
        let copy = program_copy(&settings.executor)?;
        let lists = parallel::map(&wanted, parallel::MAX_WAITING_THREADS, |(name, executor)| {
            self.fetch_list(name, executor, copy.as_ref())
        });
        let lists: Vec<(&str, RemoteList)> =
            wanted.iter().map(|(name, _)| *name).zip(lists).collect();
        let is_complete = lists.iter().all(|(_, list)| list.is_ok());
        for (name, list) in &lists {
            if let Err(why) = list {
                Failure::new(format!("{name}: {why}")).report();
            }
        }
        let lists = lists.into_iter().filter_map(|(name, list)| Some((name, list.ok()?)));
        let local = if self.json {
            self.print_json_lists(on == ALL_EXECUTORS, lists)?
        } else {
            self.print_text_lists(on == ALL_EXECUTORS, lists)?
        };
        Ok(if is_complete { local } else { ExitCode::from(exit::SIDING_FAILED) })
    }

    /// Runs `siding ps` with the same options on another machine.
    fn fetch_list(
        &self,
        name: &str,
        executor: &ExecutorSettings,
        copy: Option<&ProgramCopy>,
    ) -> RemoteList {
        let session = self.session.as_ref().map(|session| format!("--session={session}"));
        let mut arguments = vec!["ps"];
        arguments.extend(self.all.then_some("--all"));
        arguments.extend(self.running.then_some("--running"));
        arguments.extend(self.json.then_some("--json"));
        arguments.extend(session.as_deref());
        let executor = remote_executor(name, executor);
        let mut command = ssh::siding_command(&executor, copy, &arguments);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("could not start `ssh`: {error}"))?;
        if output.stdout.starts_with(b"{\"say\":\"missing\"") {
            // No task has been sent there yet.
            return Ok(if self.json { b"[]".to_vec() } else { Vec::new() });
        }
        if output.status.success() {
            return Ok(output.stdout);
        }
        Err(ssh::last_message(&output.stderr).unwrap_or_else(|| output.status.to_string()))
    }

    /// Prints one JSON list of the tasks of all machines. Returns the exit code of the local list.
    fn print_json_lists<'n>(
        &self,
        has_local: bool,
        lists: impl Iterator<Item = (&'n str, Vec<u8>)>,
    ) -> Result<ExitCode, Failure> {
        let (mut elements, code) =
            if has_local { self.local_json_elements()? } else { (Vec::new(), ExitCode::SUCCESS) };
        for (name, list) in lists {
            let tasks: Vec<Value> = serde_json::from_slice(&list)
                .map_err(|error| Failure::new(format!("{name}: not a list of tasks: {error}")))?;
            for mut task in tasks {
                if let Some(executor) = task.get_mut("executor").filter(|known| known.is_null()) {
                    *executor = Value::from(name);
                }
                elements.push(render::json::to_list_element(&task));
            }
        }
        render::json::print_list(elements)?;
        Ok(code)
    }

    /// Prints the lists below each other. Returns the exit code of the local list.
    fn print_text_lists<'n>(
        &self,
        has_local: bool,
        lists: impl Iterator<Item = (&'n str, Vec<u8>)>,
    ) -> Result<ExitCode, Failure> {
        let mut code = ExitCode::SUCCESS;
        if has_local {
            out::print(&format!("{LOCAL_EXECUTOR}:\n"))?;
            code = self.list_local()?;
        }
        for (name, list) in lists {
            let text = String::from_utf8_lossy(&list);
            let text = if text.is_empty() { "no tasks" } else { &*text };
            // The text comes from another machine.
            let lines: String = text.lines().map(|line| make_visible(line) + "\n").collect();
            out::print(&format!("{name}:\n{lines}"))?;
        }
        Ok(code)
    }
}
