//! Lists the tasks on the machines of executors, as the siding on each machine reports them.

use std::process::{ExitCode, Output, Stdio};

use serde::de::IgnoredAny;
use serde_json::Value;
use siding_core::parallel;
use siding_core::remote::{ProgramCopy, ssh};
use siding_core::task::run::{UnknownExecutor, remote_executor};
use siding_model::executor::{ExecutorSettings, LOCAL_EXECUTOR, SLURM_EXECUTOR};
use siding_model::remote::RemoteMessage;
use siding_model::text::make_visible;

use super::Args;
use crate::cmd::executors::program_copy;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};

/// The value of `--on` for this machine and every executor of the settings.
const ALL_EXECUTORS: &str = "all";

/// The list of one machine.
#[derive(Debug, PartialEq, Eq)]
struct RemoteList {
    /// The list that the remote siding has printed; `None` if there is none.
    tasks: Option<Vec<u8>>,
    /// The reason why the list is missing or incomplete.
    error: Option<String>,
}

impl RemoteList {
    /// Returns the list from the output of ssh. The remote siding may have listed some tasks and
    /// failed to read others.
    fn from_output(output: &Output, is_json: bool) -> Self {
        let answer = ssh::answer(&output.stdout);
        if let Ok(RemoteMessage::Missing { .. }) = serde_json::from_slice(answer) {
            // No task has yet been sent to this machine.
            let tasks = Some(if is_json { b"[]".to_vec() } else { Vec::new() });
            return Self { tasks, error: None };
        }
        let has_succeeded = output.status.success();
        let is_list = if is_json {
            serde_json::from_slice::<Vec<IgnoredAny>>(answer).is_ok()
        } else {
            has_succeeded || !answer.is_empty()
        };
        let error = if has_succeeded {
            (!is_list).then(|| "siding there has printed no list of tasks".to_owned())
        } else {
            let message = ssh::last_message(&output.stderr);
            Some(message.unwrap_or_else(|| output.status.to_string()))
        };
        Self { tasks: is_list.then(|| answer.to_vec()), error }
    }
}

impl Args {
    /// Lists the tasks of the executor `on`, or of this machine and every executor.
    pub(super) fn list_on(&self, on: &str) -> Result<ExitCode, Failure> {
        let settings = context::load_settings()?;
        let is_local = |executor: &ExecutorSettings| executor.host.is_none();
        let wanted: Vec<(&str, &ExecutorSettings)> = match on {
            LOCAL_EXECUTOR => return self.list_local(),
            // The list of this machine contains the tasks that it has submitted to a cluster.
            ALL_EXECUTORS => {
                settings.executor.iter().filter(|(_, executor)| !is_local(executor)).collect()
            }
            name if settings.executor.get(name).is_some_and(is_local) => return self.list_local(),
            SLURM_EXECUTOR if settings.executor.get(on).is_none() => return self.list_local(),
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
        let mut is_complete = true;
        for (name, list) in &lists {
            if let Some(why) = &list.error {
                is_complete = false;
                Failure::new(format!("{name}: {why}")).report();
            }
        }
        let lists = lists.into_iter().filter_map(|(name, list)| Some((name, list.tasks?)));
        let local = if self.json {
            self.print_json_lists(on == ALL_EXECUTORS, lists)?
        } else {
            self.print_text_lists(on == ALL_EXECUTORS, lists)?
        };
        Ok(if is_complete { local } else { ExitCode::from(exit::SIDING_FAILED) })
    }

    /// Returns the cluster to which the list is limited; `None` if the list contains
    /// the tasks of all executors.
    pub(super) fn local_cluster(&self) -> Option<&str> {
        self.on.as_deref().filter(|on| ![LOCAL_EXECUTOR, ALL_EXECUTORS].contains(on))
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
        let mut command = ssh::query_command(&executor, copy, &arguments);
        match command.stdin(Stdio::null()).output() {
            Ok(output) => RemoteList::from_output(&output, self.json),
            Err(error) => {
                RemoteList { tasks: None, error: Some(format!("could not start `ssh`: {error}")) }
            }
        }
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

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    /// Returns the list from ssh's output, exit code and message.
    fn list(stdout: &str, code: i32, is_json: bool) -> (Option<String>, Option<String>) {
        let output = Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: stdout.as_bytes().to_vec(),
            stderr: b"siding: task b-x: damaged\n".to_vec(),
        };
        let RemoteList { tasks, error } = RemoteList::from_output(&output, is_json);
        (tasks.map(|tasks| String::from_utf8(tasks).expect("UTF-8")), error)
    }

    #[test]
    fn an_incomplete_list_is_kept_with_its_error() {
        let why = Some("siding: task b-x: damaged".to_owned());
        let some = |text: &str| Some(text.to_owned());
        let text = "Welcome!\nsiding-answer\nb-y  running\n";
        assert_eq!(list(text, 0, false), (some("b-y  running\n"), None));
        assert_eq!(list(text, 125, false), (some("b-y  running\n"), why.clone()));
        let json = "[Welcome]\nsiding-answer\n[{}]\n";
        assert_eq!(list(json, 125, true), (some("[{}]\n"), why.clone()));
        // The connection broke.
        assert_eq!(list("siding-answer\n[{", 255, true), (None, why.clone()));
        assert_eq!(list("", 255, false), (None, why));
        assert!(list("siding-answer\nno list", 0, true).1.is_some());
    }

    #[test]
    fn a_machine_without_siding_has_an_empty_list() {
        let missing = "Welcome!\nsiding-answer\n{\"say\":\"missing\",\"processor\":\"x86_64\"}\n";
        assert_eq!(list(missing, 0, true), (Some("[]".to_owned()), None));
        assert_eq!(list(missing, 0, false), (Some(String::new()), None));
    }
}
