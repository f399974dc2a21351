//! The command lines of ssh(1).
//!
//! siding uses the system's ssh with the user's configuration, agent, jump hosts and certificates.
//! siding never handles a password: `BatchMode` makes ssh fail instead of asking for one.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use siding_model::executor::RemoteExecutor;
use siding_model::fnv::Fnv1a;
use siding_model::shell_words::{join_quoted, quote_word, single_quote};
use siding_model::text::one_line;

use super::program::{OWN_PROGRAM, ProgramCopy};
use crate::store::StateDir;
use crate::sys::process;

/// The first argument of siding's process on a remote machine.
pub const SERVE_ARGUMENT: &str = "__serve";

/// Options for every connection. ssh detects a dead connection within 45 seconds. All tasks of an
/// executor share one connection, which ends one minute after the last task.
pub const SSH_OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "ConnectTimeout=20",
    "ControlMaster=auto",
    "ControlPersist=60",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=15",
];

/// The search path for ssh if that of the starter is unknown.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Days after the last use of a copy of the program after which the next installation removes it.
const MAX_UNUSED_DAYS: u32 = 30;

/// The line that precedes the answer to a query.
const ANSWER_LINE: &str = "siding-answer";

/// Maximum width of a message of ssh, in columns.
const MESSAGE_COLUMNS: usize = 200;

/// Returns the last message on ssh's standard error, in one line; `None` if there is none.
#[must_use]
pub fn last_message(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map(|line| one_line(line, MESSAGE_COLUMNS))
}

/// Returns the command that serves a mirror on the remote machine, with pipes as its standard
/// streams. If siding is missing there, the command prints [`RemoteMessage::Missing`] instead.
///
/// [`RemoteMessage::Missing`]: siding_model::remote::RemoteMessage::Missing
#[must_use]
pub fn serve_command(executor: &RemoteExecutor, copy: Option<&ProgramCopy>) -> Command {
    siding_command(executor, copy, &[SERVE_ARGUMENT])
}

/// Returns the command that serves a mirror on this machine, for a Slurm cluster whose client
/// commands, such as sbatch(1), are on this machine. `root` is the state directory.
#[must_use]
pub fn local_serve_command(root: &StateDir, executor: &RemoteExecutor) -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg(SERVE_ARGUMENT).env_clear().env("PATH", DEFAULT_PATH);
    command.envs(executor.variables()).env("SIDING_STATE_DIR", state_path(root));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the path of the state directory, of which a shim has only a descriptor.
fn state_path(root: &StateDir) -> PathBuf {
    let link = format!("/proc/self/fd/{}", root.as_fd().as_raw_fd());
    std::fs::read_link(link).unwrap_or_else(|_| root.path().to_owned())
}

/// Returns the command that runs siding with these arguments on the remote machine, as
/// [`serve_command`] does.
#[must_use]
pub fn siding_command(
    executor: &RemoteExecutor,
    copy: Option<&ProgramCopy>,
    arguments: &[&str],
) -> Command {
    remote_command(executor, &siding_script(executor, copy, arguments))
}

/// Returns the command like [`siding_command`], for output of siding that [`answer`] finds.
#[must_use]
pub fn query_command(
    executor: &RemoteExecutor,
    copy: Option<&ProgramCopy>,
    arguments: &[&str],
) -> Command {
    let script = siding_script(executor, copy, arguments);
    remote_command(executor, &format!("echo {ANSWER_LINE}; {script}"))
}

/// Returns the command that prints the positions of the paths that are not directories on the
/// remote machine. Positions count from 0, and each is a line of the [`answer`].
pub(super) fn missing_directories_command(executor: &RemoteExecutor, paths: &[&str]) -> Command {
    let paths = join_quoted(paths);
    let script = format!(
        "echo {ANSWER_LINE}; i=0; for d in {paths}; do test -d \"$d\" || echo $i; i=$((i+1)); done"
    );
    remote_command(executor, &script)
}

/// Returns the part of the output of a [`query_command`] after the text that the startup files of
/// the remote shell have printed; empty if the shell did not reach the command.
#[must_use]
pub fn answer(output: &[u8]) -> &[u8] {
    let mut rest = output;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        if line == ANSWER_LINE.as_bytes() {
            return after;
        }
        rest = after;
    }
    &[]
}

