//! The files that are copied to a remote machine before a command, and back after it.
//!
//! File names are bytes, because a project may contain any name.

mod skipped_links;

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::fnv::Fnv1a;
use crate::text::one_line;

pub use skipped_links::{SkippedLinkReader, SkippedLinks};

/// Maximum length of the readable part of a directory's name, in bytes.
const MAX_NAME_BYTES: usize = 40;

/// Maximum width of a path and of a message in the output of a task, in columns.
const NOTE_COLUMNS: usize = 200;

/// The files that a mirror copies back to this machine when its command has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchRequest {
    /// Absolute path of the local directory that receives the files.
    pub directory: String,
    /// Paths below the working directory of the remote command, each of which is copied to the same
    /// path below `directory`. They have the form that [`parse_relative_path`] returns.
    pub paths: Vec<String>,
}

/// A path that could not be copied back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FetchFailure {
    /// The path, relative to the working directory.
    pub path: String,
    /// The message of rsync or ssh, or the reason.
    pub why: String,
}

impl FetchFailure {
    /// Returns the line about the failure in the output of the task.
    #[must_use]
    pub fn output_line(&self) -> String {
        let [path, why] = [&self.path, &self.why].map(|text| one_line(text, NOTE_COLUMNS));
        format!("siding: could not fetch {path}: {why}\n")
    }
}

/// The reason why a path is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRelativePath {
    /// The path is absolute, or contains `..`.
    #[error("`{path}` may be outside of the directory; write a relative path without `..`")]
    Outside {
        /// The rejected path, made safe to print.
        path: String,
    },
    /// The path is empty or contains a NUL byte.
    #[error("an empty path, or one with a NUL byte, names no file; write a relative path")]
    NoPath,
    /// The path is in a directory of git.
    #[error("the files of git are not copied back, because git executes some of them")]
    GitFiles,
}

/// Checks a path that is copied back from a remote machine, as [`parse_relative_path`] does.
///
/// # Errors
///
/// [`BadRelativePath`], also for a path in a directory `.git`.
pub fn parse_fetch_path(text: &str) -> Result<String, BadRelativePath> {
    if text.split('/').any(|name| name == ".git") {
        return Err(BadRelativePath::GitFiles);
    }
    parse_relative_path(text)
}

/// Checks that a path is below the directory to which it is relative, and returns it without
/// superfluous parts: `a/b` for `./a//b/`. The directory itself is `.`.
///
/// # Errors
///
/// [`BadRelativePath`].
pub fn parse_relative_path(text: &str) -> Result<String, BadRelativePath> {
    if text.is_empty() || text.contains('\0') {
        return Err(BadRelativePath::NoPath);
    }
    let mut names = Vec::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => names.push(name.to_string_lossy()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(BadRelativePath::Outside { path: one_line(text, NOTE_COLUMNS) });
            }
        }
    }
    Ok(if names.is_empty() { ".".to_owned() } else { names.join("/") })
}

/// Returns the name of the directory for a project in the cache of a remote account: the name of the
/// project's directory, and a hash of this machine's name and the whole path. Two machines with the
/// same path would otherwise replace each other's files.
#[must_use]
pub fn remote_directory_name(machine: &str, top: &str) -> String {
    let name = Path::new(top).file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String =
        name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(MAX_NAME_BYTES).collect();
    let hash = Fnv1a::default()
        .with_bytes(machine.as_bytes())
        .with_bytes(b"\0")
        .with_bytes(top.as_bytes())
        .to_hex();
    // A dot at the beginning would hide the directory.
    match plain.trim_start_matches(['.', '-']) {
        "" => hash,
        plain => format!("{plain}-{hash}"),
    }
}

/// The files of a project that are on the remote machine because siding has sent them, as paths
/// relative to the project's directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SentFiles(BTreeSet<Vec<u8>>);

impl SentFiles {
    /// Creates the list. Paths that may be outside of the directory are left out.
    #[must_use]
    pub fn from_paths(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(paths.into_iter().filter(|path| is_beneath(path)).collect())
    }

    /// Reads a list of paths, each of which ends with a NUL byte. An incomplete last path is left
    /// out.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Self {
        let complete = bytes.iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1);
        Self::from_paths(bytes[..complete].split(|byte| *byte == 0).map(<[u8]>::to_vec))
    }

    /// Returns the paths in order, each with a NUL byte at its end.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|path| path.iter().copied().chain([0])).collect()
    }

    /// Returns the files of an earlier list that this one lacks and that no longer exist. A file that
    /// only left the project stays: where both machines share their files, it is the only copy.
    #[must_use]
    pub fn removed_since(&self, earlier: &Self, exists: impl Fn(&[u8]) -> bool) -> Self {
        Self(earlier.0.difference(&self.0).filter(|path| !exists(path)).cloned().collect())
    }

    /// Returns the files of this list that `other` lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).cloned().collect())
    }

    /// Returns the files of both lists.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0).cloned().collect())
    }

    /// Returns the number of files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

