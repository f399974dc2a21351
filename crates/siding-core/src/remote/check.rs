//! Checks whether a remote machine is reachable, and which guarantees siding can give there.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use siding_model::executor::{ExecutorSettings, RemoteExecutor};
use siding_model::remote::{
    MessageDecoder, REMOTE_PROTOCOL, ReceivedMessage, RemoteMessage, missing_program_reason,
};
use siding_model::text::one_line;

use super::program::ProgramCopy;
use super::slurm::slurm_command;
use super::ssh;
use crate::sys::file;

/// Maximum width of the text about a weaker guarantee or a missing file, in columns.
const WEAKER_COLUMNS: usize = 200;

/// The result of checking an executor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutorCheck {
    /// Whether ssh could connect and, for a cluster, the controller answered.
    pub reachable: bool,
    /// Hostname of the machine, or name of the cluster; `None` if unknown.
    pub machine: Option<String>,
    /// Version of siding on the machine; `None` if siding cannot run there.
    pub version: Option<String>,
    /// Failed checks of `siding doctor` on the machine that make a guarantee weaker, each with its
    /// result.
    pub weaker: Vec<String>,
    /// Files that the settings name but the machine does not have, each after its key.
    pub missing: Vec<String>,
    /// The reason why tasks cannot run on the machine; `None` if they can.
    pub error: Option<String>,
}

/// Connects to the machine of an executor, and queries the version and the checks of siding there.
/// `executor` must have these `settings`.
#[must_use]
pub fn check(
    executor: &RemoteExecutor,
    settings: &ExecutorSettings,
    copy: Option<&ProgramCopy>,
) -> ExecutorCheck {
    let mut result = ExecutorCheck::default();
    if executor.destination.is_none() {
        check_cluster(&mut result, executor);
        result.missing = missing_local_files(settings);
        result.version = result.reachable.then(|| env!("CARGO_PKG_VERSION").to_owned());
        return result;
    }
    match run(ssh::serve_command(executor, copy).stdin(Stdio::null())) {
        Ok(output) => describe_first_message(&mut result, executor, &output),
        Err(error) => result.error = Some(error),
    }
    if result.reachable {
        result.missing = missing_remote_directories(executor, settings);
    }
    if result.version.is_some() {
        let mut doctor = ssh::query_command(executor, copy, &["doctor", "--json"]);
        match run(doctor.stdin(Stdio::null())) {
            Ok(output) => result.weaker = weaker_features(ssh::answer(&output)),
            Err(error) => result.error = Some(error),
        }
    }
    if executor.slurm.is_some() && result.reachable {
        check_cluster(&mut result, executor);
    }
    result
}

/// Returns the configured directory for the records of a cluster's jobs, with its key.
fn shared_directory(settings: &ExecutorSettings) -> Option<(&'static str, &str)> {
    let directory = settings.slurm.as_ref()?.directory.as_deref()?;
    Some(("directory", directory))
}

/// Returns the configured files that do not exist on this machine, whose files the nodes of the
/// cluster share. The directories of `paths` are on the nodes and are not checked.
fn missing_local_files(settings: &ExecutorSettings) -> Vec<String> {
    let directory = shared_directory(settings).filter(|(_, path)| !Path::new(path).is_dir());
    // The node searches its PATH for a name without a directory.
    let is_missing = |path: &&str| path.contains('/') && !file::is_program(Path::new(path));
    let program = settings.program.as_deref().filter(is_missing);
    let directory = directory.map(|(key, path)| describe_missing(key, path, "directory"));
    let program = program.map(|path| describe_missing("program", path, "program"));
    directory.into_iter().chain(program).collect()
}

