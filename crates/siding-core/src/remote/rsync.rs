//! The command lines of rsync(1), which copies files to and from a remote machine over the
//! connection of ssh.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use siding_model::executor::RemoteExecutor;
use siding_model::remote::FetchError;
use siding_model::shell_words::single_quote;
use siding_model::text::one_line;

use super::ssh;
use crate::sys::{descriptor, file};

/// Options for both directions. rsync passes its arguments over the connection (`-s`), because the
/// login shell would change them. It reads the names of the files from the standard input, so that
/// a name is never interpreted as an option or a pattern. Devices, owners and
/// groups are not copied.
const COMMON_OPTIONS: [&str; 7] =
    ["-s", "--links", "--times", "--omit-dir-times", "--files-from=-", "--from0", "--timeout=300"];

/// Options for copying to the remote machine. A file that has disappeared since it was listed is
/// left out.
const SEND_OPTIONS: [&str; 2] = ["--perms", "--ignore-missing-args"];

/// Options for copying from the remote machine, which is not trusted: no link that leads out of the
/// directory, no permission beyond the umask except to execute a file, and nothing that git would
/// execute (hooks, `core.fsmonitor`). A file of the same size and time may still differ, so it is
/// copied too.
///
/// rsync names the links that it omits only together with the copied files (a version that supports
/// it uses `symsafe`). In place of the name of a file it prints `+`, so that no name looks like a
/// line about a link.
const FETCH_OPTIONS: [&str; 7] = [
    "--recursive",
    "--executability",
    "--safe-links",
    "--exclude=.git",
    "--ignore-times",
    "--info=name1,symsafe1,nonreg0",
    "--out-format=+",
];

/// The remote directory for rsync: the working directory of the remote rsync.
///
/// rsync interprets the text before the colon as a host, and passes it to the remote shell as the
/// word before the remote command. The text of [`remote_shell`] already names the host, in any form
/// that ssh accepts, so this word becomes the beginning of the remote command.
const REMOTE_DIRECTORY: &str = "exec:.";

/// The exit status of rsync and of sh if the remote program does not exist.
pub(super) const NOT_FOUND_STATUS: i32 = 127;

/// The exit status of rsync if files disappeared during the copy, such as those of a running build.
pub(super) const VANISHED_STATUS: i32 = 24;

/// The exit statuses of rsync that a broken connection causes: an error of a socket (10) or of the
/// data stream (12), timeouts (30, 35), and the status of ssh itself (255).
const INTERRUPTION_STATUSES: [i32; 5] = [10, 12, 30, 35, 255];

/// Beginnings of the messages in which rsync only repeats that it has failed.
const SUMMARY_MESSAGES: [&str; 2] = ["rsync error:", "rsync warning:"];

/// Texts in messages that report only a closed connection; another message contains the cause.
const CLOSED_MESSAGES: [&str; 2] = ["connection unexpectedly closed", "Broken pipe (32)"];

/// Maximum width of a message of rsync, in columns.
const MESSAGE_COLUMNS: usize = 200;

/// Returns the command that copies files of a local directory to the same paths below a remote
/// directory. `list` contains the paths, each with a NUL byte at its end.
///
/// # Errors
///
/// The I/O error of creating the file for the list.
pub fn send_command(
    executor: &RemoteExecutor,
    (local, remote): (&Path, &str),
    list: &[u8],
) -> io::Result<Command> {
    let mut command = rsync_command(executor, (local, remote), list)?;
    command.args(SEND_OPTIONS).args([".", REMOTE_DIRECTORY]);
    Ok(command)
}

