//! `siding executors`: lists the machines on which commands can run.

use std::iter;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::parallel;
use siding_core::remote::{self, ExecutorCheck, ProgramCopy};
use siding_core::sys::system_info;
use siding_core::task::run::{UnknownExecutor, remote_executor};
use siding_model::executor::{ExecutorSettings, LOCAL_EXECUTOR, SLURM_EXECUTOR};
use siding_model::settings::Executors;
use siding_model::text::one_line;

use crate::context;
use crate::failure::Failure;
use crate::render::color::ColorMode;
use crate::render::table_layout::{Align, format_grid};
use crate::render::{self, out};
use crate::stdout;

/// Exit code of `--check` if an executor is not reachable.
const UNREACHABLE_EXIT_CODE: u8 = 1;
/// Maximum width of a destination, in columns.
const DESTINATION_COLUMNS: usize = 36;
/// Maximum width of a version, in columns.
const VERSION_COLUMNS: usize = 16;
/// Maximum lines of an error or of a weaker guarantee.
const MAX_NOTE_LINES: usize = 4;

/// Lists the machines on which commands can run, and checks whether they are reachable.
///
/// `local` is this machine. Each table `[executor.NAME]` of a settings file describes a machine
/// that ssh reaches, or a Slurm cluster. With --check, siding connects to the machines and asks the
/// controllers of the clusters, and prints its version there, the configured files that are missing
/// there, and the guarantees that are weaker there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding executors                  name, kind, destination, program
  siding executors --check          connect to each of them
  siding executors --check build    connect to one
  siding executors --json | jq -r '.[].name'

`siding config edit executor` adds one.

