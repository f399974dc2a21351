//! Executes a program without the shell, if the shell would do nothing but execute it.
//!
//! Most commands of agents are one program with plain words: `cargo build`, `npm test`. `bash -c`
//! replaces itself with that program after a millisecond of initialization. The shim executes the
//! program directly, with the environment that bash would pass on. `docs/adr/0006-plain-words.md`
//! has the measurement.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use siding_core::sys::file;
use siding_model::shell;
use siding_model::spec::{TaskCommand, TaskSpec};

/// A program that is executed in place of a shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DirectExec {
    /// The path at which bash would find the program.
    pub(crate) path: String,
    /// The arguments of the program, with its name as the first.
    pub(crate) argv: Vec<String>,
    /// The environment of the program, as `NAME=value`.
    pub(crate) environment: Vec<CString>,
}

impl DirectExec {
    /// Returns the program that bash would execute for this task's text, if bash would do nothing
    /// else. Returns `None` for another shell and in case of doubt; the shell then runs the text.
    pub(crate) fn for_task(spec: &TaskSpec, environment: &[CString]) -> Option<Self> {
        let TaskCommand::Shell { text, shell } = &spec.command else { return None };
        if Path::new(shell).file_name()? != "bash" {
            return None;
        }
        if !environment.iter().all(|variable| shell::has_no_effect_on_bash(variable.to_bytes())) {
            return None;
        }
        let words = shell::plain_program_words(text)?;
        let cwd = Path::new(&spec.cwd);
        let path = find_program(words.first()?, env_value(environment, "PATH")?, cwd)?;
        Some(Self {
            environment: environment_after_bash(environment, cwd, &path)?,
            argv: words.into_iter().map(str::to_owned).collect(),
            path,
        })
    }
}

/// Returns the first program of this name in the directories of `search`. A name with a slash is a
/// path from `cwd`, and is not searched for. `None` if there is no such program, or if bash must
/// search.
fn find_program(name: &str, search: &[u8], cwd: &Path) -> Option<String> {
    if name.contains('/') {
        return file::is_program(&cwd.join(name)).then(|| name.to_owned());
    }
    for dir in search.split(|&byte| byte == b':') {
        // An entry relative to the working directory is left to bash.
        let dir = Path::new(OsStr::from_bytes(dir));
        if !dir.is_absolute() {
            return None;
        }
        let path = dir.join(name);
        if file::is_program(&path) {
            return path.into_os_string().into_string().ok();
        }
    }
    None
}

fn env_value<'e>(environment: &'e [CString], name: &str) -> Option<&'e [u8]> {
    environment
        .iter()
        .find_map(|variable| variable.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Returns the environment that bash passes to a program with which it replaces itself; `None` if
/// the working directory cannot be resolved or is not UTF-8.
fn environment_after_bash(environment: &[CString], cwd: &Path, path: &str) -> Option<Vec<CString>> {
    let text = |name| std::str::from_utf8(env_value(environment, name)?).ok();
    // Bash keeps an inherited PWD that names the working directory, even through symbolic links.
    let pwd = text("PWD").map(PathBuf::from).filter(|pwd| is_same_directory(pwd, cwd));
    let pwd = pwd.or_else(|| std::fs::canonicalize(cwd).ok())?;
    // Bash increments SHLVL at its start, and decrements it before it replaces itself.
    let level = text("SHLVL").and_then(|level| level.parse::<u16>().ok()).unwrap_or(0);
    let old_pwd = text("OLDPWD").filter(|dir| Path::new(dir).is_dir());
    let mut variables: Vec<CString> = environment
        .iter()
        .filter(|variable| {
            let name = variable.to_bytes().split(|&byte| byte == b'=').next().unwrap_or_default();
            !matches!(name, b"PWD" | b"SHLVL" | b"OLDPWD" | b"_")
        })
        .cloned()
        .collect();
    variables.push(CString::new(format!("PWD={}", pwd.to_str()?)).ok()?);
    variables.push(CString::new(format!("SHLVL={level}")).ok()?);
    if let Some(came_from) = old_pwd {
        variables.push(CString::new(format!("OLDPWD={came_from}")).ok()?);
    }
    variables.push(CString::new(format!("_={path}")).ok()?);
    Some(variables)
}

fn is_same_directory(pwd: &Path, cwd: &Path) -> bool {
    pwd.is_absolute() && (pwd == cwd || file::is_same_file(pwd, cwd))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[&str]) -> Vec<CString> {
        variables.iter().map(|text| CString::new(*text).expect("has no NUL byte")).collect()
    }

    #[test]
    fn a_program_is_found_where_bash_finds_it() {
        let root = Path::new("/");
        assert_eq!(find_program("sh", b"/nowhere:/bin:/usr/bin", root), Some("/bin/sh".to_owned()));
        assert_eq!(find_program("./bin/sh", b"/usr/bin", root), Some("./bin/sh".to_owned()));
        assert_eq!(find_program("sh", b":/bin", root), None, "the working directory comes first");
        assert_eq!(find_program("passwd", b"/etc", root), None, "not a program");
        assert_eq!(find_program("bin", b"/:/bin", root), None, "a directory");
    }

    #[test]
    fn the_environment_matches_what_bash_passes_on() {
        let input = environment(&["A=1", "PWD=/wrong", "SHLVL=3", "OLDPWD=/gone", "_=/bin/x"]);
        let environment_left =
            environment_after_bash(&input, Path::new("/"), "/bin/y").expect("is plain");
        assert_eq!(environment_left, environment(&["A=1", "PWD=/", "SHLVL=3", "_=/bin/y"]));
    }
}
