//! The systemd user timer that runs the reaper, as systemd.timer(5) and systemd.service(5) have it.

use std::process::{Command, Stdio};

use siding_core::store::StateDir;
use siding_model::text::one_line;

use super::hosts::BaseDirs;
use super::plan::{self, Action, FileChange};
use super::program::SidingProgram;
use super::record_store::InstallRecords;
use super::target::{FileContent, TargetFile};
use crate::failure::Failure;

/// The unit that is enabled.
const TIMER_UNIT: &str = "siding-reap.timer";
/// The unit that it starts.
const SERVICE_UNIT: &str = "siding-reap.service";
/// Columns of what systemctl says.
const ERROR_COLUMNS: usize = 200;

/// Installs or uninstalls the timer. Returns whether anything changed, and the files.
///
/// # Errors
///
/// When there is no manager to run it, or it does not start: then all is as before.
pub(crate) fn apply_timer(
    places: &BaseDirs,
    action: Action,
    dry_run: bool,
    program: &SidingProgram,
    records: &InstallRecords,
) -> Result<(bool, Vec<FileChange>), Failure> {
    let targets = unit_files(places, program);
    let go = |action| plan::apply_plan(&targets, action, dry_run, &program.names, records);
    if dry_run {
        let files = go(action)?;
        return Ok((files.iter().any(FileChange::is_change), files));
    }
    match action {
        Action::Install => {
            ensure_manager(places, program)?;
            let was_on = is_enabled();
            let files = go(action)?;
            let changed = files.iter().any(FileChange::is_change);
            if (changed || !was_on)
                && let Err(failure) = enable()
            {
                if !changed {
                    return Err(failure);
                }
                go(Action::Uninstall)?;
                let _best_effort = reload();
                return Err(failure.with_hint("the files were taken back: all is as it was"));
            }
            Ok((changed || !was_on, files))
        }
        Action::Uninstall => {
            // While the manager still knows the unit.
            disable();
            let files = go(action)?;
            let _best_effort = reload();
            Ok((files.iter().any(FileChange::is_change), files))
        }
    }
}

/// Returns the two files.
fn unit_files(places: &BaseDirs, program: &SidingProgram) -> Vec<TargetFile> {
    let dir = places.config_dir().join("systemd/user");
    vec![
        TargetFile {
            path: dir.join(SERVICE_UNIT),
            content: FileContent::Owned(service_unit(&program.path, &unit_environment(places))),
        },
        TargetFile { path: dir.join(TIMER_UNIT), content: FileContent::Owned(timer_unit()) },
    ]
}

/// Returns what the reaper must be told to find the state and the settings of this process: whoever
/// starts it knows nothing of the variables of a person's shell.
fn unit_environment(places: &BaseDirs) -> Vec<(&'static str, String)> {
    let usual = places.home.join(".local/state/siding");
    let state = StateDir::default_path().filter(|path| *path != usual);
    let config = places.variable_dir("XDG_CONFIG_HOME");
    [("SIDING_STATE_DIR", state), ("XDG_CONFIG_HOME", config)]
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?.display().to_string())))
        .collect()
}

fn service_unit(program: &str, carried: &[(&str, String)]) -> String {
    let environment: String = carried
        .iter()
        .map(|(name, value)| format!("Environment={}\n", unit_quote(&format!("{name}={value}"))))
        .collect();
    // A shim that the reaper puts in the place of a killed one outlives it: only the reaper itself
    // is ended. Exit code 1: something is left, which the next time may clear.
    format!(
        "# Written by `siding install timer`.\n\
         [Unit]\n\
         Description=Clears what crashed agent sessions left\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         {environment}ExecStart={} reap\n\
         SuccessExitStatus=1\n\
         KillMode=process\n",
        unit_quote(&program.replace('$', "$$"))
    )
}

fn timer_unit() -> String {
    "# Written by `siding install timer`.\n\
     [Unit]\n\
     Description=Clears what crashed agent sessions left, every 15 minutes\n\
     \n\
     [Timer]\n\
     OnStartupSec=1min\n\
     OnUnitActiveSec=15min\n\
     AccuracySec=1min\n\
     \n\
     [Install]\n\
     WantedBy=timers.target\n"
        .to_owned()
}

/// Returns a word as a unit file has it.
fn unit_quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

/// Asks whether there is somebody who runs timers.
///
/// # Errors
///
/// When there is not, with what to do instead.
fn ensure_manager(places: &BaseDirs, program: &SidingProgram) -> Result<(), Failure> {
    systemctl(&["show-environment"]).map(drop).map_err(|why| {
        let message = format!("no systemd user manager answers here: {why}");
        let cron = crontab_line(&program.path, &unit_environment(places));
        Failure::new(message).with_hint(format!(
            "nothing was changed; with cron the line `{cron}` in `crontab -e` does the same, and \
             sessions clear what is left when they start"
        ))
    })
}

/// Returns the line that has cron do the same. A `%` ends a command there (crontab(5)).
fn crontab_line(program: &str, carried: &[(&str, String)]) -> String {
    let word = |text: &str| super::program::shell_quote(text).replace('%', "\\%");
    let environment: String =
        carried.iter().map(|(name, value)| format!("{name}={} ", word(value))).collect();
    format!("*/15 * * * * {environment}{} reap", word(program))
}

/// Returns whether the timer runs, and will after the next start of the machine.
pub(crate) fn is_enabled() -> bool {
    let says = |what, word| systemctl(&[what, TIMER_UNIT]).is_ok_and(|said| said.trim() == word);
    says("is-enabled", "enabled") && says("is-active", "active")
}

/// Has the manager read the files and start the timer.
///
/// # Errors
///
/// What systemctl says.
fn enable() -> Result<(), Failure> {
    let on = reload().and_then(|()| systemctl(&["enable", "--now", TIMER_UNIT]).map(drop));
    on.map_err(|why| Failure::new(format!("systemd did not start the timer: {why}")))
}

/// Has the manager stop the timer, if there is a manager.
fn disable() {
    // Without one, nothing runs.
    let _best_effort = systemctl(&["disable", "--now", TIMER_UNIT]);
}

/// Has the manager read the files anew.
///
/// # Errors
///
/// What systemctl says.
fn reload() -> Result<(), String> {
    systemctl(&["daemon-reload"]).map(drop)
}

fn systemctl(args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("systemctl");
    command.arg("--user").args(args).stdin(Stdio::null());
    let done = command.output().map_err(|error| format!("systemctl: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let line = said.lines().find(|line| !line.trim().is_empty());
    Err(line.map_or_else(|| done.status.to_string(), |line| one_line(line.trim(), ERROR_COLUMNS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_escape_its_unit_file() {
        let carried = [("SIDING_STATE_DIR", "/s t%".to_owned())];
        let text = service_unit("/a b/100%/\"x\"/$HOME/siding", &carried);
        let line = "ExecStart=\"/a b/100%%/\\\"x\\\"/$$HOME/siding\" reap\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("Environment=\"SIDING_STATE_DIR=/s t%%\"\n"), "{text}");
        let line = crontab_line("/a%/siding", &carried);
        assert_eq!(line, r"*/15 * * * * SIDING_STATE_DIR='/s t\%' /a\%/siding reap");
    }
}
