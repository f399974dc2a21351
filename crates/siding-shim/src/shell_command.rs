//! Passes a command to a shell, if possible without showing it in the arguments of any process.
//!
//! A command in argv would match `pkill -f` and be visible to every user of the system. For the
//! known shells, the text is therefore in a memory file (memfd_create(2)) that the shell inherits,
//! and the shell's own argument is a constant. At its exit, bash also reports in this file its
//! working directory and the status of each stage of its last pipeline.
//! `docs/adr/0002-command-text.md` has the alternatives.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use siding_core::processes::tree::COMMAND_FD_PREFIX;
use siding_core::sys::{descriptor, file};
use siding_model::outcome::LeaderEnd;

/// Lowest number of the descriptors that a task inherits in addition to 0, 1 and 2. Scripts use
/// lower numbers (0–9, and bash's `{fd}` from 10 on). From 64 on the kernel would have to enlarge
/// the descriptor table of every process of the task.
const MIN_INHERITED_FD: i32 = 60;

/// Duplicates a descriptor for a task to inherit. The duplicate has a high number, as far as
/// RLIMIT_NOFILE allows.
pub(crate) fn move_high(fd: impl AsFd) -> io::Result<OwnedFd> {
    // Number of descriptors that may be moved: as many numbers below the limit must stay free.
    const MAX_MOVED_FDS: i32 = 4;
    let limit = i32::try_from(descriptor::open_limit()).unwrap_or(i32::MAX);
    descriptor::duplicate_from(fd, MIN_INHERITED_FD.min(limit - MAX_MOVED_FDS).max(3))
}

/// Maximum number of bytes that are read from the end of the report. Each record contains a path of
/// at most 4 KiB. Bash writes a record at its exit and, for a text that may contain a pipeline,
/// also at the end of the text and of each file that the text sources. The last two records matter.
const MAX_REPORT_BYTES: usize = 12 << 10;

/// A file in memory with a command's text, followed by the report of its shell.
#[derive(Debug)]
pub(crate) struct ShellCommand {
    fd: OwnedFd,
    text_len: u64,
}

/// The final working directory of a leader, and the statuses of its last pipeline, if they are
/// reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShellReport {
    pub(crate) final_cwd: Option<String>,
    pub(crate) pipeline: Option<Vec<i32>>,
}

/// The source of the [`ShellReport`] on a leader that has ended.
#[derive(Debug)]
pub(crate) enum LeaderReporter {
    /// There is no report besides the exit status.
    Silent,
    /// The leader is a program that runs in place of a shell. The shell's final directory would be
    /// the directory in which the leader was started.
    Direct,
    /// The leader is a shell, which may have written a report.
    Shell(ShellCommand),
}

impl LeaderReporter {
    /// Returns the report on a leader that was started in `cwd` and ended with `end`.
    pub(crate) fn report(&self, cwd: &str, end: &LeaderEnd) -> ShellReport {
        match self {
            Self::Shell(script) => script.report(),
            Self::Direct if matches!(end, LeaderEnd::Exited { .. }) => {
                ShellReport { final_cwd: Some(cwd.to_owned()), pipeline: None }
            }
            Self::Direct | Self::Silent => ShellReport::default(),
        }
    }
}

impl ShellCommand {
    /// Writes the text to a file that a shell can read.
    pub(crate) fn new(text: &str) -> io::Result<Self> {
        let fd = move_high(descriptor::create_memfd("siding-command")?)?;
        let mut remaining = text.as_bytes();
        // write(2) moves the file offset, which the shell shares, so that the shell's report
        // follows the text.
        while !remaining.is_empty() {
            let count = file::write(&fd, remaining)?;
            remaining = &remaining[count..];
        }
        Ok(Self { fd, text_len: text.len() as u64 })
    }

    /// Returns the descriptor that the shell inherits.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Returns the arguments with which `shell` runs the text. An unknown shell gets the text as an
    /// argument, because `-c TEXT` is the only interface that all shells share.
    pub(crate) fn argv(&self, shell: &str, text: &str) -> Vec<String> {
        let fd = self.fd.as_raw_fd();
        let name = Path::new(shell).file_name().and_then(|name| name.to_str()).unwrap_or(shell);
        let command = match name {
            "bash" => bash_command(fd, text.contains('|')),
            "sh" | "dash" | "ash" | "ksh" | "mksh" | "zsh" => format!(". {COMMAND_FD_PREFIX}{fd}"),
            "fish" => format!("source {COMMAND_FD_PREFIX}{fd}"),
            _ => text.to_owned(),
        };
        vec![shell.to_owned(), "-c".to_owned(), command]
    }

