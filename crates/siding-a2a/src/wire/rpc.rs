//! JSON-RPC 2.0, as far as A2A uses it (specification 9).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The names of methods (specification 9.4).
pub mod method {
    /// Sends a message, which usually starts a task.
    pub const SEND: &str = "SendMessage";
    /// Sends a message and streams the updates of its task.
    pub const STREAM: &str = "SendStreamingMessage";
    /// Reads a task.
    pub const GET: &str = "GetTask";
    /// Reads a page of tasks.
    pub const LIST: &str = "ListTasks";
    /// Cancels a task.
    pub const CANCEL: &str = "CancelTask";
    /// Streams the updates of a task.
    pub const SUBSCRIBE: &str = "SubscribeToTask";
    /// Reads a card that only authenticated clients may see.
    pub const EXTENDED_CARD: &str = "GetExtendedAgentCard";
    /// The suffix of the four methods for webhooks.
    pub const PUSH_SUFFIX: &str = "PushNotificationConfig";
}

/// Error codes (specification 5.4 and 9.5).
pub mod code {
    /// The request is not valid JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a JSON-RPC request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not match the method.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server could not carry out a valid request.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The task does not exist.
    pub const TASK_NOT_FOUND: i64 = -32001;
    /// The task cannot be canceled, because it has already ended.
    pub const NOT_CANCELABLE: i64 = -32002;
    /// The server supports no webhooks.
    pub const PUSH_NOT_SUPPORTED: i64 = -32003;
    /// The operation is not supported, or not in the current state of the task.
    pub const UNSUPPORTED_OPERATION: i64 = -32004;
    /// The message has content of a type that the agent does not accept.
    pub const CONTENT_TYPE_NOT_SUPPORTED: i64 = -32005;
    /// The protocol version is not supported.
    pub const VERSION_NOT_SUPPORTED: i64 = -32009;
}

/// The names of A2A's own errors, for `google.rpc.ErrorInfo`.
const ERROR_REASONS: [(i64, &str); 6] = [
    (code::TASK_NOT_FOUND, "TASK_NOT_FOUND"),
    (code::NOT_CANCELABLE, "TASK_NOT_CANCELABLE"),
    (code::PUSH_NOT_SUPPORTED, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (code::UNSUPPORTED_OPERATION, "UNSUPPORTED_OPERATION"),
    (code::CONTENT_TYPE_NOT_SUPPORTED, "CONTENT_TYPE_NOT_SUPPORTED"),
    (code::VERSION_NOT_SUPPORTED, "VERSION_NOT_SUPPORTED"),
];

/// The error with which a server answers a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcError {
    /// The error code; siding's own server uses the codes in [`code`].
    pub code: i64,
    /// A description for people.
    pub message: String,
    /// Details for programs, such as `google.rpc.ErrorInfo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Returns an error of this server, with `ErrorInfo` for A2A's own codes.
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

/// The response to a request, with either a result or an error.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RpcResponse {
    jsonrpc: String,
    id: Value,
    /// The result, if the request succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The error, if the request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

impl RpcResponse {
    /// Returns the response to the request `id`.
    #[must_use]
    pub fn for_request(id: &Value, outcome: Result<Value, RpcError>) -> Self {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        Self { jsonrpc: "2.0".to_owned(), id: id.clone(), result, error }
    }
}

/// Returns a JSON-RPC request. Each HTTP exchange carries one JSON-RPC request, so the id is
/// constant.
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
