//! The error type of all commands. Errors of siding-core that occur in several commands are
//! converted here to a message and a hint; other errors are converted in the module where they
//! occur.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use siding_core::notices::NoticesError;
use siding_core::remote::SyncError;
use siding_core::session::SessionError;
use siding_core::settings::SettingsError;
use siding_core::store::StoreError;
use siding_core::task::adopt::AdoptError;
use siding_core::task::input::InputError;
use siding_core::task::recover::RecoverError;
use siding_core::task::run::{ExecutorError, RunError, UnknownExecutor};
use siding_core::task::terminal::TerminalError;
use siding_core::task::wait::WaitError;
use siding_core::task::watch::WatchError;
use siding_model::text::one_line;
use siding_terminal::LiveTerminalError;

use crate::exit;
use crate::{host_sandbox, stderr, terminal};

/// The hint for a state directory in a place that cannot be used.
pub(crate) const OTHER_STATE_DIR_HINT: &str =
    "set SIDING_STATE_DIR to a directory that you can write";

/// The prefix of clap's messages about mistakes.
const CLAP_LEAD: &str = "error:";

/// An error as it is printed to the user. Most errors end the command.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// Lines printed below the message.
    details: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// Returns a failure without details and without a hint.
    pub(crate) fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), details: Vec::new(), hint: None }
    }

    /// Adds a hint: what the user can do next.
    pub(crate) fn with_hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Returns the message as one line, with control characters escaped.
    pub(crate) fn message(&self) -> String {
        one_line(&self.message, usize::MAX)
    }

    /// Prints the failure on standard error and returns [`exit::SIDING_FAILED`].
    pub(crate) fn report(&self) -> ExitCode {
        // The message may repeat text from the caller, so `one_line` escapes control characters.
        errln!("siding: {}", self.message());
        for line in &self.details {
            errln!("  {}", one_line(line, usize::MAX));
        }
        if let Some(hint) = &self.hint {
            errln!("  hint: {}", one_line(hint, usize::MAX));
        }
        ExitCode::from(exit::SIDING_FAILED)
    }
}

/// Prints clap's message: help on standard output, mistakes on standard error. Returns the exit
/// code.
pub(crate) fn report_clap_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A reader that has closed the pipe is not a failure.
        let _peer_gone = error.print();
        return ExitCode::SUCCESS;
    }
    // clap wraps help texts, but not messages about mistakes.
    let message = format_mistake(error, terminal::shows_colors(&io::stderr()));
    let _peer_gone = stderr::print_message(&message);
    ExitCode::from(exit::SIDING_FAILED)
}

/// Returns clap's message about a mistake, with the prefix `siding:` of all other errors in place
/// of `error:`.
fn format_mistake(error: &clap::Error, has_colors: bool) -> String {
    let message = error.render();
    let plain = message.to_string();
    // The help text that is printed for a missing subcommand has no prefix.
    let has_lead = plain.starts_with(CLAP_LEAD);
    let text = if has_colors { message.ansi().to_string() } else { plain };
    if has_lead { text.replacen(CLAP_LEAD, "siding:", 1) } else { text }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let hint = match &error {
            StoreError::Ambiguous(ambiguous) => {
                return Self {
                    message: ambiguous.to_string(),
                    details: ambiguous.choices.clone(),
                    hint: Some(
                        "give more characters of the id; `siding ps --all` lists all tasks"
                            .to_owned(),
                    ),
                };
            }
            StoreError::Io { source, .. } => io_error_hint(source.kind()),
            StoreError::Exposed { .. }
            | StoreError::OtherUser { .. }
            | StoreError::NoSuchTask { .. }
            | StoreError::RuntimeDir(_) => None,
        };
        Self { hint: hint.map(str::to_owned), ..Self::new(error) }
    }
}

fn io_error_hint(kind: ErrorKind) -> Option<&'static str> {
    if matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
        Some(if host_sandbox::contains_this_call() {
            host_sandbox::HINT
        } else {
            OTHER_STATE_DIR_HINT
        })
    } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        Some(
            "free some space, or set SIDING_STATE_DIR to a directory on another disk; \
             `siding reap` removes tasks whose retention has expired",
        )
    } else {
        None
    }
}

macro_rules! from_errors {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error)
            }
        })+
    };
}

from_errors!(AdoptError, RecoverError, SettingsError, SyncError);

