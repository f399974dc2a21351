//! Checks whether a remote machine is reachable, and what siding can do there.

use std::process::{Command, Stdio};

use serde::Deserialize;
use siding_model::executor::RemoteExecutor;
use siding_model::remote::{MessageDecoder, REMOTE_PROTOCOL, ReceivedMessage, RemoteMessage};
use siding_model::text::one_line;

use super::program::ProgramCopy;
use super::slurm::slurm_command;
use super::ssh;

/// Maximum width of a weaker guarantee, in columns.
const WEAKER_COLUMNS: usize = 200;

/// The result of checking an executor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExecutorCheck {
    /// Whether ssh could connect, and the controller of a cluster answered.
    pub reachable: bool,
    /// Name of the machine, as it calls itself, or name of the cluster; `None` if it is unknown.
    pub machine: Option<String>,
    /// Version of siding there; `None` unless siding runs there.
    pub version: Option<String>,
    /// The features of `siding doctor` there without which a guarantee is weaker, each with the
    /// result of its check.
    pub weaker: Vec<String>,
    /// The reason why tasks cannot run there; `None` if they can.
    pub error: Option<String>,
}

/// Connects to the machine of an executor, and asks siding there for its version and its checks.
#[must_use]
pub fn check(executor: &RemoteExecutor, copy: Option<&ProgramCopy>) -> ExecutorCheck {
    let mut result = ExecutorCheck::default();
    if executor.destination.is_none() {
        check_cluster(&mut result, executor);
        result.version = result.reachable.then(|| env!("CARGO_PKG_VERSION").to_owned());
        return result;
    }
    match run(ssh::serve_command(executor, copy).stdin(Stdio::null())) {
        Ok(output) => describe_first_message(&mut result, &output),
        Err(error) => result.error = Some(error),
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

/// Asks the controller of a Slurm cluster for its configuration, with the commands of Slurm here or
/// on the machine that ssh reaches.
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
    // `siding doctor` exits with another code than 0 if a guarantee is weaker.
    if output.status.success() || !output.stdout.is_empty() {
        return Ok(output.stdout);
    }
    Err(ssh::last_message(&output.stderr).unwrap_or_else(|| output.status.to_string()))
}

fn describe_first_message(result: &mut ExecutorCheck, output: &[u8]) {
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
            let fits = processor == std::env::consts::ARCH;
            result.error = (!fits).then(|| {
                format!("this siding does not run on {processor}; install siding there, and set `program`")
            });
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

    fn described(message: &RemoteMessage) -> ExecutorCheck {
        let mut result = ExecutorCheck::default();
        let mut line = serde_json::to_vec(message).expect("a message is JSON");
        line.push(b'\n');
        describe_first_message(&mut result, &line);
        result
    }

    #[test]
    fn a_machine_without_siding_is_usable_if_its_processor_fits() {
        let processor = std::env::consts::ARCH.to_owned();
        let fits = described(&RemoteMessage::Missing { processor });
        assert!(fits.reachable && fits.error.is_none(), "{fits:?}");
        let other = described(&RemoteMessage::Missing { processor: "vax".to_owned() });
        assert!(other.error.is_some_and(|error| error.contains("vax")));
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
