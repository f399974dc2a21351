//! What `history` and `stats` say in the same way.

use std::path::PathBuf;
use std::time::Duration;

use siding_history::Filter;
use siding_model::duration::format_duration;
use siding_model::process::UnixMs;
use siding_model::text::one_line;

use crate::failure::Failure;

/// Columns of a directory before a command.
const PLACE: usize = 20;

/// Whether directories are worth a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Places {
    /// All is in one.
    One,
    /// They differ.
    Several,
}

/// Returns the filter for a command and a directory.
pub(crate) fn filter(command: &[String], cwd: Option<PathBuf>) -> Result<Filter, Failure> {
    let bad = |why: &dyn std::fmt::Display| Failure::new(format!("--cwd: {why}"));
    let cwd = match cwd {
        Some(path) => {
            let path = std::path::absolute(path).map_err(|error| bad(&error))?;
            Some(path.into_os_string().into_string().map_err(|_| bad(&"it is not UTF-8"))?)
        }
        None => None,
    };
    let command = (!command.is_empty()).then(|| command.join(" "));
    Ok(Filter::new(command.as_deref(), cwd.as_deref()))
}

/// Says that nothing is remembered.
pub(crate) fn nothing(filter: &Filter) {
    if *filter == Filter::default() {
        errln!("siding: no command has ended yet; `siding run -- COMMAND` runs one");
    } else {
        errln!("siding: no such run is remembered; `siding stats` lists what is");
    }
}

/// Returns how long ago something was, in one part: `3h ago`.
pub(crate) fn ago(then: UnixMs, now: UnixMs) -> String {
    let ms = u64::try_from(now.0.saturating_sub(then.0)).unwrap_or(0);
    let seconds = format_duration(Duration::from_secs(ms / 1000));
    format!("{} ago", seconds.split(' ').next().unwrap_or(&seconds))
}

/// Returns whether these are several directories.
pub(crate) fn places<'d>(mut directories: impl Iterator<Item = &'d str>) -> Places {
    let first = directories.next();
    if directories.any(|directory| Some(directory) != first) {
        Places::Several
    } else {
        Places::One
    }
}

/// Returns a command, behind the end of its directory where that says something: `…/p/web$ make`.
pub(crate) fn place(command: &str, directory: &str, places: Places) -> String {
    if places == Places::One {
        return command.to_owned();
    }
    let mut shown = directory;
    while one_line(shown, PLACE) != shown {
        // Whole parts go as long as there are several.
        let Some(cut) = shown.get(1..).and_then(|rest| rest.find('/')) else { break };
        shown = &shown[1 + cut..];
    }
    let lead = if shown.len() < directory.len() { "…" } else { "" };
    format!("{lead}{}$ {command}", one_line(shown, PLACE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_in_one_part() {
        let ago = |ms: i64| ago(UnixMs(0), UnixMs(ms));
        let told = [0, 59_999, 61_000, 7_300_000, 200_000_000].map(ago);
        assert_eq!(told, ["0s ago", "59s ago", "1m ago", "2h ago", "2d ago"]);
        assert_eq!(ago(-5), "0s ago");
    }

    #[test]
    fn a_directory_is_told_where_there_are_several() {
        assert_eq!(place("make", "/home/p", Places::One), "make");
        assert_eq!(place("make", "/home/p", Places::Several), "/home/p$ make");
        let long = "/home/person/projects/siding/crates/model";
        assert_eq!(place("make", long, Places::Several), "…/siding/crates/model$ make");
        let wide = format!("/{}", "x".repeat(40));
        assert_eq!(place("make", &wide, Places::Several), format!("/{}…$ make", "x".repeat(18)));
        assert_eq!(place("make", "/", Places::Several), "/$ make");
        assert_eq!(place("make", "", Places::Several), "$ make");
        assert_eq!(places(["/a", "/a"].into_iter()), Places::One);
        assert_eq!(places(["/a", "/b"].into_iter()), Places::Several);
    }
}
