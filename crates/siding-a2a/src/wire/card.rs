//! The agent card (specification 8).

use serde::{Deserialize, Serialize};
use siding_model::text::one_line;

/// The path of the agent card below the agent's base URL (specification 8.2).
pub const WELL_KNOWN_CARD_PATH: &str = "/.well-known/agent-card.json";
/// The protocol binding that siding implements, as agent cards name it.
pub const JSONRPC_BINDING: &str = "JSONRPC";

/// Maximum columns of the list of interfaces in an error message.
const OFFER_COLUMNS: usize = 200;

/// The part of an agent card that a client needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCard {
    /// A human-readable name of the agent.
    pub name: String,
    /// The agent's interfaces, preferred first.
    pub supported_interfaces: Vec<AgentInterface>,
    /// Optional methods and features that the agent supports.
    pub capabilities: Capabilities,
}

/// An interface of an agent: address, binding and version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentInterface {
    url: String,
    protocol_binding: String,
    protocol_version: String,
    tenant: String,
}

/// The optional capabilities of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// Whether the agent streams the updates of a task.
    pub streaming: bool,
}

/// The interface of an agent card that the client uses for all requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenInterface {
    /// The URL to which all requests are posted.
    pub url: String,
    /// The `tenant` parameter of each request; `None` if the card names no tenant.
    pub tenant: Option<String>,
    /// Whether the agent supports streaming.
    pub supports_streaming: bool,
}

/// The error for an agent card that names no interface that siding implements.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it offers no interface that siding supports (JSON-RPC of A2A 1.x); it offers: {offered}")]
pub struct CardError {
    /// The offered interfaces, safe to print.
    pub offered: String,
}

impl AgentCard {
    /// Chooses the first interface that siding implements (specification 8.3.2).
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