/// Reads the output of a [`query_command`] up to its [`answer`]. Returns false if there is none.
///
/// # Errors
///
/// The I/O error of the reader.
pub fn skip_to_answer(output: &mut impl BufRead) -> io::Result<bool> {
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? > 0 {
        if line.strip_suffix(b"\n") == Some(ANSWER_LINE.as_bytes()) {
            return Ok(true);
        }
        line.clear();
    }
    Ok(false)
}

/// Returns the script that runs siding with these arguments, or prints that it is missing.
fn siding_script(
    executor: &RemoteExecutor,
    copy: Option<&ProgramCopy>,
    arguments: &[&str],
) -> String {
    let program = match (&executor.program, copy) {
        (Some(path), _) => quote_word(path),
        (None, Some(copy)) => format!("\"{}\"", copy.remote_path()),
        (None, None) => "siding".to_owned(),
    };
    let arguments = join_quoted(arguments);
    // `command -v` finds a path as well as a name.
    format!(
        "p={program}; if command -v \"$p\" >/dev/null 2>&1; then exec \"$p\" {arguments}; fi; \
         printf \"{{\\\"say\\\":\\\"missing\\\",\\\"processor\\\":\\\"%s\\\"}}\\n\" \"$(uname -m)\""
    )
}

/// Returns the command that stores its standard input as the copy of the program on the remote
/// machine. An incomplete copy is discarded. Other copies are removed if they were unused for
/// `MAX_UNUSED_DAYS`: a running program keeps its file until it exits, and a mirror that later
/// needs such a copy stores it again.
#[must_use]
pub fn install_command(executor: &RemoteExecutor, copy: &ProgramCopy) -> Command {
    let path = copy.remote_path();
    let script = format!(
        "umask 077; p=\"{path}\"; mkdir -p \"${{p%/*}}\" && cat > \"$p.$$\" && \
         if [ \"$(wc -c < \"$p.$$\")\" -eq {size} ]; then chmod 700 \"$p.$$\" && mv -f \"$p.$$\" \"$p\" && \
         {{ find \"${{p%/*}}\" -type f -name 'siding-*' -atime +{MAX_UNUSED_DAYS} \
         -mtime +{MAX_UNUSED_DAYS} -exec rm -f {{}} + 2>/dev/null; :; }}; \
         else rm -f \"$p.$$\"; exit 1; fi",
        size = copy.size()
    );
    remote_command(executor, &script)
}

/// Returns the ssh command that runs a script of sh(1) on the remote machine.
pub(super) fn remote_command(executor: &RemoteExecutor, script: &str) -> Command {
    let mut command = local_command("ssh", executor);
    command.args(connection_arguments(executor));
    // The user's login shell may be any shell; every shell passes a text in single quotes
    // unchanged.
    command.arg(format!("exec sh -c {}", single_quote(script)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns a command that runs a local program with the variables that ssh needs, and no others.
pub(super) fn local_command(program: &str, executor: &RemoteExecutor) -> Command {
    let path = executor.variables().find(|(name, _)| *name == "PATH");
    let path = path.map_or(DEFAULT_PATH, |(_, path)| path);
    // Given a name, which must be searched in the new PATH, the standard library uses fork(2),
    // which copies this process; given a path, it does not.
    let mut command = Command::new(find_program(program, path).unwrap_or_else(|| program.into()));
    command.env_clear().env("PATH", path).envs(executor.variables());
    command
}

/// Returns the absolute path of a program in a search path.
fn find_program(name: &str, search_path: &str) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let is_executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0)
    };
    let dirs = std::env::split_paths(search_path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name)).find(is_executable)
}

/// Returns the arguments of ssh before the remote command: the options and the destination.
pub(super) fn connection_arguments(executor: &RemoteExecutor) -> Vec<OsString> {
    let mut arguments = vec![OsString::from("-T")];
    for option in SSH_OPTIONS {
        arguments.extend(["-o", option].map(OsString::from));
    }
    if let Some(path) = control_path(executor) {
        let mut option = OsString::from("ControlPath=");
        option.push(path);
        arguments.extend([OsString::from("-o"), option]);
    }
    arguments.extend(["--", executor.destination()].map(OsString::from));
    arguments
}

