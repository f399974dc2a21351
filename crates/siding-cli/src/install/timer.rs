//! The systemd user timer that runs the reaper (systemd.timer(5), systemd.service(5)).

use std::process::{Command, Stdio};

use siding_core::store::StateDir;
use siding_model::shell_words::quote_word;
use siding_model::text::one_line;

use super::hosts::BaseDirs;
use super::plan::{self, Action, FileChange};
use super::program::SidingProgram;
use super::record_store::InstallRecords;
use super::target::{FileContent, TargetFile};
use crate::failure::Failure;

/// The unit that systemctl enables.
const TIMER_UNIT: &str = "siding-reap.timer";
/// The unit that the timer starts.
const SERVICE_UNIT: &str = "siding-reap.service";
/// Maximum width in columns of systemctl's error message.
const ERROR_COLUMNS: usize = 200;

/// Installs or uninstalls the timer. Returns whether anything changed, and the change to each file.
///
/// # Errors
///
/// No systemd user manager is running, a unit file cannot be changed, or the timer does not start.
/// Unit files that were changed for a timer that does not start are uninstalled.
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
                return Err(failure.with_hint("the units of the timer were removed"));
            }
            Ok((changed || !was_on, files))
        }
        Action::Uninstall => {
            // The unit must be disabled while its file exists: systemctl(1) fails for an unknown
            // unit.
            disable();
            let files = go(action)?;
            let _best_effort = reload();
            Ok((files.iter().any(FileChange::is_change), files))
        }
    }
}

/// Returns the units of the service and the timer, with their intended content.
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

/// Returns the variables by which the reaper finds this process's state and settings. They are
/// needed because the manager does not inherit the environment of this process.
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
    // A shim that the reaper starts must outlive the reaper, so only the main process is killed.
    // Exit code 1 is treated as success, because the next run may clear what is left.
    format!(
        "# Written by `siding install systemd-timer`.\n\
         [Unit]\n\
         Description=Cleans up after crashed agent sessions\n\
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
    "# Written by `siding install systemd-timer`.\n\
     [Unit]\n\
     Description=Cleans up after crashed agent sessions, every 15 minutes\n\
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

/// Quotes a word for a unit file.
fn unit_quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    format!("\"{escaped}\"")
}

/// Checks whether a systemd user manager is running.
///
/// # Errors
///
/// No manager is running; the hint shows the alternatives.
fn ensure_manager(places: &BaseDirs, program: &SidingProgram) -> Result<(), Failure> {
    systemctl(&["show-environment"]).map(drop).map_err(|why| {
        let message = format!("no systemd user manager is running: {why}");
        let cron = crontab_line(&program.path, &unit_environment(places));
        Failure::new(message).with_hint(format!(
            "nothing was changed; with cron the line `{cron}` in `crontab -e` does the same, and \
             sessions clean up when they start"
        ))
    })
}

/// Returns a crontab line that is equivalent to the timer; in a crontab, each `%` needs a backslash
/// (crontab(5)).
fn crontab_line(program: &str, carried: &[(&str, String)]) -> String {
    let word = |text: &str| quote_word(text).replace('%', "\\%");
    let environment: String =
        carried.iter().map(|(name, value)| format!("{name}={} ", word(value))).collect();
    format!("*/15 * * * * {environment}{} reap", word(program))
}

/// Returns whether the timer is active and enabled for the next boot.
pub(crate) fn is_enabled() -> bool {
    let says =
        |what, word| systemctl(&[what, TIMER_UNIT]).is_ok_and(|output| output.trim() == word);
    says("is-enabled", "enabled") && says("is-active", "active")
}

/// Enables and starts the timer, after the manager has reloaded its unit files.
///
/// # Errors
///
/// The first line of systemctl's error message, or its exit status.
fn enable() -> Result<(), Failure> {
    let on = reload().and_then(|()| systemctl(&["enable", "--now", TIMER_UNIT]).map(drop));
    on.map_err(|why| Failure::new(format!("systemd did not start the timer: {why}")))
}

/// Stops and disables the timer, if a manager is running.
fn disable() {
    // Without a manager there is no running timer.
    let _best_effort = systemctl(&["disable", "--now", TIMER_UNIT]);
}

/// Makes the manager reload its unit files.
///
/// # Errors
///
/// The first line of systemctl's error message, or its exit status.
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
    let output = String::from_utf8_lossy(&done.stderr);
    let line = output.lines().find(|line| !line.trim().is_empty());
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