    /// Returns the valid part of the shell's report. Everything else in the file is ignored,
    /// because the task can write any bytes to it.
    pub(crate) fn report(&self) -> ShellReport {
        let mut bytes = vec![0; MAX_REPORT_BYTES];
        let file_len = file::metadata(&self.fd).map_or(0, |facts| facts.len);
        let from = self.text_len.max(file_len.saturating_sub(MAX_REPORT_BYTES as u64));
        let count = file::read_at(&self.fd, &mut bytes, from).unwrap_or(0);
        let bytes = &bytes[..count];
        parse_report(if from == self.text_len { bytes } else { skip_cut_record(bytes) })
    }
}

/// Returns bash's argument. `eval` keeps bash's own error texts (`bash: line 1: …`), but hides the
/// statuses of a pipeline in the last line; `.` shows them to a RETURN trap. Therefore `.` is used
/// only for a text that may contain a pipeline.
///
/// A bash with an EXIT trap acts on a signal only later, so a signal that arrives just before
/// `exec` replaces the shell is lost.
fn bash_command(fd: i32, may_pipe: bool) -> String {
    // The redirection of the braces hides the trace of a `set -x`, and the error of a descriptor
    // that the command closed.
    let report = |word: &str| {
        format!(
            r#"{{ builtin printf "%s\0" {word} "$?" "$PWD" "${{PIPESTATUS[@]}}" "" >&{fd}; }} 2>/dev/null"#
        )
    };
    let exit = report("exit");
    if may_pipe {
        let end = report(r#"return"${#BASH_SOURCE[@]}""#);
        format!("trap '{exit}' EXIT; trap '{end}' RETURN; . {COMMAND_FD_PREFIX}{fd}")
    } else {
        format!(r#"trap '{exit}' EXIT; eval "$(<{COMMAND_FD_PREFIX}{fd})""#)
    }
}

/// Returns the bytes after the first end of a record, for bytes that begin within a record.
fn skip_cut_record(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(2).position(|two| two == [0, 0]);
    end.map(|end| &bytes[end + 2..]).unwrap_or_default()
}

/// Parses `WORD STATUS CWD STAGE… ""` records, in which a NUL byte ends each field.
fn parse_report(bytes: &[u8]) -> ShellReport {
    let mut fields = bytes.split(|&byte| byte == 0).map(String::from_utf8_lossy);
    let mut whole_file = None;
    let mut report = ShellReport::default();
    while let Some(word) = fields.next() {
        let (Some(_status), Some(cwd)) = (fields.next(), fields.next()) else { break };
        let stages: Vec<i32> = fields
            .by_ref()
            .take_while(|field| !field.is_empty())
            .filter_map(|field| field.parse().ok())
            .collect();
        match &*word {
            // The text ran to its end, and these are the stages of its last pipeline. A number
            // greater than 0 follows the word for a file that the command itself sourced.
            "return0" => whole_file = Some(stages),
            "exit" => {
                report.final_cwd = cwd.starts_with('/').then(|| cwd.into_owned());
                let last = whole_file.take().unwrap_or(stages);
                report.pipeline = (last.len() > 1).then_some(last);
            }
            _ => {}
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pipeline_is_reported() {
        let bytes = b"return0\x000\0/usr\x003\x000\0\0exit\x000\0/usr\x000\0\0";
        let expected =
            ShellReport { final_cwd: Some("/usr".to_owned()), pipeline: Some(vec![3, 0]) };
        assert_eq!(parse_report(bytes), expected);
    }

    #[test]
    fn the_records_of_many_sourced_files_do_not_hide_the_exit() {
        let script = ShellCommand::new(". ./many | cat").expect("memory");
        for _ in 0..500 {
            file::write(&script.fd, b"return2\x000\0/a/directory\x000\0\0").expect("memory");
        }
        file::write(&script.fd, b"return0\x000\0/usr\x003\x000\0\0exit\x000\0/usr\x000\0\0")
            .expect("memory");
        let expected =
            ShellReport { final_cwd: Some("/usr".to_owned()), pipeline: Some(vec![3, 0]) };
        assert_eq!(script.report(), expected);
    }

    #[test]
    fn a_single_command_is_no_pipeline() {
        let report = parse_report(b"exit\x007\0/tmp\x007\0\0");
        assert_eq!(report, ShellReport { final_cwd: Some("/tmp".to_owned()), pipeline: None });
    }

    #[test]
    fn a_malformed_report_is_ignored() {
        for bytes in [&b""[..], b"\0", b"exit", b"exit\x001", b"x\0y\0z\0", &[0xff; 100], &[0; 100]]
        {
            assert_eq!(parse_report(bytes), ShellReport::default());
        }
    }

    #[test]
    fn known_shells_do_not_get_the_text_as_an_argument() {
        let script = ShellCommand::new("secret words").expect("memory");
        for shell in ["bash", "/bin/sh", "dash", "/usr/bin/zsh", "fish"] {
            assert!(!script.argv(shell, "secret words").join(" ").contains("secret"), "{shell}");
        }
    }
}