/// Returns whether a connection that another task opened to the machine is still open, so that
/// ssh is very unlikely to fail.
#[must_use]
pub fn has_shared_connection(executor: &RemoteExecutor) -> bool {
    // A local siding always answers.
    executor.destination.is_none() || control_path(executor).is_some_and(|path| path.exists())
}

/// Returns the path of the socket over which the tasks of an executor share a connection, and
/// creates its directory. Returns `None` if the directory cannot be created or belongs to another
/// user; each task then has a separate connection. A path below the state directory may be too long
/// for a socket (unix(7)).
fn control_path(executor: &RemoteExecutor) -> Option<PathBuf> {
    let uid = process::effective_uid();
    let run = PathBuf::from(format!("/run/user/{uid}"));
    let base = if run.is_dir() { run } else { PathBuf::from("/tmp") };
    let path = base.join(format!("siding-ssh-{uid}"));
    let _exists_already = std::fs::DirBuilder::new().mode(0o700).create(&path);
    let facts = std::fs::symlink_metadata(&path).ok()?;
    let is_private = {
        use std::os::unix::fs::MetadataExt as _;
        facts.is_dir() && facts.uid() == uid && facts.mode() & 0o077 == 0
    };
    // With a different ssh configuration, the same destination may be another machine.
    let home = executor.ssh_variables.iter().find(|(name, _)| name == "HOME");
    let key = Fnv1a::default()
        .with_bytes(executor.destination().as_bytes())
        .with_bytes(home.map_or("", |(_, home)| home).as_bytes());
    is_private.then(|| path.join(key.to_hex()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(program: Option<&str>) -> RemoteExecutor {
        RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("me@build".to_owned()),
            program: program.map(str::to_owned),
            slurm: None,
            ssh_variables: vec![("SSH_AUTH_SOCK".to_owned(), "/run/agent".to_owned())],
        }
    }

    /// Runs the script of a command with sh, as the remote machine would do.
    fn run_script(command: &Command, home: &std::path::Path, input: &[u8]) -> (String, bool) {
        use std::io::Write as _;
        let script = command.get_args().last().expect("the script").to_owned();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).env("HOME", home).env_remove("XDG_CACHE_HOME");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().expect("sh");
        // A script that does not read its input may have exited already.
        let _not_read = shell.stdin.take().expect("piped").write_all(input);
        let output = shell.wait_with_output().expect("it ends");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
    }

    #[test]
    fn ssh_gets_the_destination_after_the_options() {
        let command = serve_command(&executor(None), None);
        let arguments: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let at = arguments.iter().position(|word| word == "--").expect("an end of options");
        assert_eq!(arguments[at + 1], "me@build");
        assert_eq!(arguments.len(), at + 3);
        assert!(command.get_envs().any(|(name, _)| name == "SSH_AUTH_SOCK"));
    }

    #[test]
    fn siding_on_this_machine_gets_the_state_directory_of_a_shim() {
        let temporary = tempfile::tempdir().expect("a directory");
        let path = temporary.path().canonicalize().expect("it exists").join("state");
        let opened = StateDir::open(&path).expect("is made");
        let fd = opened.as_fd().try_clone_to_owned().expect("a descriptor");
        let root = StateDir::from_fd(PathBuf::new(), fd);
        let command = local_serve_command(&root, &executor(None));
        let value = command.get_envs().find(|(name, _)| *name == "SIDING_STATE_DIR");
        assert_eq!(value.and_then(|(_, value)| value), Some(path.as_os_str()));
    }

    #[test]
    fn a_missing_program_is_reported_as_a_message() {
        use siding_model::remote::RemoteMessage;
        let home = tempfile::tempdir().expect("a directory");
        let command = serve_command(&executor(Some("/no such/siding's")), None);
        let (text, _) = run_script(&command, home.path(), b"");
        let message: RemoteMessage = serde_json::from_str(&text).expect("a message");
        let RemoteMessage::Missing { processor } = message else { panic!("{message:?}") };
        assert!(!processor.is_empty());
    }

    #[test]
    fn a_local_program_is_searched_in_the_path_of_the_starter() {
        use std::os::unix::fs::PermissionsExt as _;
        let temporary = tempfile::tempdir().expect("a directory");
        let [first, second] = ["first", "second"].map(|name| temporary.path().join(name));
        for (dir, mode) in [(&first, 0o600), (&second, 0o700)] {
            std::fs::create_dir(dir).expect("own directory");
            std::fs::write(dir.join("ssh"), "").expect("own directory");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.join("ssh"), mode).expect("own file");
        }
        let path = format!("relative:{}:{}", first.display(), second.display());
        let mut executor = executor(None);
        executor.ssh_variables.push(("PATH".to_owned(), path));
        let program = |name| PathBuf::from(local_command(name, &executor).get_program());
        assert_eq!(program("ssh"), second.join("ssh"));
        assert_eq!(program("missing"), PathBuf::from("missing"));
    }

    #[test]
    fn an_installation_removes_copies_that_were_not_used_for_a_month() {
        use std::fs::{File, FileTimes};
        use std::time::{Duration, SystemTime};
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join(".cache/siding/bin");
        std::fs::create_dir_all(&dir).expect("own directory");
        let now = SystemTime::now();
        let old = now - Duration::from_secs((u64::from(MAX_UNUSED_DAYS) + 2) * 24 * 60 * 60);
        for (name, accessed, modified) in [
            ("siding-0.1.0-1-unused", old, old),
            ("siding-0.1.0-1-read", now, old),
            ("siding-0.1.0-1-touched", old, now),
            ("other", old, old),
        ] {
            let file = File::create(dir.join(name)).expect("own directory");
            let times = FileTimes::new().set_accessed(accessed).set_modified(modified);
            file.set_times(times).expect("own file");
        }
        let copy = ProgramCopy::of_bytes(b"program");
        let (_, stored) =
            run_script(&install_command(&executor(None), &copy), home.path(), b"program");
        assert!(stored);
        let mut names: Vec<_> = std::fs::read_dir(&dir)
            .expect("own directory")
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        let own = copy.remote_path();
        let own = own.rsplit('/').next().expect("a name");
        let mut expected = ["other", own, "siding-0.1.0-1-read", "siding-0.1.0-1-touched"];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }

    #[test]
    fn the_answer_follows_text_of_startup_files() {
        let home = tempfile::tempdir().expect("a directory");
        let executor = executor(Some("/no such/siding"));
        let command = query_command(&executor, None, &["ps"]);
        let (text, _) = run_script(&command, home.path(), b"");
        let message = answer(text.as_bytes());
        assert!(message.starts_with(b"{\"say\":\"missing\""), "{text}");
        assert_eq!(answer(format!("Welcome!\n\n{text}").as_bytes()), message);
        assert_eq!(answer(b"Welcome!\nno shell"), b"");
        let streamed = format!("Welcome!\n\n{text}");
        let mut rest = streamed.as_bytes();
        assert!(skip_to_answer(&mut rest).expect("memory") && rest == message);
        assert!(!skip_to_answer(&mut &b"Welcome!\nno shell"[..]).expect("memory"));
    }

    #[test]
    fn missing_directories_are_named_by_their_position() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("a file");
        std::fs::write(&file, "").expect("own directory");
        let paths = ["/", "/no such/it's", file.to_str().expect("UTF-8"), "/usr"];
        let command = missing_directories_command(&executor(None), &paths);
        let (text, _) = run_script(&command, home.path(), b"");
        assert_eq!(answer(text.as_bytes()), b"1\n2\n");
    }

    #[test]
    fn a_program_is_copied_once_and_whole() {
        let home = tempfile::tempdir().expect("a directory");
        let content = b"#!/bin/sh\necho \"served $1\"\n";
        let copy = ProgramCopy::of_bytes(content);
        let executor = executor(None);
        let (_, stored) =
            run_script(&install_command(&executor, &copy), home.path(), &content[..9]);
        assert!(!stored, "a part is not stored");
        let (text, _) = run_script(&serve_command(&executor, Some(&copy)), home.path(), b"");
        assert!(text.contains("missing"), "{text}");
        let (_, stored) = run_script(&install_command(&executor, &copy), home.path(), content);
        assert!(stored);
        let (text, _) = run_script(&serve_command(&executor, Some(&copy)), home.path(), b"");
        assert_eq!(text, "served __serve\n");
    }
}
