//! The agent card of this server.

use serde_json::{Value, json};

use crate::wire::{JSONRPC_BINDING, PROTOCOL_VERSION};

/// Path of the endpoint for JSON-RPC requests.
pub(super) const A2A_PATH: &str = "/a2a";
/// The media type of the input and the output.
const TEXT_MIME_TYPE: &str = "text/plain";

/// Returns the agent card. `host` is the request's `Host` header, so that the card names the
/// address under which the client already reaches this server.
pub(super) fn agent_card(host: &str) -> Value {
    json!({
        "name": "siding",
        "description": "A coding agent that works on this machine with real commands.",
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [{
            "url": format!("http://{host}{A2A_PATH}"),
            "protocolBinding": JSONRPC_BINDING,
            "protocolVersion": PROTOCOL_VERSION,
        }],
        "capabilities": { "streaming": true, "pushNotifications": false },
        "securitySchemes": { "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
        "defaultInputModes": [TEXT_MIME_TYPE],
        "defaultOutputModes": [TEXT_MIME_TYPE],
        "skills": [{
            "id": "work",
            "name": "Work in a directory",
            "description": "Reads and changes files, runs commands, and reports the result.",
            "tags": ["code", "shell"],
            "examples": ["build it and fix what fails"],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::AgentCard;

    #[test]
    fn the_a2a_client_of_siding_can_read_the_card() {
        let card: AgentCard = serde_json::from_value(agent_card("127.0.0.1:9")).expect("a card");
        let chosen = card.choose_interface().expect("a way");
        assert_eq!(
            (chosen.url.as_str(), chosen.supports_streaming),
            ("http://127.0.0.1:9/a2a", true)
        );
    }
}
