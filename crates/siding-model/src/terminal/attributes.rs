//! The attributes of a person's terminal that also apply to the terminal of the person's command.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The attributes (termios(3)) in which a terminal differs from a new terminal of a task. They have
/// the names of stty(1), because the numbers of the flags depend on the architecture, and the
/// command may run on another machine. An unknown name has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TerminalAttributes {
    /// Whether flags such as `ixon` are set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, bool>,
    /// The bytes of special keys such as `erase`; 0 for a key that is turned off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, u8>,
}

impl TerminalAttributes {
    /// Returns whether a new terminal of a task has the same attributes.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.flags.is_empty() && self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_unknown_attributes_are_read() {
        let read = |text: &str| serde_json::from_str::<TerminalAttributes>(text).expect("read");
        assert!(read("{}").is_default());
        let attributes = read(r#"{"keys": {"erase": 8}, "later": {"speed": 9600}}"#);
        assert_eq!(attributes.keys, BTreeMap::from([("erase".to_owned(), 8)]));
        let text = serde_json::to_string(&attributes).expect("serializes");
        assert_eq!(text, r#"{"keys":{"erase":8}}"#);
    }
}
