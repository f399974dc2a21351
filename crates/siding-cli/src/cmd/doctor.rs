//! `siding doctor`: checks which features the system has and which guarantees are weaker because a
//! feature is missing.

use std::collections::BTreeMap;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::settings::{self, Environment};
use siding_core::store::StateDir;
use siding_core::upkeep::doctor::{self, Check, CheckState, CheckWeight, DoctorVerdict};
use siding_model::failure_class::{ArmingSetting, FailureClass, failure_classes};

use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::install::hosts::{BaseDirs, Host};
use crate::install::program::SidingProgram;
use crate::install::verify::Findings;
use crate::{render, stdout};

/// Name of the check that reads the host's settings files.
const HOST_SETTINGS_CHECK_NAME: &str = "host settings";
/// Name of the layer that contains the default values. It is not shown after a value.
const BUILT_IN_LAYER: &str = "built-in";
/// Text shown in place of a setting for a failure class that the guard's rules detect.
const GUARD_RULES_TEXT: &str = "rules of `siding guard rules`";

/// Exit code if siding works but at least one guarantee is weaker.
const WEAKER_EXIT_CODE: u8 = 1;

/// Reports which features this system has, and which guarantees are weaker because a feature is
/// missing.
///
/// Tests each feature by using it in the state directory, if that is harmless. With --host it
/// checks the installation in an agent instead, and names the command that repairs the
/// installation. With --watch it lists the failure classes that siding detects in tasks started
/// here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding doctor
  siding doctor --host claude-code
  siding doctor --watch
  siding doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exit codes: 0 if every guarantee holds, even without optional features; 1 if one