impl From<NoticesError> for Failure {
    fn from(error: NoticesError) -> Self {
        match error {
            NoticesError::Store(error) => error.into(),
            other @ (NoticesError::Journal { .. }
            | NoticesError::TooNew { .. }
            | NoticesError::Busy { .. }
            | NoticesError::Io { .. }) => Self::new(other),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        let failure = Self::new(&error);
        match error {
            InputError::Watch(error) => error.into(),
            InputError::Ended { id } => {
                failure.with_hint(format!("`siding show {id}` shows how it ended"))
            }
            InputError::NoPipe { .. } => failure
                .with_hint("only a task started with `siding run --stdin pipe` can be written to"),
            InputError::Unread { id, .. } => {
                failure.with_hint(format!("`siding show {id}` shows what it does"))
            }
            InputError::Teammate { .. }
            | InputError::Terminal { .. }
            | InputError::Closed { .. }
            | InputError::Io { .. } => failure,
        }
    }
}

impl From<TerminalError> for Failure {
    fn from(error: TerminalError) -> Self {
        let failure = Self::new(&error);
        match error {
            TerminalError::Watch(error) => error.into(),
            TerminalError::Unread { id, .. } => {
                failure.with_hint(format!("`siding why {id}` shows what it does"))
            }
            TerminalError::Ended { .. }
            | TerminalError::Refused { .. }
            | TerminalError::PartlyTyped { .. }
            | TerminalError::Unconfirmed { .. }
            | TerminalError::SecretUnconfirmed { .. }
            | TerminalError::OutputDiffers { .. } => failure,
        }
    }
}

impl From<LiveTerminalError> for Failure {
    fn from(error: LiveTerminalError) -> Self {
        match error {
            LiveTerminalError::Terminal(error) => error.into(),
            LiveTerminalError::Key(_) | LiveTerminalError::Output { .. } => Self::new(error),
        }
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        if let SessionError::Ended { id, .. } | SessionError::Elsewhere { id } = &error
            && host_sandbox::contains_this_call()
        {
            return Self::new(format!("the owner of session `{id}` is not visible from here"))
                .with_hint(host_sandbox::HINT);
        }
        Self::new(error)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Session(error) => error.into(),
            RunError::Watch(error) => error.into(),
            RunError::Executor(error) => error.into(),
            error @ RunError::Shim(_) => {
                Self::new(error).with_hint("`siding doctor` checks this machine")
            }
            RunError::Net(error) => {
                let hint = error.advice();
                Self::new(error).with_hint(hint)
            }
            error @ RunError::NotStarted { .. } => {
                let hint = if host_sandbox::contains_this_call() {
                    host_sandbox::HINT
                } else {
                    "no process was left running; `siding doctor` checks this machine"
                };
                Self::new(error).with_hint(hint)
            }
            error @ (RunError::SessionName(_)
            | RunError::Id(_)
            | RunError::NulByte { .. }
            | RunError::Directory { .. }
            | RunError::JobInput { .. }
            | RunError::RemoteEnvironment { .. }
            | RunError::Wait(_)) => Self::new(error),
        }
    }
}

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        let failure = Self::new(&error);
        match error {
            ExecutorError::Unknown(unknown) => unknown.into(),
            ExecutorError::UnknownDefault { .. } => failure.with_hint(
                "`--on local` runs the command on this machine; `siding config edit executor` adds \
                 an executor",
            ),
            ExecutorError::NoCluster { .. } => {
                failure.with_hint("`siding executors` lists the executors and their kinds")
            }
        }
    }
}

impl From<UnknownExecutor> for Failure {
    fn from(error: UnknownExecutor) -> Self {
        Self::new(error)
            .with_hint("`siding config edit executor` adds one: `[executor.NAME]` with a `host`")
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::Store(error) => error.into(),
            other @ (WatchError::Recover(_)
            | WatchError::Journal { .. }
            | WatchError::Quarantined { .. }
            | WatchError::Ask { .. }
            | WatchError::StopPending { .. }
            | WatchError::Io { .. }) => Self::new(other),
        }
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Watch(error) => error.into(),
            WaitError::RemoteProcesses { ref condition, .. } => {
                let hint = format!(
                    "wait for a line of its output (`--for output:REGEX`), or start it with \
                     `siding run --wait-for {condition}`, which is checked on that machine"
                );
                Self::new(error).with_hint(hint)
            }
            other @ (WaitError::Pattern { .. }
            | WaitError::Output { .. }
            | WaitError::Io { .. }) => Self::new(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_in_the_arguments_has_the_lead_of_every_error() {
        let parsed = clap::Command::new("siding").try_get_matches_from(["siding", "--bogus"]);
        let error = parsed.expect_err("an unknown flag");
        let plain = format_mistake(&error, false);
        assert!(plain.starts_with("siding: unexpected argument '--bogus' found\n"), "{plain}");
        let colored = format_mistake(&error, true);
        assert!(colored.contains("siding:") && !colored.contains(CLAP_LEAD), "{colored}");
    }
}
