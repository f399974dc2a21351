//! Runs `siding attach`, which connects this terminal with the terminal of a task, in place of the
//! screen.

use std::io;
use std::process::{Command, ExitStatus};

use siding_model::id::TaskId;

/// Exit code with which siding reports its own failure.
const FAILED_CODE: i32 = 125;

/// Returns the command that attaches to a task. With `is_read_only`, the person can only watch.
pub(crate) fn attach_command(id: TaskId, is_read_only: bool) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("attach").arg(id.to_string());
    if is_read_only {
        command.arg("--read-only");
    }
    Ok(command)
}

/// Returns a sentence about an attachment that has failed; `None` if it has not. An exit code other
/// than 125 is that of a task that has ended meanwhile.
pub(crate) fn attach_failure(id: TaskId, status: ExitStatus) -> Option<String> {
    (status.code() == Some(FAILED_CODE))
        .then(|| format!("the terminal could not be opened; `siding attach {id}` says why"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn only_a_failure_of_siding_is_reported() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let failure = |code: i32| attach_failure(id, ExitStatus::from_raw(code << 8));
        assert_eq!((failure(0), failure(3)), (None, None));
        assert!(failure(125).is_some_and(|text| text.contains("`siding attach b-4k7q0n2m8x5t`")));
    }

    #[test]
    fn a_watcher_attaches_without_typing() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().expect("an id");
        let arguments = |is_read_only| {
            let command = attach_command(id, is_read_only).expect("the program has a path");
            command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(arguments(false), ["attach", "b-4k7q0n2m8x5t"]);
        assert_eq!(arguments(true), ["attach", "b-4k7q0n2m8x5t", "--read-only"]);
    }
}
