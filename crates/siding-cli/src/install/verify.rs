//! Checks whether siding's installation in a host is complete, and finds a repair for what is
//! missing.

mod host_file;
mod supervision;
mod version;

use std::collections::BTreeMap;
use std::path::Path;

use siding_core::sys::file;
use siding_core::upkeep::doctor::{Check, CheckState, CheckWeight};

use self::host_file::HostSettingsFile;
use super::hooks::{self, HookEntry, InstalledHook};
use super::hosts::{BaseDirs, Host, Scope};
use super::json::PathStep;
use super::program::{SidingProgram, find_in_path};
use super::target::{FileContent, TargetFile};
use super::{timer, toml};
use crate::failure::Failure;

/// The results of a host's checks, with repairs for the failed ones.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The checks, in display order.
    pub(crate) checks: Vec<Check>,
    /// Repairs of failed checks, by the name of the check; each is a command or an instruction.
    pub(crate) repairs: BTreeMap<&'static str, String>,
}

impl Findings {
    /// Checks a host: its program, its files, and siding's entries in them.
    ///
    /// # Errors
    ///
    /// The program's path cannot be written into the host's files.
    pub(crate) fn for_host(
        host: Host,
        places: &BaseDirs,
        program: &SidingProgram,
    ) -> Result<Self, Failure> {
        let mut findings = Self::default();
        findings.check_program(host);
        let scopes: &[Scope] = if host.has_scopes() { &Scope::ALL } else { &[Scope::User] };
        let mut files = Vec::new();
        for scope in scopes {
            let targets = host.targets(places, *scope, program, None)?;
            files.extend(targets.into_iter().map(|target| HostSettingsFile::read(*scope, target)));
        }
        findings.check_files(host, &files);
        if host.has_hooks() {
            findings.check_hooks(host, &files, program);
        }
        findings.check_server(host, &files, program);
        findings.check_shells(host, &files);
        if host.has_hooks() {
            let (check, repair) = supervision::check_supervision(host);
            findings.add_check(check, repair);
        }
        let (state, found) = if timer::is_enabled() {
            (CheckState::Ok, "runs the reaper every 15 minutes")
        } else {
            (CheckState::Missing, "not installed")
        };
        let missing_guarantee =
            "leftovers of crashed sessions are cleared only when a session starts";
        let found = found.to_owned();
        let check =
            Check { name: "timer", state, weight: CheckWeight::Comfort, found, missing_guarantee };
        findings.add_check(check, Some("siding install systemd-timer".to_owned()));
        Ok(findings)
    }

    fn add_check(&mut self, check: Check, repair: Option<String>) {
        if let (true, Some(repair)) = (check.state != CheckState::Ok, repair) {
            self.repairs.insert(check.name, repair);
        }
        self.checks.push(check);
    }

    /// Adds a check on which a guarantee of siding depends.
    fn add_guarantee(
        &mut self,
        name: &'static str,
        (state, found): (CheckState, String),
        missing_guarantee: &'static str,
        repair: Option<String>,
    ) {
        let weight = CheckWeight::Guarantee;
        self.add_check(Check { name, state, weight, found, missing_guarantee }, repair);
    }

    fn check_program(&mut self, host: Host) {
        let path = find_in_path(host.program());
        let (state, found) = match &path {
            None => (CheckState::Missing, format!("no `{}` in the search path", host.program())),
            Some(path) => match version::query_version(path) {
                Ok(version) => (CheckState::Ok, format!("`{}`, {version}", path.display())),
                Err(why) => {
                    (CheckState::Limited, format!("`{}`, version unknown: {why}", path.display()))
                }
            },
        };
        let missing_guarantee = "there is no program to install siding in";
        self.add_guarantee("host", (state, found), missing_guarantee, None);
    }

    fn check_files(&mut self, host: Host, files: &[HostSettingsFile]) {
        // Several scopes may share one file, which is listed once.
        let faults = unique_in_order(files.iter().filter_map(|file| file.error.clone()));
        let there = files.iter().filter(|file| file.text.is_some());
        let shown = unique_in_order(there.map(|file| format!("`{}`", file.target.path.display())));
        let (state, found) = match (faults.as_slice(), shown.is_empty()) {
            ([], true) => (CheckState::Ok, "no files".to_owned()),
            ([], false) => (CheckState::Ok, shown.join(", ")),
            (faults, _) => (CheckState::Missing, faults.join("; ")),
        };
        let missing_guarantee = "the host ignores the whole file, including siding's entries";
        let repair = format!("correct that line, then `siding install {}`", host.name());
        self.add_guarantee("files", (state, found), missing_guarantee, Some(repair));
    }