/// Returns the configured directories that do not exist on the machine that ssh reaches. Returns
/// none if ssh fails, which the other checks report.
fn missing_remote_directories(
    executor: &RemoteExecutor,
    settings: &ExecutorSettings,
) -> Vec<String> {
    let mapped = settings.paths.values().map(|path| ("paths", path.as_str()));
    let directories: Vec<_> = mapped.chain(shared_directory(settings)).collect();
    if directories.is_empty() {
        return Vec::new();
    }
    let paths: Vec<&str> = directories.iter().map(|(_, path)| *path).collect();
    let mut command = ssh::missing_directories_command(executor, &paths);
    let Ok(output) = run(command.stdin(Stdio::null())) else { return Vec::new() };
    let answer = String::from_utf8_lossy(ssh::answer(&output)).into_owned();
    let positions = answer.lines().filter_map(|line| line.parse::<usize>().ok());
    let missing = positions.filter_map(|position| directories.get(position));
    missing.map(|(key, path)| describe_missing(key, path, "directory")).collect()
}

fn describe_missing(key: &str, path: &str, kind: &str) -> String {
    one_line(&format!("{key}: there is no {kind} `{path}`"), WEAKER_COLUMNS)
}

/// Queries the controller of a Slurm cluster for its configuration, with Slurm's commands on this
/// machine or on the machine that ssh reaches.
fn check_cluster(result: &mut ExecutorCheck, executor: &RemoteExecutor) {
    const SHOW_CONFIG: [&str; 2] = ["show", "config"];
    let output = if executor.destination.is_some() {
        run(ssh::remote_command(executor, "exec scontrol show config").stdin(Stdio::null()))
    } else {
        run(slurm_command("scontrol").args(SHOW_CONFIG).envs(executor.variables()))
    };
    match output {
        Ok(output) => describe_cluster(result, &String::from_utf8_lossy(&output)),
        Err(error) => (result.reachable, result.error) = (false, Some(error)),
    }
}

fn describe_cluster(result: &mut ExecutorCheck, config: &str) {
    let value = |name: &str| {
        config.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    result.reachable = true;
    result.machine = value("ClusterName");
    if value("AccountingStorageType").is_none_or(|kind| kind.ends_with("none")) {
        let age = value("MinJobAge").unwrap_or_else(|| "a short time".to_owned());
        result.weaker.push(format!(
            "accounting: off, so Slurm knows the end of a job only for {age}; siding's own record of \
             the end does not need it"
        ));
    }
    if value("ProctrackType").is_some_and(|kind| !kind.ends_with("cgroup")) {
        result.weaker.push(
            "ProctrackType: not by control groups, so a process that leaves its parent survives \
             SIGKILL to its job"
                .to_owned(),
        );
    }
}

/// Runs ssh. Returns its output, or its last message if it failed.
fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|error| format!("could not start `{program}`: {error}"))?;
    // `siding doctor` exits with a code other than 0 if a guarantee is weaker.
    if output.status.success() || !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    Err(ssh::last_message(&output.stderr).unwrap_or_else(|| output.status.to_string()))
}

fn describe_first_message(result: &mut ExecutorCheck, executor: &RemoteExecutor, output: &[u8]) {
    result.reachable = true;
    let mut decoder = MessageDecoder::default();
    decoder.push(output);
    match decoder.next_message() {
        Ok(Some(ReceivedMessage::Message(RemoteMessage::Hello {
            protocol,
            version,
            machine,
            ..
        }))) => {
            if protocol != REMOTE_PROTOCOL {
                result.error =
                    Some(format!("siding {version} there is not compatible with this one"));
            }
            (result.version, result.machine) = (Some(version), Some(machine));
        }
        Ok(Some(ReceivedMessage::Message(RemoteMessage::Missing { processor }))) => {
            let processors = (processor.as_str(), std::env::consts::ARCH);
            let program = executor.program.as_deref();
            result.error = missing_program_reason(&executor.name, program, processors);
        }
        Ok(_) => result.error = Some("siding does not answer there".to_owned()),
        Err(error) => result.error = Some(error.to_string()),
    }
}

