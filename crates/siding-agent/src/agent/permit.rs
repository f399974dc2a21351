//! Whether a command may run: what the guard says, and who is asked.

use std::fmt;
use std::sync::Arc;

use siding_tools::ToolError;

use super::foreground::Foreground;

/// Whether a command may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Nothing speaks against it.
    Yes,
    /// Somebody should look first.
    Ask {
        /// What speaks against it.
        why: String,
    },
    /// It must not.
    No {
        /// What speaks against it.
        why: String,
    },
}

/// What becomes of commands that somebody should look at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubts {
    /// They are not run: nobody is there.
    Refused,
    /// They are run.
    Allowed,
    /// A person is asked.
    Asked,
}

/// Judges a command, which is to run in the background or not.
pub type Guard = Arc<dyn Fn(&str, bool) -> Permit + Send + Sync>;

/// Has the guard judge, and a person where the guard wants that.
#[derive(Clone)]
pub(super) struct Warden {
    pub(super) guard: Guard,
    pub(super) doubts: Doubts,
}

impl Warden {
    /// Makes sure that a command may run.
    pub(super) async fn permit(
        &self,
        foreground: &Foreground,
        command: &str,
        background: bool,
    ) -> Result<(), ToolError> {
        self.held_to((self.guard)(command, background), foreground, command).await
    }

    /// Makes sure of it for what begins in the background, and that somebody has looked at it where there
    /// is a doubt beside what the guard says.
    pub(super) async fn permit_doubted(
        &self,
        foreground: &Foreground,
        command: &str,
        doubt: Option<String>,
    ) -> Result<(), ToolError> {
        match ((self.guard)(command, true), doubt) {
            (Permit::Yes, Some(why)) => self.doubt(foreground, command, why).await,
            (permit, _) => self.held_to(permit, foreground, command).await,
        }
    }

    /// Does as the guard says.
    async fn held_to(
        &self,
        permit: Permit,
        foreground: &Foreground,
        command: &str,
    ) -> Result<(), ToolError> {
        match permit {
            Permit::Yes => Ok(()),
            Permit::Ask { why } => self.doubt(foreground, command, why).await,
            Permit::No { why } => Err(ToolError::Arguments(format!("not run: {why}"))),
        }
    }

    /// Has it decided whether a command is run that somebody should look at first.
    async fn doubt(
        &self,
        foreground: &Foreground,
        command: &str,
        why: String,
    ) -> Result<(), ToolError> {
        let no = |who: &str| {
            Err(ToolError::Arguments(format!(
                "not run: a person has to say yes to this first, and {who}: {why}"
            )))
        };
        match self.doubts {
            Doubts::Allowed => Ok(()),
            Doubts::Refused => no("none is asked here"),
            Doubts::Asked => match foreground.ask(command, &why).await {
                Some(true) => Ok(()),
                Some(false) => no("has said no"),
                None => Err(ToolError::Cancelled),
            },
        }
    }
}

impl fmt::Debug for Warden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warden").field("doubts", &self.doubts).finish_non_exhaustive()
    }
}
