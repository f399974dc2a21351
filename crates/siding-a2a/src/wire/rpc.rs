//! JSON-RPC 2.0, as far as A2A uses it (specification 9).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Names of methods (specification 9.4).
pub mod method {
    /// Sends a message.
    pub const SEND: &str = "SendMessage";
    /// Sends a message and hears what becomes of it.
    pub const STREAM: &str = "SendStreamingMessage";
    /// Asks how a task stands.
    pub const GET: &str = "GetTask";
    /// Asks for many.
    pub const LIST: &str = "ListTasks";
    /// Has a task ended.
    pub const CANCEL: &str = "CancelTask";
    /// Hears what becomes of a task.
    pub const SUBSCRIBE: &str = "SubscribeToTask";
    /// Asks for a card that only those who are let in may see.
    pub const EXTENDED_CARD: &str = "GetExtendedAgentCard";
    /// The four about webhooks end so.
    pub const PUSH_SUFFIX: &str = "PushNotificationConfig";
}

/// Codes of errors (specification 5.4 and 9.5).
pub mod code {
    /// No JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, and no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The method takes something else.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server has failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// There is no such task.
    pub const TASK_NOT_FOUND: i64 = -32001;
    /// The task cannot be canceled.
    pub const NOT_CANCELABLE: i64 = -32002;
    /// There are no webhooks.
    pub const PUSH_NOT_SUPPORTED: i64 = -32003;
    /// It cannot be done, or not in this state.
    pub const UNSUPPORTED_OPERATION: i64 = -32004;
    /// The message holds what the agent does not take.
    pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
    /// The version is not spoken.
    pub const VERSION_NOT_SUPPORTED: i64 = -32009;
}

/// The names of the errors that are A2A's own, for `google.rpc.ErrorInfo`.
const ERROR_REASONS: [(i64, &str); 6] = [
    (code::TASK_NOT_FOUND, "TASK_NOT_FOUND"),
    (code::NOT_CANCELABLE, "TASK_NOT_CANCELABLE"),
    (code::PUSH_NOT_SUPPORTED, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (code::UNSUPPORTED_OPERATION, "UNSUPPORTED_OPERATION"),
    (code::CONTENT_TYPE_NOT_SUPPORTED, "CONTENT_TYPE_NOT_SUPPORTED"),
    (code::VERSION_NOT_SUPPORTED, "VERSION_NOT_SUPPORTED"),
];

/// Why a server does not do what it was asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcError {
    /// One of [`code`].
    pub code: i64,
    /// In words.
    pub message: String,
    /// More of it, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Returns an error of this server.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        let reason = ERROR_REASONS.iter().find(|(known, _)| *known == code);
        let data = reason.map(|(_, reason)| {
            json!([{
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": reason,
                "domain": "a2a-protocol.org",
            }])
        });
        Self { code, message: message.into(), data }
    }
}

/// What comes back for a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcResponse {
    jsonrpc: String,
    id: Value,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl RpcResponse {
    /// Returns the answer to the request `id`.
    #[must_use]
    pub fn for_request(id: &Value, outcome: Result<Value, RpcError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Self { jsonrpc: "2.0".to_owned(), id: id.clone(), result, error }
    }
}

/// Returns a request. There is one in a connection, so they need no names of their own.
#[must_use]
pub fn build_request(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_a2a_error_carries_its_reason() {
        let error = RpcError::new(code::TASK_NOT_FOUND, "there is no task `x`");
        let answer =
            serde_json::to_value(RpcResponse::for_request(&json!("a"), Err(error))).expect("JSON");
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32001)));
        assert_eq!(answer["error"]["data"][0]["reason"], "TASK_NOT_FOUND");
        assert!(answer.get("result").is_none());
        assert_eq!(RpcError::new(code::INTERNAL_ERROR, "x").data, None);
    }
}
