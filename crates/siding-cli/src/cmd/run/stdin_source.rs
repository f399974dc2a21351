//! The source of a command's standard input: `siding run --stdin`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use siding_core::sys::descriptor;
use siding_core::task::run::{CallerStdin, TaskStdin, caller_stdin};

use crate::failure::Failure;

/// The value of `--stdin`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum StdinSource {
    /// This process's input if it was opened for this process alone, otherwise nothing.
    Auto,
    /// This process's input, whatever it is.
    Inherit,
    /// Nothing: prompts fail immediately.
    #[default]
    Null,
    /// The text that `siding input` writes.
    Pipe,
    /// The content of this file.
    File(PathBuf),
}

/// Parses the value of `--stdin`. A value that is neither a keyword nor empty is the path of a
/// file.
pub(super) fn parse(text: &str) -> Result<StdinSource, String> {
    Ok(match text {
        "auto" => StdinSource::Auto,
        "inherit" => StdinSource::Inherit,
        "null" => StdinSource::Null,
        "pipe" => StdinSource::Pipe,
        "" => return Err("use auto, inherit, null, pipe or the path of a file".to_owned()),
        path => StdinSource::File(path.into()),
    })
}

impl StdinSource {
    /// Opens the input for a new task. Also returns a note for a person whose input is not passed
    /// on.
    pub(super) fn open(&self, is_person: bool) -> Result<(TaskStdin, Option<String>), Failure> {
        Ok(match self {
            Self::Auto => return open_automatically(is_person),
            Self::Inherit => (inherit()?, None),
            Self::Null => (TaskStdin::Null, None),
            Self::Pipe => (TaskStdin::Pipe, None),
            Self::File(path) => {
                let file = File::open(path).map_err(|error| {
                    Failure::new(format!("--stdin `{}`: {error}", path.display())).with_hint(
                        "the values are auto, inherit, null, pipe and the path of a file",
                    )
                })?;
                (TaskStdin::Inherit(file.into()), None)
            }
        })
    }
}

fn open_automatically(is_person: bool) -> Result<(TaskStdin, Option<String>), Failure> {
    Ok(match caller_stdin() {
        CallerStdin::Own => (inherit()?, None),
        // Every tool of an agent has such an input, so only a person is informed.
        CallerStdin::Shared if is_person => (TaskStdin::Null, Some(SHARED_NOTE.to_owned())),
        CallerStdin::Shared | CallerStdin::Other => (TaskStdin::Null, None),
    })
}

const SHARED_NOTE: &str = "the command gets no standard input, because the process that called \
                           siding reads the same input; `--stdin inherit` passes it on";

fn inherit() -> Result<TaskStdin, Failure> {
    let stdin = descriptor::duplicate_from(io::stdin().as_fd(), 3)
        .map_err(|error| Failure::new(format!("--stdin inherit: {error}")))?;
    Ok(TaskStdin::Inherit(stdin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_paths_are_parsed() {
        assert_eq!(parse("auto"), Ok(StdinSource::Auto));
        assert_eq!(parse("inherit"), Ok(StdinSource::Inherit));
        assert_eq!(parse("null"), Ok(StdinSource::Null));
        assert_eq!(parse("pipe"), Ok(StdinSource::Pipe));
        assert_eq!(parse("./pipe"), Ok(StdinSource::File("./pipe".into())));
        assert!(parse("").is_err());
    }
}