Exit codes: 0; with --check 1 if one of them is not reachable, or lacks its
`program`.")]
pub(crate) struct Args {
    /// Executors to list (default: all of them)
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Connect to each of them
    #[arg(long)]
    check: bool,
    /// Print JSON: a list of executors
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding executors` for one executor.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "executor")]
pub(super) struct ExecutorView<'e> {
    /// Name of the executor.
    name: &'e str,
    /// Kind of the executor.
    kind: ExecutorKind,
    /// The destination that ssh receives; null for this machine, and for a cluster whose commands are
    /// on this machine.
    destination: Option<&'e str>,
    /// Path of siding on the remote machine; null if siding copies itself there, and for this
    /// machine.
    program: Option<&'e str>,
    /// Result of the check; null without `--check`.
    check: Option<ExecutorCheckView>,
}

/// Kind of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ExecutorKind {
    /// This machine, whose name as an executor is `local`.
    Local,
    /// A machine that ssh reaches.
    Ssh,
    /// A Slurm cluster.
    Slurm,
}

/// The result of a connection to an executor.
#[derive(Debug, Serialize, JsonSchema)]
struct ExecutorCheckView {
    /// Whether the executor can run tasks now.
    reachable: bool,
    /// Version of siding there; null if it is unknown.
    version: Option<String>,
    /// Hostname of the machine, or name of the cluster; null if it is unknown.
    machine: Option<String>,
    /// The guarantees that are weaker there, each in a few words.
    weaker: Vec<String>,
    /// The configured directories and the program that do not exist there, each after its key.
    missing: Vec<String>,
    /// The last message of ssh or Slurm, or the reason why the executor cannot run tasks; null if
    /// it is reachable.
    error: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let settings = context::load_settings()?;
        let executors = &settings.executor;
        let mut views = list_views(executors, &self.names)?;
        if self.check {
            let copy = program_copy(executors)?;
            let checks = parallel::map(&views, parallel::MAX_WAITING_THREADS, |view| {
                check_executor(view.name, executors.get(view.name), copy.as_ref())
            });
            for (view, check) in views.iter_mut().zip(checks) {
                view.check = Some(check);
            }
        }
        if self.json {
            render::json::print(&views)?;
        } else if self.check {
            out::print(&format_checks(&views, ColorMode::for_stdout(), stdout::text_columns()))?;
        } else {
            out::print(&format_table(&views, ColorMode::for_stdout(), stdout::table_columns()))?;
        }
        let mut checks = views.iter().filter_map(|view| view.check.as_ref());
        let is_success = checks.all(|check| check.reachable);
        Ok(if is_success { ExitCode::SUCCESS } else { ExitCode::from(UNREACHABLE_EXIT_CODE) })
    }
}

/// Returns the executors with these names, or all of them if there are no names: first this machine,
/// then those of the settings. The cluster of this machine needs no settings. Unless the settings
/// contain it, it is listed only if one of the names is its name.
fn list_views<'e>(
    executors: &'e Executors,
    names: &[String],
) -> Result<Vec<ExecutorView<'e>>, Failure> {
    let remote = executors.iter().map(|(name, executor)| ExecutorView::remote(name, executor));
    let is_requested = names.iter().any(|name| name == SLURM_EXECUTOR);
    let cluster =
        (is_requested && executors.get(SLURM_EXECUTOR).is_none()).then(ExecutorView::local_cluster);
    let mut views: Vec<_> =
        iter::once(ExecutorView::local()).chain(cluster).chain(remote).collect();
    let is_unknown = |name: &&String| !views.iter().any(|view| view.name == name.as_str());
    if let Some(name) = names.iter().find(is_unknown) {
        return Err(UnknownExecutor::new(name, executors).into());
    }
    views.retain(|view| names.is_empty() || names.iter().any(|name| name == view.name));
    Ok(views)
}

/// Returns the program that is copied to the executors without an installed one; `None` if there are
/// none.
pub(super) fn program_copy(executors: &Executors) -> Result<Option<ProgramCopy>, Failure> {
    if executors.iter().all(|(_, executor)| executor.program.is_some()) {
        return Ok(None);
    }
    let root = context::open_state_dir()?;
    let copy = ProgramCopy::of_running_program(&root);
    copy.map(Some).map_err(|error| Failure::new(format!("could not read this program: {error}")))
}

/// Connects to an executor. Returns `None` for this machine, which needs no connection.
fn check_executor(
    name: &str,
    executor: Option<&ExecutorSettings>,
    copy: Option<&ProgramCopy>,
) -> ExecutorCheckView {
    match executor {
        Some(executor) => remote::check(&remote_executor(name, executor), executor, copy).into(),
        None if name == SLURM_EXECUTOR => {
            let cluster = ExecutorSettings::local_cluster();
            remote::check(&remote_executor(name, &cluster), &cluster, copy).into()
        }
        None => ExecutorCheckView::local(),
    }
}

impl<'e> ExecutorView<'e> {
    const fn local() -> Self {
        let kind = ExecutorKind::Local;
        Self { name: LOCAL_EXECUTOR, kind, destination: None, program: None, check: None }
    }

    /// Returns the cluster that needs no settings.
    const fn local_cluster() -> Self {
        let kind = ExecutorKind::Slurm;
        Self { name: SLURM_EXECUTOR, kind, destination: None, program: None, check: None }
    }

    fn remote(name: &'e str, executor: &'e ExecutorSettings) -> Self {
        Self {
            name,
            kind: if executor.slurm.is_some() { ExecutorKind::Slurm } else { ExecutorKind::Ssh },
            destination: executor.host.as_deref(),
            program: executor.program.as_deref(),
            check: None,
        }
    }

    /// Returns the path of the program on the executor, or a description if the settings name no
    /// path.
    fn describe_program(&self) -> &str {
        match (self.kind, self.program) {
            (_, Some(path)) => path,
            (ExecutorKind::Local, None) => "this siding",
            (ExecutorKind::Ssh | ExecutorKind::Slurm, None) => "a copy of this siding",
        }
    }
}

impl ExecutorKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Ssh => "ssh",
            Self::Slurm => "slurm",
        }
    }
}

impl ExecutorCheckView {
    fn local() -> Self {
        Self {
            reachable: true,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            machine: Some(system_info::hostname()),
            weaker: Vec::new(),
            missing: Vec::new(),
            error: None,
        }
    }

    /// Returns the error, the missing files and the weaker guarantees as lines below the table.
    fn notes(&self) -> impl Iterator<Item = String> {
        let missing = self.missing.iter().map(|missing| format!("missing: {missing}"));
        let weaker = self.weaker.iter().map(|weaker| format!("weaker: {weaker}"));
        self.error.iter().cloned().chain(missing).chain(weaker)
    }
}

impl From<ExecutorCheck> for ExecutorCheckView {
    fn from(check: ExecutorCheck) -> Self {
        let ExecutorCheck { reachable, version, machine, weaker, missing, error } = check;
        Self { reachable: reachable && error.is_none(), version, machine, weaker, missing, error }
    }
}

fn format_table(views: &[ExecutorView<'_>], color: ColorMode, columns: usize) -> String {
    let row = |view: &ExecutorView<'_>| {
        let destination = one_line(view.destination.unwrap_or("-"), DESTINATION_COLUMNS);
        let cells = [view.name.to_owned(), view.kind.as_str().to_owned(), destination];
        (cells, view.describe_program().to_owned())
    };
    let rows: Vec<_> = views.iter().map(row).collect();
    let titles = [("NAME", Align::Left), ("KIND", Align::Left), ("DESTINATION", Align::Left)];
    format_grid(titles, "PROGRAM", &rows, color, columns)
}

/// Formats the results of the checks as a table, with the errors and the weaker guarantees below it.
fn format_checks(views: &[ExecutorView<'_>], color: ColorMode, columns: usize) -> String {
    let checked = || views.iter().filter_map(|view| Some((view.name, view.check.as_ref()?)));
    let row = |(name, check): (&str, &ExecutorCheckView)| {
        let state = if check.reachable { "reachable" } else { "unreachable" };
        let version = one_line(check.version.as_deref().unwrap_or("-"), VERSION_COLUMNS);
        let machine = check.machine.clone().unwrap_or_else(|| "-".to_owned());
        ([name.to_owned(), state.to_owned(), version], machine)
    };
    let rows: Vec<_> = checked().map(row).collect();
    let titles = [("NAME", Align::Left), ("STATE", Align::Left), ("VERSION", Align::Left)];
    let mut text = format_grid(titles, "MACHINE", &rows, color, columns);
    let notes = checked()
        .flat_map(|(name, check)| check.notes().map(move |note| format!("{name}: {note}")));
    for (index, note) in notes.enumerate() {
        if index == 0 {
            text.push('\n');
        }
        for line in render::wrap_untrusted(&note, columns, MAX_NOTE_LINES) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use siding_model::settings::{Key, Layer, Origin, RawValue, Settings};

    use super::*;
    use crate::render::sample::HOSTILE_TEXT;

    /// Returns settings with the executors `build`, whose siding has a path, and `gpu`.
    fn sample_settings() -> Settings {
        let text = |text: &str| RawValue::Text(text.to_owned());
        let table = |entries: Vec<(&str, RawValue)>| {
            let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
            RawValue::Table(entries.collect())
        };
        let build = vec![("host", text("me@build.example.org")), ("program", text("/opt/siding"))];
        let gpu = table(vec![("host", text("gpu"))]);
        let mut layer = Layer::default();
        let origin = Origin::User { path: "/u/config.toml".into() };
        layer
            .set(Key::Executor, &table(vec![("build", table(build)), ("gpu", gpu)]), origin.into())
            .expect("valid executors");
        Settings::merge([layer])
    }

    fn check(error: Option<&str>) -> ExecutorCheckView {
        let known = |text: &str| error.is_none().then(|| text.to_owned());
        ExecutorCheckView {
            reachable: error.is_none(),
            version: known("0.1.0"),
            machine: known("build07"),
            weaker: known("no control groups").into_iter().collect(),
            missing: known("paths: there is no directory `/srv`").into_iter().collect(),
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn the_table_lists_this_machine_first() {
        let settings = sample_settings();
        let views = list_views(&settings.executor, &[]).expect("no names");
        assert_eq!(
            format_table(&views, ColorMode::Off, 80),
            "NAME   KIND   DESTINATION           PROGRAM\n\
             local  local  -                     this siding\n\
             build  ssh    me@build.example.org  /opt/siding\n\
             gpu    ssh    gpu                   a copy of this siding\n"
        );
    }

    #[test]
    fn only_the_named_executors_are_listed() {
        let settings = sample_settings();
        let listed = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let views = list_views(&settings.executor, &names);
            views.map(|views| views.iter().map(|view| view.name.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(listed(&["gpu", "local"]).expect("known names"), ["local", "gpu"]);
        assert_eq!(listed(&["slurm"]).expect("it needs no settings"), ["slurm"]);
        let failure = listed(&["gpu", "biuld"]).expect_err("no such executor");
        assert_eq!(
            failure.message(),
            "no executor has the name `biuld`; the known names are: `local`, `slurm`, `build`, `gpu`"
        );
    }

    #[test]
    fn a_check_shows_machine_error_and_weaker_guarantees() {
        let settings = sample_settings();
        let mut views = list_views(&settings.executor, &[]).expect("no names");
        views.remove(0);
        views[0].check = Some(check(None));
        views[1].check = Some(check(Some("ssh: connect to host gpu port 22: timed out")));
        assert_eq!(
            format_checks(&views, ColorMode::Off, 80),
            "NAME   STATE        VERSION  MACHINE\n\
             build  reachable    0.1.0    build07\n\
             gpu    unreachable  -        -\n\
             \n\
             build: missing: paths: there is no directory `/srv`\n\
             build: weaker: no control groups\n\
             gpu: ssh: connect to host gpu port 22: timed out\n"
        );
        views[0].check = Some(ExecutorCheckView {
            version: Some(HOSTILE_TEXT.to_owned()),
            machine: Some(HOSTILE_TEXT.to_owned()),
            weaker: vec![HOSTILE_TEXT.to_owned()],
            missing: vec![HOSTILE_TEXT.to_owned()],
            ..check(Some(HOSTILE_TEXT))
        });
        for line in format_checks(&views, ColorMode::Off, 80).lines() {
            assert_eq!(line, one_line(line, 80));
        }
    }

    #[test]
    fn this_machine_is_reachable_without_a_connection() {
        let view = check_executor(LOCAL_EXECUTOR, None, None);
        assert!(view.reachable && view.error.is_none(), "{view:?}");
        assert_eq!(view.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    }
}