    fn check_hooks(&mut self, host: Host, files: &[HostSettingsFile], program: &SidingProgram) {
        let mut all: Vec<(Scope, &TargetFile, InstalledHook)> = Vec::new();
        let mut off = Vec::new();
        for file in files {
            let Some(json) = &file.json else { continue };
            let found = hooks::find(json, &program.names);
            all.extend(found.into_iter().map(|found| (file.scope, &file.target, found)));
            let disabled = host.disable_hooks_key().filter(|key| {
                json.get(&[PathStep::Key(key)]).and_then(|value| value.as_bool()) == Some(true)
            });
            off.extend(disabled.map(|key| format!("`{key}` in `{}`", file.target.path.display())));
        }
        let scope = all.first().map_or(Scope::User, |(scope, ..)| *scope);
        let install = install_command(host, scope);
        let wanted = files.iter().find_map(|file| match &file.target.content {
            FileContent::Json { hooks, .. } if file.scope == scope && !hooks.is_empty() => {
                Some(hooks)
            }
            FileContent::Json { .. } | FileContent::Toml(_) | FileContent::Owned(_) => None,
        });
        let wanted: &[HookEntry] = wanted.map_or(&[], Vec::as_slice);
        let has = |entry: &&HookEntry| {
            all.iter().any(|(_, _, found)| {
                (found.event.as_str(), found.matcher.as_deref(), found.event_arg.as_str())
                    == (entry.event, entry.matcher, entry.event_arg)
            })
        };
        let missing: Vec<String> =
            wanted.iter().filter(|entry| !has(entry)).map(HookEntry::title).collect();
        let (state, found) = if all.is_empty() {
            (CheckState::Missing, "no hook of siding".to_owned())
        } else if missing.is_empty() {
            (CheckState::Ok, format!("all {} entries, {}", wanted.len(), scope.description()))
        } else {
            (CheckState::Limited, format!("missing: {}", missing.join(", ")))
        };
        let missing_guarantee =
            "the session is not opened, commands are not adopted, notices do not arrive";
        self.add_guarantee("hooks", (state, found), missing_guarantee, Some(install.clone()));
        let opens = all.iter().any(|(_, _, found)| found.event_arg == "session-start");
        self.check_session_start(host, opens, &install);
        let found = all.iter().map(|(_, _, found)| found.program.as_str());
        self.check_called_programs("hook program", found.collect(), program, &install);
        self.check_duplicates(host, &all);
        self.check_budget(host, &all, program);
        let (state, found) = match off.as_slice() {
            [] => (CheckState::Ok, "not disabled".to_owned()),
            off => (CheckState::Missing, format!("disabled by {}", off.join(", "))),
        };
        let missing_guarantee = "the host calls no hook at all";
        self.add_guarantee(
            "hooks allowed",
            (state, found),
            missing_guarantee,
            Some("remove that setting".to_owned()),
        );
    }

    /// Checks for the hook through which the session's shells are adopted.
    fn check_session_start(&mut self, host: Host, there: bool, install: &str) {
        if !host.adopts_by_hook() {
            return;
        }
        let (state, found) = if there {
            (CheckState::Ok, "the hook of SessionStart writes the line that shells read first")
        } else {
            (CheckState::Missing, "no hook of SessionStart")
        };
        let missing_guarantee =
            "its commands are not adopted: no deadline, no stop with the session";
        let found = found.to_owned();
        self.add_guarantee("adoption", (state, found), missing_guarantee, Some(install.to_owned()));
    }

    /// Checks that the hooks contain at most one budget, the time for which the host waits for its
    /// own shell calls.
    fn check_budget(
        &mut self,
        host: Host,
        all: &[(Scope, &TargetFile, InstalledHook)],
        program: &SidingProgram,
    ) {
        if !host.has_budget() {
            return;
        }
        let mut budgets: Vec<String> = all
            .iter()
            .filter_map(|(_, _, found)| program.names.hook_budget(&found.handler))
            .collect();
        budgets.sort_unstable();
        budgets.dedup();
        let found = match budgets.as_slice() {
            [] => "off; the host waits for a foreground command up to its own timeout".to_owned(),
            budgets => budgets.join(", "),
        };
        // With two budgets in two scopes, it is undefined which one applies.
        let state = if budgets.len() > 1 { CheckState::Limited } else { CheckState::Ok };
        let missing_guarantee = "a foreground command is moved to the background at either budget";
        let check =
            Check { name: "budget", state, weight: CheckWeight::Comfort, found, missing_guarantee };
        let repair = format!("siding install {} --budget D with one scope", host.name());
        self.add_check(check, Some(repair));
    }

    /// Checks which programs the entries call: this one, another one, or a missing one.
    fn check_called_programs(
        &mut self,
        name: &'static str,
        mut called: Vec<&str>,
        program: &SidingProgram,
        install: &str,
    ) {
        called.sort_unstable();
        called.dedup();
        if called.is_empty() {
            return;
        }
        let mut worst = CheckState::Ok;
        let mut lines = Vec::new();
        for one in called {
            let path =
                if one.contains('/') { Some(Path::new(one).to_owned()) } else { find_in_path(one) };
            let (state, what) = match path {
                Some(path) if !file::is_program(&path) => {
                    (CheckState::Missing, "is not an executable file")
                }
                Some(path) if file::is_same_file(&path, Path::new(&program.path)) => {
                    (CheckState::Ok, "is this siding")
                }
                Some(_) => (CheckState::Limited, "is a different siding"),
                None => (CheckState::Missing, "is not in the search path"),
            };
            if state == CheckState::Missing || worst == CheckState::Ok {
                worst = state;
            }
            lines.push(format!("`{one}` {what}"));
        }
        let missing_guarantee =
            "the host reports a failed hook, or another version of siding answers";
        let found = lines.join(", ");
        self.add_guarantee(name, (worst, found), missing_guarantee, Some(install.to_owned()));
    }