/// Returns whether a path names a file below the directory to which it is relative.
fn is_beneath(path: &[u8]) -> bool {
    !path.contains(&0)
        && path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_its_directory() {
        for (text, path) in [
            ("a", "a"),
            ("./a//b/", "a/b"),
            ("a/./b", "a/b"),
            (".", "."),
            ("-x", "-x"),
            ("a\nb", "a\nb"),
            ("..a", "..a"),
        ] {
            assert_eq!(parse_relative_path(text).as_deref(), Ok(path), "{text}");
        }
        for text in ["/etc", "..", "a/../b", "a/..", "../a"] {
            let refused = parse_relative_path(text).expect_err(text);
            assert!(refused.to_string().contains(text), "{refused}");
        }
        for text in ["", "a\0b"] {
            assert_eq!(parse_relative_path(text), Err(BadRelativePath::NoPath));
        }
    }

    #[test]
    fn the_name_of_a_directory_is_plain_and_belongs_to_one_project() {
        let name = remote_directory_name("laptop", "/home/me/my project");
        assert!(name.starts_with("my_project-"), "{name}");
        assert_eq!(name, remote_directory_name("laptop", "/home/me/my project"));
        assert_ne!(name, remote_directory_name("desktop", "/home/me/my project"));
        assert_ne!(name, remote_directory_name("laptop", "/home/you/my project"));
        for top in ["/", "/..a", "/-rf", "/$(reboot)", "/a\nb", &format!("/{}", "x".repeat(999))] {
            let name = remote_directory_name("laptop", top);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            assert!(name.chars().all(is_plain) && name.len() <= 60, "{name}");
            assert!(!name.starts_with(['.', '-']), "{name}");
        }
    }

    #[test]
    fn lists_of_sent_files_round_trip_and_keep_any_name() {
        let paths: [&[u8]; 4] = [b"-x", b"a/b\nc", b"\xff", b"d"];
        let sent = SentFiles::from_paths(paths.map(<[u8]>::to_vec));
        assert_eq!(SentFiles::decode(&sent.encode()), sent);
        assert_eq!(sent.count(), 4);
        // The end of the list is missing.
        assert_eq!(SentFiles::decode(b"a\0b"), SentFiles::from_paths([b"a".to_vec()]));
        assert_eq!(SentFiles::decode(b""), SentFiles::default());
    }

    #[test]
    fn only_files_of_the_earlier_list_are_removed() {
        let earlier = SentFiles::decode(b"a\0b/c\0kept\0");
        let now = SentFiles::decode(b"kept\0new\0");
        let removed = now.removed_since(&earlier, |_| false);
        assert_eq!(removed, SentFiles::decode(b"a\0b/c\0"));
        assert_eq!(earlier.without(&removed), SentFiles::decode(b"kept\0"));
        assert_eq!(earlier.without(&removed).with(&now), now);
        let existing = now.removed_since(&earlier, |path| path == b"a");
        assert_eq!(existing, SentFiles::decode(b"b/c\0"), "a file that exists here is kept");
        assert_eq!(now.removed_since(&SentFiles::default(), |_| false), SentFiles::default());
    }

    #[test]
    fn no_list_names_a_file_outside_of_the_directory() {
        let hostile = SentFiles::decode(b"/etc/passwd\0../x\0a/../../x\0a//b\0./a\0good\0\0");
        assert_eq!(hostile, SentFiles::decode(b"good\0"));
    }

    #[test]
    fn files_of_git_and_outside_of_the_directory_are_not_fetched() {
        assert_eq!(parse_fetch_path("./out/"), Ok("out".to_owned()));
        assert_eq!(parse_fetch_path("sub/.git/hooks"), Err(BadRelativePath::GitFiles));
        assert!(matches!(parse_fetch_path("../out"), Err(BadRelativePath::Outside { .. })));
    }

    #[test]
    fn the_line_about_a_failure_is_one_line() {
        let failure = FetchFailure { path: "a\nb".to_owned(), why: "\u{1b}[2J".to_owned() };
        let line = failure.output_line();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}
