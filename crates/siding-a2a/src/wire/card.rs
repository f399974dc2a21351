//! What a server says of itself (specification 8).

use serde::{Deserialize, Serialize};
use siding_model::text::one_line;

/// Where it is (specification 8.2).
pub const WELL_KNOWN_CARD_PATH: &str = "/.well-known/agent-card.json";
/// The binding that siding speaks.
pub const JSONRPC_BINDING: &str = "JSONRPC";

/// Columns of what a server offers, when it is told.
const OFFER_COLUMNS: usize = 200;

/// The part of a card that one who asks needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCard {
    /// What the agent is called.
    pub name: String,
    /// How it can be reached, the better way first.
    pub supported_interfaces: Vec<AgentInterface>,
    /// What else it can do.
    pub capabilities: Capabilities,
}

/// One way to reach an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentInterface {
    url: String,
    protocol_binding: String,
    protocol_version: String,
    tenant: String,
}

/// What an agent can do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Whether it tells what becomes of a task as it comes.
    pub streaming: bool,
}

/// The way that was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenInterface {
    /// Where requests go.
    pub url: String,
    /// What must stand in each of them.
    pub tenant: Option<String>,
    /// Whether the agent streams.
    pub supports_streaming: bool,
}

/// Why an agent cannot be reached in any way that its card names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it offers no way that siding speaks, which is JSON-RPC of A2A 1.x; it offers: {offered}")]
pub struct CardError {
    /// What it offers, safe to print.
    pub offered: String,
}

impl AgentCard {
    /// Chooses the first way that siding speaks (specification 8.3.2).
    ///
    /// # Errors
    ///
    /// [`CardError`] when there is none.
    pub fn choose_interface(&self) -> Result<ChosenInterface, CardError> {
        let speaks = |way: &&AgentInterface| {
            let major = way.protocol_version.split('.').next();
            way.protocol_binding.eq_ignore_ascii_case(JSONRPC_BINDING) && major == Some("1")
        };
        let Some(way) = self.supported_interfaces.iter().find(speaks) else {
            let offered = self
                .supported_interfaces
                .iter()
                .map(|way| format!("{} {}", way.protocol_binding, way.protocol_version));
            let offered = offered.collect::<Vec<_>>().join(", ");
            let offered = if offered.is_empty() { "nothing".to_owned() } else { offered };
            return Err(CardError { offered: one_line(&offered, OFFER_COLUMNS) });
        };
        Ok(ChosenInterface {
            url: way.url.clone(),
            tenant: Some(way.tenant.clone()).filter(|tenant| !tenant.is_empty()),
            supports_streaming: self.capabilities.streaming,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn card(ways: serde_json::Value) -> AgentCard {
        let card = json!({ "name": "x", "supportedInterfaces": ways, "skills": [],
            "capabilities": { "streaming": true } });
        serde_json::from_value(card).expect("a card")
    }

    #[test]
    fn the_first_supported_interface_is_chosen() {
        let ways = json!([
            { "url": "h:1", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
            { "url": "http://h/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
            { "url": "http://h/a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0",
              "tenant": "t" },
        ]);
        let chosen = card(ways).choose_interface().expect("one");
        assert_eq!(chosen.url, "http://h/a");
        assert_eq!((chosen.tenant.as_deref(), chosen.supports_streaming), (Some("t"), true));
    }

    #[test]
    fn the_error_names_the_offered_interfaces() {
        let ways = json!([{ "protocolBinding": "GRPC\u{1b}", "protocolVersion": "1.0" }]);
        let why = card(ways).choose_interface().expect_err("none").to_string();
        assert!(why.ends_with("it offers: GRPC\\e 1.0"), "{why}");
        assert!(AgentCard::default().choose_interface().expect_err("none").offered == "nothing");
    }
}
