//! Arguments and text that `siding history` and `siding stats` share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use siding_history::Filter;
use siding_model::duration::format_duration;
use siding_model::executor::is_executor_name;
use siding_model::process::UnixMs;
use siding_model::text::one_line;

use crate::failure::Failure;

/// Maximum width in columns of the directory that precedes a command in a listing.
const DIRECTORY_COLUMNS: usize = 20;

/// Whether the runs of a listing were in one directory. If they were, the listing omits it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryCount {
    /// All runs were in the same directory.
    One,
    /// The runs were in different directories.
    Several,
}

/// Returns whether a path names a directory of an executor, such as `build:/srv/src`.
fn is_remote(path: &Path) -> bool {
    let parts = path.to_str().and_then(|text| text.split_once(":/"));
    parts.is_some_and(|(name, _)| is_executor_name(name))
}

/// Arguments that select runs by command and directory.
#[derive(Debug, clap::Args)]
pub(crate) struct RunSelection {
    /// Command to show, or its first words (default: all commands)
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Show only runs in this directory; `NAME:DIR` for a directory of an executor
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

impl RunSelection {
    /// Returns the filter for the selected runs.
    pub(crate) fn into_filter(self) -> Result<Filter, Failure> {
        let bad = |why: &dyn std::fmt::Display| Failure::new(format!("--cwd: {why}"));
        let cwd = match self.cwd {
            Some(path) => {
                let path = if is_remote(&path) {
                    path
                } else {
                    std::path::absolute(path).map_err(|error| bad(&error))?
                };
                Some(path.into_os_string().into_string().map_err(|_| bad(&"it is not UTF-8"))?)
            }
            None => None,
        };
        let command = (!self.command.is_empty()).then(|| self.command.join(" "));
        Ok(Filter::new(command.as_deref(), cwd.as_deref()))
    }
}

/// Prints that the history has no matching run.
pub(crate) fn report_no_runs(filter: &Filter) {
    if *filter == Filter::default() {
        errln!("siding: no command has ended yet; `siding run -- COMMAND` runs one");
    } else {
        errln!("siding: no matching run in the history; `siding stats` lists all commands");
    }
}

/// Formats the age of an event in its largest unit: `3h ago`.
pub(crate) fn format_age(then: UnixMs, now: UnixMs) -> String {
    let ms = u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0);
    let seconds = format_duration(Duration::from_secs(ms / 1000));
    format!("{} ago", seconds.split(' ').next().unwrap_or(&seconds))
}

/// Returns whether these directories of runs are all the same.
pub(crate) fn count_directories<'d>(
    mut directories: impl Iterator<Item = &'d str>,
) -> DirectoryCount {
    let first = directories.next();
    if directories.any(|directory| Some(directory) != first) {
        DirectoryCount::Several
    } else {
        DirectoryCount::One
    }
}

/// Formats the command of a run. If the listed runs were in different directories, the end of this
/// run's directory precedes the command: `…/p/web$ make`.
pub(crate) fn format_command(
    command: &str,
    directory: &str,
    directories: DirectoryCount,
) -> String {
    if directories == DirectoryCount::One {
        return command.to_owned();
    }
    let mut shown = directory;
    while one_line(shown, DIRECTORY_COLUMNS) != shown {
        // Leading components of the path are removed until the rest fits or is the last component.
        let Some(cut) = shown.get(1..).and_then(|rest| rest.find('/')) else { break };
        shown = &shown[1 + cut..];
    }
    let lead = if shown.len() < directory.len() { "…" } else { "" };
    format!("{lead}{}$ {command}", one_line(shown, DIRECTORY_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_formatted_in_one_unit() {
        let ago = |ms: i64| format_age(UnixMs(0), UnixMs(ms));
        let texts = [0, 59_999, 61_000, 7_300_000, 200_000_000].map(ago);
        assert_eq!(texts, ["0s ago", "59s ago", "1m ago", "2h ago", "2d ago"]);
        assert_eq!(ago(-5), "0s ago");
    }

    #[test]
    fn the_directory_is_shown_only_when_there_are_several() {
        assert_eq!(format_command("make", "/home/p", DirectoryCount::One), "make");
        assert_eq!(format_command("make", "/home/p", DirectoryCount::Several), "/home/p$ make");
        let long = "/home/person/projects/siding/crates/model";
        assert_eq!(
            format_command("make", long, DirectoryCount::Several),
            "…/siding/crates/model$ make"
        );
        let wide = format!("/{}", "x".repeat(40));
        assert_eq!(
            format_command("make", &wide, DirectoryCount::Several),
            format!("/{}…$ make", "x".repeat(18))
        );
        assert_eq!(format_command("make", "/", DirectoryCount::Several), "/$ make");
        assert_eq!(format_command("make", "", DirectoryCount::Several), "$ make");
        assert_eq!(count_directories(["/a", "/a"].into_iter()), DirectoryCount::One);
        assert_eq!(count_directories(["/a", "/b"].into_iter()), DirectoryCount::Several);
    }
}