    /// Checks whether an event calls siding with several different handlers. A host runs each of
    /// them, but runs identical handlers only once.
    fn check_duplicates(&mut self, host: Host, all: &[(Scope, &TargetFile, InstalledHook)]) {
        let mut twice: Vec<String> = Vec::new();
        let mut extra = None;
        for (index, (scope, _, one)) in all.iter().enumerate() {
            let same = |(_, _, other): &&(Scope, &TargetFile, InstalledHook)| {
                (&one.event, &one.matcher, &one.event_arg)
                    == (&other.event, &other.matcher, &other.event_arg)
                    && one.handler != other.handler
            };
            if all[..index].iter().any(|other| same(&other)) {
                twice.push(format!("{} {}", one.event, one.event_arg));
                extra = Some(*scope);
            }
        }
        twice.sort();
        twice.dedup();
        let (state, found) = if twice.is_empty() {
            (CheckState::Ok, "each event calls siding once".to_owned())
        } else {
            (
                CheckState::Limited,
                format!("more than once, with different handlers: {}", twice.join(", ")),
            )
        };
        let missing_guarantee =
            "each notice may arrive twice, and each command may be judged twice";
        let repair =
            extra.map(|scope| install_command(host, scope).replacen("install", "uninstall", 1));
        self.add_guarantee("unique hooks", (state, found), missing_guarantee, repair);
    }

    fn check_server(&mut self, host: Host, files: &[HostSettingsFile], program: &SidingProgram) {
        let mut found = Vec::new();
        for file in files {
            let called = file.server_program(program);
            found.extend(called.map(|called| (file, called)));
        }
        let scope = found.first().map_or(Scope::User, |(file, _)| file.scope);
        let install = install_command(host, scope);
        let (state, shown) = match found.first() {
            None => (CheckState::Missing, "no entry".to_owned()),
            Some((file, _)) => (CheckState::Ok, format!("in `{}`", file.target.path.display())),
        };
        let missing_guarantee = "the host has none of siding's tools";
        self.add_guarantee("MCP server", (state, shown), missing_guarantee, Some(install.clone()));
        let called = found.iter().map(|(_, called)| called.as_str()).collect();
        self.check_called_programs("MCP program", called, program, &install);
    }
}

/// Returns the texts without repetitions, in the order of their first occurrence.
fn unique_in_order(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut unique = Vec::new();
    for text in texts {
        if !unique.contains(&text) {
            unique.push(text);
        }
    }
    unique
}

impl Findings {
    /// Checks whether the host's shells read the file by which they are adopted.
    fn check_shells(&mut self, host: Host, files: &[HostSettingsFile]) {
        for file in files {
            let FileContent::Toml(block) = &file.target.content else { continue };
            let set = file.text.as_deref().and_then(|text| toml::shell_file(text).ok().flatten());
            let (state, found) = match set {
                Some(path) if Path::new(&path).exists() => {
                    (CheckState::Ok, format!("BASH_ENV=`{path}`"))
                }
                Some(path) => {
                    (CheckState::Missing, format!("BASH_ENV=`{path}`, which does not exist"))
                }
                None => (CheckState::Missing, "BASH_ENV is not set".to_owned()),
            };
            let missing_guarantee =
                "its commands are not adopted: no deadline, no stop with the session";
            let repair = format!(
                "{}, or BASH_ENV = \"{}\" in your own [shell_environment_policy.set]",
                install_command(host, Scope::User),
                block.shell_file
            );
            self.add_guarantee("adoption", (state, found), missing_guarantee, Some(repair));
        }
    }
}

fn install_command(host: Host, scope: Scope) -> String {
    format!("siding install {}{}", host.name(), scope.flag())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user scope and the local scope of Claude Code share `~/.claude.json`; in the list, the
    /// files of the project scope are between the two entries.
    #[test]
    fn a_file_of_two_scopes_is_listed_once() {
        let file = |name: &str, error: Option<&str>| HostSettingsFile {
            scope: Scope::User,
            target: TargetFile { path: name.into(), content: FileContent::Owned(String::new()) },
            text: Some(String::new()),
            json: None,
            error: error.map(str::to_owned),
        };
        let found = |files: &[HostSettingsFile]| {
            let mut findings = Findings::default();
            findings.check_files(Host::ClaudeCode, files);
            findings.checks.remove(0).found
        };
        let intact = [file("/b", None), file("/a", None), file("/b", None)];
        assert_eq!(found(&intact), "`/b`, `/a`");
        let damaged =
            [file("/b", Some("b: x")), file("/a", Some("a: y")), file("/b", Some("b: x"))];
        assert_eq!(found(&damaged), "b: x; a: y");
    }
}