/// Returns the command that copies a path below a remote directory to the same path below a local
/// directory. Symbolic links in the local directory are replaced, and not followed. The standard
/// output, a pipe, receives the lines for a [`SkippedLinkReader`].
///
/// [`SkippedLinkReader`]: siding_model::file_sync::SkippedLinkReader
///
/// # Errors
///
/// The I/O error of creating the file for the list.
pub fn fetch_command(
    executor: &RemoteExecutor,
    (local, remote): (&Path, &str),
    path: &str,
) -> io::Result<Command> {
    let list = [path.as_bytes(), b"\0"].concat();
    let mut command = rsync_command(executor, (local, remote), &list)?;
    command.args(FETCH_OPTIONS).args([REMOTE_DIRECTORY, "."]).stdout(Stdio::piped());
    Ok(command)
}

/// Returns rsync without its last two arguments, the source and the destination. Its output is
/// discarded, because only the standard error contains messages about failures.
fn rsync_command(
    executor: &RemoteExecutor,
    (local, remote): (&Path, &str),
    list: &[u8],
) -> io::Result<Command> {
    let mut command = ssh::local_command("rsync", executor);
    command.args(COMMON_OPTIONS).arg("-e").arg(remote_shell(executor));
    // The login shell interprets this text, and rsync appends its own arguments.
    let program = format!(
        "sh -c 'cd -- \"$1\" && shift && exec rsync \"$@\"' siding {}",
        single_quote(remote)
    );
    command.arg(format!("--rsync-path={program}"));
    command.current_dir(local);
    command.stdin(Stdio::from(input_file(list)?)).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}

/// Returns the argument of the option `-e`: the ssh command, which rsync splits at spaces.
fn remote_shell(executor: &RemoteExecutor) -> OsString {
    let mut text = OsString::from("ssh");
    for argument in ssh::connection_arguments(executor) {
        text.push(" ");
        text.push(quote_for_rsync(&argument));
    }
    text
}

/// Quotes a word of the option `-e`. Within quotes, a doubled quote stands for a single quote
/// character.
fn quote_for_rsync(word: &OsStr) -> OsString {
    let doubled = |byte: &u8| if *byte == b'\'' { vec![b'\'', b'\''] } else { vec![*byte] };
    let inner: Vec<u8> = word.as_bytes().iter().flat_map(doubled).collect();
    let quoted = [&b"'"[..], &inner, b"'"].concat();
    OsStr::from_bytes(&quoted).to_owned()
}

/// Returns a file in memory with this content and its position at the beginning.
pub(super) fn input_file(content: &[u8]) -> io::Result<OwnedFd> {
    let fd = descriptor::create_memfd("siding-files")?;
    file::write_all_at(&fd, content, 0)?;
    Ok(fd)
}

/// Returns the reason why rsync failed to copy a path from the executor.
#[must_use]
pub fn describe_failure(
    executor: &RemoteExecutor,
    status: Option<ExitStatus>,
    stderr: &[u8],
) -> FetchError {
    let code = status.and_then(|status| status.code());
    let why = if code == Some(NOT_FOUND_STATUS) {
        missing_rsync(&executor.name)
    } else {
        cause_message(stderr).unwrap_or_else(|| "rsync failed without a message".to_owned())
    };
    // When ssh is killed, a signal terminates rsync.
    let is_interruption = code.is_none_or(|code| INTERRUPTION_STATUSES.contains(&code));
    FetchError { why, is_interruption }
}

/// Returns the message about a remote machine without rsync.
pub(super) fn missing_rsync(executor: &str) -> String {
    format!("rsync is not installed on {executor}; install it there")
}

/// Returns the message about a local program that cannot be started.
#[must_use]
pub fn cannot_start(program: &str, error: &io::Error) -> String {
    format!("could not start `{program}` on this machine: {error}; install {program}")
}

