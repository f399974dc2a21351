//! The states of a task, with their names on the wire and in siding's messages.

use serde::{Deserialize, Serialize};

/// The state of a task (`TaskState`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum A2aState {
    /// The server named no state.
    #[default]
    Unspecified,
    /// The server has accepted the task, and the agent has not started yet.
    Submitted,
    /// The agent is working.
    Working,
    /// The agent has finished successfully.
    Completed,
    /// The agent has failed.
    Failed,
    /// The task was canceled.
    Canceled,
    /// The agent needs an answer from the user.
    InputRequired,
    /// The agent has declined the task.
    Rejected,
    /// The agent needs credentials.
    AuthRequired,
    /// A state that version 1.0 does not define, by its name on the wire.
    Unknown(String),
}

/// The states with their names on the wire and in messages.
const STATE_NAMES: [(A2aState, &str, &str); 9] = [
    (A2aState::Unspecified, "TASK_STATE_UNSPECIFIED", "unspecified"),
    (A2aState::Submitted, "TASK_STATE_SUBMITTED", "submitted"),
    (A2aState::Working, "TASK_STATE_WORKING", "working"),
    (A2aState::Completed, "TASK_STATE_COMPLETED", "completed"),
    (A2aState::Failed, "TASK_STATE_FAILED", "failed"),
    (A2aState::Canceled, "TASK_STATE_CANCELED", "canceled"),
    (A2aState::InputRequired, "TASK_STATE_INPUT_REQUIRED", "input-required"),
    (A2aState::Rejected, "TASK_STATE_REJECTED", "rejected"),
    (A2aState::AuthRequired, "TASK_STATE_AUTH_REQUIRED", "auth-required"),
];

impl A2aState {
    /// Returns the name for messages; `None` for an unknown state.
    #[must_use]
    pub fn label(&self) -> Option<&'static str> {
        STATE_NAMES.iter().find(|(state, ..)| state == self).map(|(.., word)| *word)
    }

    /// Returns whether the state is final (specification 4.1.3).
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns whether the agent waits for the user.
    #[must_use]
    pub const fn waits_for_user(&self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}

impl From<String> for A2aState {
    fn from(name: String) -> Self {
        if name.is_empty() {
            return Self::Unspecified;
        }
        let known = STATE_NAMES.iter().find(|(_, wire, _)| *wire == name);
        known.map_or(Self::Unknown(name), |(state, ..)| state.clone())
    }
}

impl From<A2aState> for String {
    fn from(state: A2aState) -> Self {
        if let A2aState::Unknown(name) = state {
            return name;
        }
        let known = STATE_NAMES.iter().find(|(known, ..)| *known == state);
        known.map_or_else(Self::new, |(_, wire, _)| (*wire).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_round_trips_and_unknown_ones_are_kept() {
        for (state, wire, _) in STATE_NAMES {
            assert_eq!(String::from(state.clone()), wire);
            assert_eq!(A2aState::from(wire.to_owned()), state);
            assert!(!(state.is_terminal() && state.waits_for_user()), "{wire}");
        }
        let new = A2aState::from("TASK_STATE_PAUSED".to_owned());
        assert_eq!(new, A2aState::Unknown("TASK_STATE_PAUSED".to_owned()));
        assert_eq!((new.label(), new.is_terminal()), (None, false));
        assert_eq!(String::from(new), "TASK_STATE_PAUSED");
    }
}