/// Returns the checks of `siding doctor --json` that weaken a guarantee.
fn weaker_features(output: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Report {
        checks: Vec<RemoteCheck>,
    }
    #[derive(Deserialize)]
    struct RemoteCheck {
        name: String,
        state: String,
        weight: String,
        found: String,
    }
    let Ok(report) = serde_json::from_slice::<Report>(output) else { return Vec::new() };
    let weakens = |check: &RemoteCheck| check.state != "ok" && check.weight != "comfort";
    let checks = report.checks.into_iter().filter(weakens);
    checks
        .map(|check| one_line(&format!("{}: {}", check.name, check.found), WEAKER_COLUMNS))
        .collect()
}

#[cfg(test)]
mod tests {
    use siding_model::executor::SlurmOptions;

    use super::*;

    #[test]
    fn a_cluster_without_accounting_is_weaker() {
        let mut result = ExecutorCheck::default();
        let config = "Configuration data as of now\n\
            AccountingStorageType   = accounting_storage/none\n\
            ClusterName             = lab\n\
            MinJobAge               = 300 sec\n\
            ProctrackType           = proctrack/cgroup\n";
        describe_cluster(&mut result, config);
        assert_eq!(result.machine.as_deref(), Some("lab"));
        let [weaker] = &result.weaker[..] else { panic!("{result:?}") };
        assert!(weaker.contains("300 sec"), "{weaker}");
    }

    fn executor(program: Option<&str>) -> RemoteExecutor {
        RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("me@build".to_owned()),
            program: program.map(str::to_owned),
            slurm: None,
            ssh_variables: Vec::new(),
        }
    }

    fn described(executor: &RemoteExecutor, message: &RemoteMessage) -> ExecutorCheck {
        let mut result = ExecutorCheck::default();
        let mut line = serde_json::to_vec(message).expect("a message is JSON");
        line.push(b'\n');
        describe_first_message(&mut result, executor, &line);
        result
    }

    #[test]
    fn a_machine_without_siding_is_usable_if_its_processor_fits() {
        let processor = std::env::consts::ARCH.to_owned();
        let missing = RemoteMessage::Missing { processor };
        let fits = described(&executor(None), &missing);
        assert!(fits.reachable && fits.error.is_none(), "{fits:?}");
        let other = RemoteMessage::Missing { processor: "vax".to_owned() };
        let other = described(&executor(None), &other);
        assert!(other.error.is_some_and(|error| error.contains("vax")));
        let configured = described(&executor(Some("/opt/siding")), &missing);
        let error = configured.error.expect("siding does not replace an installed program");
        assert!(error.contains("there is no program `/opt/siding`"), "{error}");
    }

    #[test]
    fn files_of_a_cluster_are_searched_on_this_machine() {
        let slurm = |directory: &str| SlurmOptions {
            directory: Some(directory.to_owned()),
            ..SlurmOptions::default()
        };
        let cluster = |directory: &str, program: &str| ExecutorSettings {
            slurm: Some(slurm(directory)),
            program: Some(program.to_owned()),
            ..ExecutorSettings::local_cluster()
        };
        assert!(missing_local_files(&cluster("/", "/bin/sh")).is_empty());
        assert_eq!(
            missing_local_files(&cluster("/no/such", "/no/siding")),
            [
                "directory: there is no directory `/no/such`",
                "program: there is no program `/no/siding`"
            ]
        );
    }

    #[test]
    fn only_checks_that_weaken_a_guarantee_are_listed() {
        let report = r#"{"checks":[
            {"name":"pidfd","state":"ok","weight":"needed","found":"works"},
            {"name":"cgroup","state":"missing","weight":"guarantee","found":"read-only"},
            {"name":"journald","state":"missing","weight":"comfort","found":"none"}]}"#;
        assert_eq!(weaker_features(report.as_bytes()), ["cgroup: read-only"]);
        assert!(weaker_features(b"no JSON").is_empty());
    }
}