/// Returns the message of rsync or ssh that names the cause of a failure.
pub(super) fn cause_message(stderr: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let is_summary = |line: &&str| SUMMARY_MESSAGES.iter().any(|start| line.starts_with(start));
    let is_closed = |line: &&str| CLOSED_MESSAGES.iter().any(|part| line.contains(part));
    let cause = lines().find(|line| !is_summary(line) && !is_closed(line));
    cause.or_else(|| lines().next()).map(|line| one_line(line, MESSAGE_COLUMNS))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    fn executor(destination: &str) -> RemoteExecutor {
        RemoteExecutor {
            name: "build".to_owned(),
            destination: Some(destination.to_owned()),
            slurm: None,
            program: None,
            ssh_variables: vec![("SSH_AUTH_SOCK".to_owned(), "/run/agent".to_owned())],
        }
    }

    fn arguments(command: &Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_files_are_named_by_the_list_alone() {
        let local = Path::new("/");
        let send =
            send_command(&executor("me@build"), (local, "/srv/it's"), b"-x\0").expect("a file");
        let words = arguments(&send);
        assert_eq!(words[words.len() - 2..], [".", "exec:."]);
        assert!(!words.iter().any(|word| word.contains("-x")), "{words:?}");
        let path = words.iter().find(|word| word.starts_with("--rsync-path=")).expect("a program");
        assert!(path.ends_with(r"'/srv/it'\''s'"), "{path}");
        assert!(send.get_envs().any(|(name, _)| name == "SSH_AUTH_SOCK"));
        let fetch = fetch_command(&executor("me@build"), (local, "/srv"), "-x").expect("a file");
        let words = arguments(&fetch);
        assert_eq!(words[words.len() - 2..], ["exec:.", "."]);
        for option in ["--safe-links", "--recursive"] {
            assert!(words.iter().any(|word| word == option), "{words:?}");
        }
    }

    #[test]
    fn nothing_is_copied_that_needs_privileges() {
        let words = COMMON_OPTIONS.iter().chain(&SEND_OPTIONS).chain(&FETCH_OPTIONS);
        for option in words {
            assert!(!["-a", "--archive", "--devices", "--owner", "--group"].contains(option));
        }
    }

    #[test]
    fn the_destination_is_one_word_of_the_remote_shell() {
        for destination in ["me@build", "ssh://me@build:2222", "::1", "it's"] {
            let shell = remote_shell(&executor(destination));
            let quoted = format!(" '--' '{}'", destination.replace('\'', "''"));
            assert!(shell.to_string_lossy().ends_with(&quoted), "{shell:?}");
        }
    }

    #[test]
    fn the_cause_of_a_failure_is_found_among_the_messages() {
        for (stderr, cause) in [
            (
                "Warning: known host\nssh: connect to host build: Connection refused\n\
                 rsync: connection unexpectedly closed (0 bytes received so far) [Receiver]\n\
                 rsync error: unexplained error (code 255) at io.c(285)\n",
                "ssh: connect to host build: Connection refused",
            ),
            (
                "rsync: [sender] link_stat \"/a\" failed: No such file or directory (2)\n\
                 rsync error: some files/attrs were not transferred (code 23)\n",
                "rsync: [sender] link_stat \"/a\" failed: No such file or directory (2)",
            ),
            ("rsync error: received SIGINT (code 20)\n", "rsync error: received SIGINT (code 20)"),
        ] {
            assert_eq!(cause_message(stderr.as_bytes()).as_deref(), Some(cause));
        }
        assert_eq!(cause_message(b" \n"), None);
    }

    #[test]
    fn only_a_broken_connection_is_worth_another_attempt() {
        let failure = |code: i32| {
            let status = ExitStatus::from_raw(code << 8);
            describe_failure(&executor("build"), Some(status), b"")
        };
        for (code, is_interruption) in [(255, true), (12, true), (23, false), (11, false)] {
            assert_eq!(failure(code).is_interruption, is_interruption, "{code}");
        }
        let missing = failure(NOT_FOUND_STATUS);
        assert!(!missing.is_interruption && missing.why.contains("install"), "{missing:?}");
        let killed = describe_failure(&executor("build"), Some(ExitStatus::from_raw(9)), b"");
        assert!(killed.is_interruption);
    }
}
