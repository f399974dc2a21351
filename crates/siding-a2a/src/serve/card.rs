//! What this server says of itself.

use serde_json::{Value, json};

use crate::wire::{JSONRPC, VERSION};

/// Where requests go.
pub(super) const PATH: &str = "/a2a";
/// What is taken and given.
const TEXT: &str = "text/plain";

/// Returns the card, as `host` reaches this server.
pub(super) fn card(host: &str) -> Value {
    json!({
        "name": "siding",
        "description": "A coding agent that works on this machine with real commands.",
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [{
            "url": format!("http://{host}{PATH}"),
            "protocolBinding": JSONRPC,
            "protocolVersion": VERSION,
        }],
        "capabilities": { "streaming": true, "pushNotifications": false },
        "securitySchemes": { "bearer": { "httpAuthSecurityScheme": { "scheme": "Bearer" } } },
        "securityRequirements": [{ "schemes": { "bearer": { "list": [] } } }],
        "defaultInputModes": [TEXT],
        "defaultOutputModes": [TEXT],
        "skills": [{
            "id": "work",
            "name": "Work in a directory",
            "description": "Reads and changes files, runs commands, and says what came of it.",
            "tags": ["code", "shell"],
            "examples": ["build it and fix what fails"],
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Card;

    #[test]
    fn its_own_client_can_read_it() {
        let card: Card = serde_json::from_value(card("127.0.0.1:9")).expect("a card");
        let chosen = card.choose().expect("a way");
        assert_eq!((chosen.url.as_str(), chosen.streams), ("http://127.0.0.1:9/a2a", true));
    }
}