is weaker; 125 if siding cannot work.")]
pub(crate) struct Args {
    /// Check the installation in this agent instead of the system
    #[arg(long, value_enum, value_name = "HOST")]
    host: Option<Host>,
    /// List the failure classes, each with its detector and the setting that arms it
    #[arg(long, conflicts_with = "host")]
    watch: bool,
    /// Print the verdict and all checks, or the failure classes, as JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding doctor`, with or without `--host`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "doctor")]
pub(super) struct DoctorReport {
    verdict: DoctorVerdict,
    state_dir: Option<String>,
    checks: Vec<Check>,
    /// Name of the host that was checked; present only with `--host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'static str>,
    /// Repair instructions, keyed by the name of the failed check; present only with `--host`.
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<BTreeMap<&'static str, String>>,
}

/// JSON output of `siding doctor --watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "doctor_watch")]
pub(super) struct WatchTable {
    classes: Vec<FailureClass>,
}

/// The subject of the verdict in the final line.
#[derive(Debug, Clone, Copy)]
enum VerdictSubject {
    Machine,
    Host(Host),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.watch {
            let classes = failure_classes(&context::load_valid_settings());
            if self.json {
                render::json::print(&WatchTable { classes })?;
            } else {
                stdout::print_text(&format_watch_table(&classes, stdout::text_columns()))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let path = StateDir::default_path();
        // Mistakes in the settings are ignored: `config check` reports them, and only the shell is
        // needed here.
        let shell = context::load_valid_settings().shell;
        let mut machine = doctor::run_checks(path.as_deref(), &shell);
        machine.push(check_host_settings());
        let (about, checks, repairs) = match self.host {
            None => (VerdictSubject::Machine, machine, None),
            Some(host) => {
                let mut findings = Findings::for_host(
                    host,
                    &BaseDirs::from_process()?,
                    &SidingProgram::current()?,
                )?;
                let concerns_host = |check: &Check| {
                    check.name == "state directory"
                        || check.name == HOST_SETTINGS_CHECK_NAME && host == Host::ClaudeCode
                };
                findings.checks.extend(machine.into_iter().filter(concerns_host));
                (VerdictSubject::Host(host), findings.checks, Some(findings.repairs))
            }
        };
        let verdict = doctor::verdict(&checks);
        if self.json {
            let state_dir = path.map(|path| path.display().to_string());
            let host = self.host.map(Host::name);
            render::json::print(&DoctorReport { verdict, state_dir, checks, host, repairs })?;
        } else {
            let columns = stdout::text_columns();
            let mut text = format_checks(&checks, &repairs.unwrap_or_default(), columns);
            let summary = format_summary(&checks, verdict, about);
            text.push_str(&format!("\n{}\n", stdout::wrap_indented(&summary, 0, columns)));
            stdout::print_text(&text)?;
        }
        Ok(match verdict {
            DoctorVerdict::Whole => ExitCode::SUCCESS,
            DoctorVerdict::Weaker => ExitCode::from(WEAKER_EXIT_CODE),
            DoctorVerdict::Broken => ExitCode::from(exit::SIDING_FAILED),
        })
    }
}

/// Checks the `bash.background…` keys in the host's own settings files.
fn check_host_settings() -> Check {
    let reading = settings::read(&Environment::from_process());
    let unused = reading.settings.warnings().iter().filter(|warning| warning.is_about_host());
    let remarks: Vec<String> = reading
        .unknown_host_keys
        .iter()
        .map(ToString::to_string)
        .chain(unused.map(ToString::to_string))
        .collect();
    let (state, found) = match remarks.as_slice() {
        [] => (CheckState::Ok, "no unknown `bash.background…` key".to_owned()),
        remarks => (CheckState::Limited, remarks.join("; ")),
    };
    let missing_guarantee = "deadline, cap, signal and grace are not those of the host's file";
    Check {
        name: HOST_SETTINGS_CHECK_NAME,
        state,
        weight: CheckWeight::Comfort,
        found,
        missing_guarantee,
    }
}

/// Formats one row for each failure class: whether its detector is armed, the detector, its action
/// and the settings that arm it. `columns` is the width of the screen.
fn format_watch_table(classes: &[FailureClass], columns: usize) -> String {
    let width = classes.iter().map(|one| one.class.chars().count()).max().unwrap_or(0);
    let column = "armed".len() + 2 + width + 2;
    let mut text = String::new();
    for FailureClass { class, detector, armed, action, settings } in classes {
        let armed = if *armed { "armed" } else { "off" };
        let heading = format!("{armed:<5}  {class:<width$}  ");
        let setting = |one: &ArmingSetting| match one.origin {
            BUILT_IN_LAYER => format!("{}={}", one.key, one.value),
            layer => format!("{}={} ({layer})", one.key, one.value),
        };
        let by = settings.iter().map(setting).collect::<Vec<_>>().join(", ");
        let by = if by.is_empty() { GUARD_RULES_TEXT.to_owned() } else { by };
        let action = format!("{detector}: {action}");
        let row = stdout::wrap_beside(&heading, &action, column, columns);
        let settings = stdout::wrap_beside("", &by, column, columns);
        // On a narrow screen, `wrap_beside` writes the empty heading on a separate line.
        text.push_str(&format!("{row}\n{}\n", settings.trim_start_matches('\n')));
    }
    text.push('\n');
    let note = "Background and adopted tasks are watched. `0` disarms a watchdog.";
    text.push_str(&format!("{}\n", stdout::wrap_indented(note, 0, columns)));
    text
}

/// Formats one row for each check. The row of a failed check also states which guarantee is weaker
/// and, if known, how to repair the installation. `columns` is the width of the screen.
fn format_checks(
    checks: &[Check],
    repairs: &BTreeMap<&'static str, String>,
    columns: usize,
) -> String {
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let column = "missing".len() + 2 + width + 2;
    let mut text = String::new();
    for check in checks {
        let name = check.name;
        let heading = format!("{:<7}  {name:<width$}  ", check.state.as_str());
        text.push_str(&stdout::wrap_beside(&heading, &check.found, column, columns));
        text.push('\n');
        if check.state != CheckState::Ok {
            let weight = match check.weight {
                CheckWeight::Needed | CheckWeight::Guarantee => "without it:",
                CheckWeight::Comfort => "optional; without it:",
            };
            let detail = format!("{weight} {}", check.missing_guarantee);
            text.push_str(&format!("{}\n", stdout::wrap_indented(&detail, 9, columns)));
            if let Some(repair) = repairs.get(name) {
                let detail = format!("repair: {repair}");
                text.push_str(&format!("{}\n", stdout::wrap_indented(&detail, 9, columns)));
            }
        }
    }
    text
}

/// Formats the verdict, with the names of the features that are limited or missing.
fn format_summary(checks: &[Check], verdict: DoctorVerdict, about: VerdictSubject) -> String {
    let names = |is_listed: fn(CheckWeight) -> bool| -> Vec<&str> {
        let listed = checks.iter().filter(|check| check.state != CheckState::Ok);
        listed.filter(|check| is_listed(check.weight)).map(|check| check.name).collect()
    };
    let weaker = names(|weight| weight != CheckWeight::Comfort);
    let optional = names(|weight| weight == CheckWeight::Comfort);
    let plural = |count: usize, one: &'static str, many: &'static str| {
        if count == 1 { one } else { many }
    };
    let mut summary = match (verdict, about) {
        (DoctorVerdict::Whole, VerdictSubject::Machine) if optional.is_empty() => {
            "Every guarantee holds on this machine".to_owned()
        }
        (DoctorVerdict::Whole, VerdictSubject::Machine) => "siding works here".to_owned(),
        (DoctorVerdict::Whole, VerdictSubject::Host(host)) => {
            format!("siding is complete in {}", host.title())
        }
        (DoctorVerdict::Weaker, VerdictSubject::Machine) => {
            let count = weaker.len();
            let guarantees = plural(count, "guarantee is", "guarantees are");
            format!("siding works here; {count} {guarantees} weaker: {}", weaker.join(", "))
        }
        (DoctorVerdict::Weaker, VerdictSubject::Host(host)) => {
            format!("siding is incomplete in {}; see the repairs above", host.title())
        }
        (DoctorVerdict::Broken, _) => {
            "siding cannot work here; see what is missing above".to_owned()
        }
    };
    if !optional.is_empty() {
        let count = optional.len();
        let features = plural(count, "optional feature is", "optional features are");
        let list = optional.join(", ");
        summary.push_str(&format!("; {count} {features} limited or missing: {list}"));
    }
    summary + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_states_the_weaker_guarantee() {
        let check = |state, weight| Check {
            name: "pidfd_open",
            state,
            weight,
            found: "as it was found here and now, in so many words that they need two lines"
                .to_owned(),
            missing_guarantee: "a process could be mistaken for a later one",
        };
        let checks = [
            check(CheckState::Ok, CheckWeight::Needed),
            check(CheckState::Missing, CheckWeight::Needed),
        ];
        let text = format_checks(&checks, &BTreeMap::new(), 80);
        assert_eq!(text.matches("without it:").count(), 1, "{text}");
        assert!(text.starts_with("ok       pidfd_open  as it was"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let optional = [check(CheckState::Limited, CheckWeight::Comfort)];
        let text = format_checks(&optional, &BTreeMap::new(), 80);
        assert!(text.contains("         optional; without it: a process"), "{text}");
        let text = format_checks(&checks, &BTreeMap::new(), 40);
        assert!(text.starts_with("ok       pidfd_open\n    as it was found here"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }

    #[test]
    fn the_summary_counts_and_names_the_features_that_are_not_complete() {
        let check = |name, state, weight| Check {
            name,
            state,
            weight,
            found: "found".to_owned(),
            missing_guarantee: "lost",
        };
        let summary = |checks: &[Check]| {
            format_summary(checks, doctor::verdict(checks), VerdictSubject::Machine)
        };
        let whole = check("pidfd", CheckState::Ok, CheckWeight::Needed);
        assert_eq!(summary(std::slice::from_ref(&whole)), "Every guarantee holds on this machine.");
        let comfort = check("Yama", CheckState::Limited, CheckWeight::Comfort);
        assert_eq!(
            summary(&[whole, comfort.clone()]),
            "siding works here; 1 optional feature is limited or missing: Yama."
        );
        let shell = check("shell", CheckState::Limited, CheckWeight::Guarantee);
        let cgroup = check("cgroup", CheckState::Missing, CheckWeight::Guarantee);
        assert_eq!(
            summary(std::slice::from_ref(&shell)),
            "siding works here; 1 guarantee is weaker: shell."
        );
        assert_eq!(
            summary(&[shell, cgroup, comfort]),
            "siding works here; 2 guarantees are weaker: shell, cgroup; \
             1 optional feature is limited or missing: Yama."
        );
    }

    #[test]
    fn the_watch_table_lists_every_failure_class_and_its_settings() {
        let settings = siding_model::settings::Settings::default();
        let classes = failure_classes(&settings);
        let narrow = format_watch_table(&classes, 40);
        // A line without spaces, such as a list of paths, cannot be wrapped.
        let fits = |line: &str| line.chars().count() <= 40 || !line.trim().contains(' ');
        assert!(narrow.lines().all(fits), "{narrow}");
        let text = format_watch_table(&classes, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for one in &classes {
            let word = if one.armed { "armed  " } else { "off    " };
            assert!(text.contains(&format!("{word}{} ", one.class)), "{}: {text}", one.class);
        }
        assert!(text.contains("watch_fds=4096, max_fds=0\n"), "{text}");
    }
}
