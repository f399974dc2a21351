//! `siding config show`: shows every setting with its origin.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::settings::{self, Environment, LoadedSettings, WritableLayer};
use siding_model::settings::{Key, RawValue, SettingEntry, Settings};

use crate::exit;
use crate::failure::Failure;
use crate::{render, stdout};

/// Shows every setting with its value and origin, and the files that settings come from.
///
/// A mistake in a file or variable is reported with its line, and the mistaken value is ignored.
/// Commands that need settings, such as `run`, fail until the mistake is corrected.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config show
  siding config show max_memory kill_grace
  siding config show --json | jq -r '.[] | select(.locked).key'")]
pub(super) struct Args {
    /// Settings to show (default: all of them, and the files)
    #[arg(value_name = "KEY", value_parser = super::parse_key)]
    keys: Vec<Key>,
    /// Print a JSON array with one object for each setting: key, value, origin, source (path or
    /// variable), line, locked
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding config show` and `siding config get` for one setting.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "setting")]
pub(in crate::cmd) struct SettingView {
    /// Name of the setting in a settings file.
    key: &'static str,
    /// The effective value, as written in a file.
    #[schemars(with = "serde_json::Value")]
    value: RawValue,
    /// The layer that sets the value: `built-in`, `system`, `host`, `user`, `project` or
    /// `environment`.
    origin: &'static str,
    /// Path of the file, or name of the variable, that sets the value; null for a default.
    source: Option<String>,
    /// Line in the file, counted from 1; null if the value is not from a file.
    line: Option<usize>,
    /// Whether the system file locks the key, so that no later layer can set it.
    locked: bool,
}

impl SettingView {
    pub(super) fn new(entry: &SettingEntry<'_>) -> Self {
        let origin = &entry.source.origin;
        let variable = || (origin.layer() == "environment").then(|| entry.key.env_var());
        Self {
            key: entry.key.name(),
            value: entry.value.clone(),
            origin: origin.layer(),
            source: origin.path().map(|path| path.display().to_string()).or_else(variable),
            line: entry.source.line,
            locked: entry.locked,
        }
    }
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let environment = Environment::from_process();
        let reading = settings::read(&environment);
        let is_requested =
            |entry: &SettingEntry<'_>| self.keys.is_empty() || self.keys.contains(&entry.key);
        let entries = reading.settings.entries().filter(is_requested);
        let views: Vec<_> = entries.map(|entry| SettingView::new(&entry)).collect();
        if self.json {
            render::json::print(&views)?;
        } else {
            let home = environment.home.as_deref();
            let mut text = format_table(&views, home);
            if self.keys.is_empty() {
                text.push('\n');
                text.push_str(&format_files(&list_files(&environment, &reading), home));
            }
            stdout::print_text(&text)?;
        }
        Ok(report_mistakes(&reading))
    }
}

/// Prints the warnings and mistakes of all sources, and returns the exit code: a failure if there
/// are mistakes.
pub(super) fn report_mistakes(reading: &LoadedSettings) -> ExitCode {
    print_warnings(&reading.settings);
    for mistake in &reading.mistakes {
        errln!("siding: {mistake}");
    }
    let executor_mistake = super::default_executor_mistake(&reading.settings);
    if let Some(mistake) = &executor_mistake {
        errln!("siding: {mistake}");
    }
    if reading.mistakes.is_empty() && executor_mistake.is_none() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::SIDING_FAILED)
    }
}

/// Prints a warning for each valid value that has no effect, such as a value for a locked key.
pub(super) fn print_warnings(settings: &Settings) {
    for warning in settings.warnings() {
        errln!("siding: {warning}");
    }
}

/// Formats the settings as a table. If a row would be too long, its value is wrapped and its origin
/// is on a separate line.
fn format_table(views: &[SettingView], home: Option<&Path>) -> String {
    let key = views.iter().map(|view| view.key.len()).max().unwrap_or(0);
    // Only values of at most 12 characters determine the column's width, so that one long list does
    // not widen it for all rows.
    let short =
        |view: &SettingView| Some(shown_value(view).chars().count()).filter(|count| *count <= 12);
    let value = views.iter().filter_map(short).max().unwrap_or(0);
    let columns = stdout::text_columns();
    let mut text = String::new();
    for view in views {
        let shown = shown_value(view);
        let mut line = format!("{:<key$}  {shown:<value$}  ", view.key);
        let origin = format_origin(view, home);
        if line.chars().count() + origin.chars().count() > columns {
            line = stdout::wrap_beside(view.key, &shown, key + 2, columns) + "\n    ";
        }
        text.push_str(line.as_str());
        text.push_str(&origin);
        text.push('\n');
    }
    text
}

/// Returns the value for a person: `no limit` instead of a zero that means no limit.
fn shown_value(view: &SettingView) -> String {
    match Key::from_name(view.key) {
        Some(key) => key.format_value(&view.value),
        None => view.value.to_string(),
    }
}

/// A file that can contain settings.
#[derive(Debug)]
struct SettingsFile {
    layer: &'static str,
    path: PathBuf,
    /// Whether siding tried to read the file; otherwise it is missing, or another user's.
    is_read: bool,
}

/// Returns the files of all layers, in the order of precedence, the lowest first.
fn list_files(environment: &Environment, reading: &LoadedSettings) -> Vec<SettingsFile> {
    let own = |layer, name| {
        let path = match settings::writable_file(environment, layer) {
            Ok(path) => path?,
            Err(mistake) => mistake.unreadable_file()?.to_owned(),
        };
        let is_read = reading.files.contains(&path);
        Some(SettingsFile { layer: name, path, is_read })
    };
    let system = own(WritableLayer::System, "system");
    let above = [own(WritableLayer::User, "user"), own(WritableLayer::Project, "project")];
    let is_own =
        |path: &PathBuf| system.iter().chain(above.iter().flatten()).any(|file| file.path == *path);
    let host: Vec<SettingsFile> = reading
        .files
        .iter()
        .filter(|&path| !is_own(path))
        .map(|path| SettingsFile { layer: "host", path: path.clone(), is_read: true })
        .collect();
    system.into_iter().chain(host).chain(above.into_iter().flatten()).collect()
}

fn format_files(files: &[SettingsFile], home: Option<&Path>) -> String {
    let mut text = "files, each takes precedence over those above it:\n".to_owned();
    for file in files {
        let path = shorten_home(&file.path.display().to_string(), home);
        let missing = if file.is_read { "" } else { " (missing)" };
        text.push_str(&format!("  {:<7}  {path}{missing}\n", file.layer));
    }
    text
}

/// Replaces the home directory at the beginning of a path by `~`.
fn shorten_home(path: &str, home: Option<&Path>) -> String {
    let below_home = home.and_then(|home| Path::new(path).strip_prefix(home).ok());
    below_home.map_or_else(|| path.to_owned(), |rest| format!("~/{}", rest.display()))
}

fn format_origin(view: &SettingView, home: Option<&Path>) -> String {
    let mut origin = view.origin.to_owned();
    if let Some(source) = &view.source {
        origin.push_str(&format!(" {}", shorten_home(source, home)));
    }
    if let Some(line) = view.line {
        origin.push_str(&format!(" line {line}"));
    }
    if view.locked {
        origin.push_str(" (locked)");
    }
    origin
}

#[cfg(test)]
mod tests {
    use siding_model::settings::{Layer, Origin, SettingSource};

    use super::*;

    fn sample_views(path: &str) -> Vec<SettingView> {
        let mut layer = Layer::default();
        let origin = Origin::System { path: path.into() };
        let place = SettingSource { origin, line: Some(3) };
        let value = RawValue::Text("2s".to_owned());
        layer.set(Key::KillGrace, &value, place.clone()).expect("legal");
        layer.lock("kill_grace", place).expect("the system file may");
        let mut own = Layer::default();
        let origin = Origin::Environment { name: Key::Shell.env_var() };
        own.set(Key::Shell, &RawValue::Text("zsh".to_owned()), origin.into()).expect("legal");
        Settings::merge([layer, own]).entries().map(|entry| SettingView::new(&entry)).collect()
    }

    #[test]
    fn the_table_shows_each_value_with_its_origin() {
        let text = format_table(&sample_views("/home/me/s.toml"), Some(Path::new("/home/me")));
        // A separate line with an origin is indented, and so are the later lines of a wrapped
        // value.
        let rows = text.lines().filter(|line| !line.starts_with(' '));
        assert_eq!(rows.count(), Key::ALL.len());
        assert!(text.contains("kill_grace            2s"), "{text}");
        assert!(text.contains("  system ~/s.toml line 3 (locked)\n"), "{text}");
        assert!(text.contains("  environment SIDING_SHELL\n"), "{text}");
        assert!(text.contains("  built-in\n"), "{text}");
        assert!(text.contains("\nmax_memory            no limit  built-in\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_long_origin_path_moves_to_its_own_line() {
        let path = format!("/{}", "x".repeat(60));
        let text = format_table(&sample_views(&path), None);
        assert!(text.contains(&format!("2s\n    system {path} line 3")), "{text}");
    }

    #[test]
    fn files_are_listed_by_precedence_and_missing_ones_too() {
        let file = |layer, path: &str, is_read| SettingsFile { layer, path: path.into(), is_read };
        let files = [file("system", "/etc/s.toml", false), file("user", "/home/me/s.toml", true)];
        assert_eq!(
            format_files(&files, Some(Path::new("/home/me"))),
            "files, each takes precedence over those above it:\n  \
             system   /etc/s.toml (missing)\n  \
             user     ~/s.toml\n"
        );
    }

    #[test]
    fn an_unreadable_project_file_is_listed_in_its_layer() {
        let dir = std::env::temp_dir().join(format!("siding-show-{}", std::process::id()));
        let path = dir.join(".siding/config.toml");
        std::fs::create_dir_all(&path).expect("made");
        let environment = Environment {
            working_directory: Some(dir.clone()),
            home: Some(dir.clone()),
            ..Environment::default()
        };
        let files = list_files(&environment, &settings::read(&environment));
        std::fs::remove_dir_all(&dir).expect("removed");
        let [file] = &files[..] else { panic!("expected one: {files:?}") };
        assert_eq!((file.layer, &file.path, file.is_read), ("project", &path, true));
    }

    #[test]
    fn json_contains_value_origin_line_and_lock() {
        let json = serde_json::to_value(sample_views("/etc/s.toml")).expect("serializes");
        let grace = &json[Key::KillGrace as usize];
        assert_eq!(
            *grace,
            serde_json::json!({
                "key": "kill_grace", "value": "2s", "origin": "system",
                "source": "/etc/s.toml", "line": 3, "locked": true
            })
        );
        assert_eq!(json[Key::Shell as usize]["source"], "SIDING_SHELL");
    }
}
