//! Sends one request to a server and converts the response to text.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ReadResourceRequestParams,
    ResourceContents,
};
use rmcp::service::{Peer, RoleClient, ServiceError};
use siding_model::fnv::Fnv1a;

use super::McpTarget;

/// The reason why a request failed.
pub(super) enum ReadError {
    /// The server answered with an error or with a message that is not a result, and the connection
    /// is still open.
    Refused(String),
    /// The connection is lost.
    Lost(String),
}

impl From<ServiceError> for ReadError {
    fn from(error: ServiceError) -> Self {
        if let ServiceError::McpError(error) = &error {
            return Self::Refused(format_error(error));
        }
        let is_lost = matches!(
            error,
            ServiceError::TransportSend(_)
                | ServiceError::TransportClosed
                | ServiceError::Cancelled { .. }
        );
        let why = error.to_string();
        if is_lost { Self::Lost(why) } else { Self::Refused(why) }
    }
}

/// Formats an error of the protocol with its code.
pub(super) fn format_error(error: &ErrorData) -> String {
    format!("{} (error {})", error.message, error.code.0)
}

/// Reads the resource or calls the tool once, and returns the text.
pub(super) async fn read_target(
    peer: &Peer<RoleClient>,
    target: &McpTarget,
) -> Result<String, ReadError> {
    match target {
        McpTarget::Resource(uri) => {
            let read = peer.read_resource(ReadResourceRequestParams::new(uri.as_str())).await?;
            let texts: Vec<String> = read.contents.iter().map(content_text).collect();
            Ok(texts.join("\n"))
        }
        McpTarget::Tool { name, arguments } => {
            let params = CallToolRequestParams::new(name.clone()).with_arguments(arguments.clone());
            match peer.call_tool_once(params).await? {
                CallToolResponse::Complete(result) => tool_answer_text(&result),
                CallToolResponse::InputRequired(_) => Err(ReadError::Refused(format!(
                    "`{name}` asks for input, but no user is present"
                ))),
                CallToolResponse::Task(_) | _ => {
                    Err(ReadError::Refused(format!("`{name}` returned a task instead of a result")))
                }
            }
        }
    }
}

/// Converts a resource's content to text. Binary content becomes its URI, and the hash and length
/// of its base64 form. Content of an unknown kind becomes an empty text.
fn content_text(content: &ResourceContents) -> String {
    match content {
        ResourceContents::TextResourceContents { text, .. } => text.clone(),
        ResourceContents::BlobResourceContents { uri, blob, .. } => {
            let hash = Fnv1a::default().with_bytes(blob.as_bytes());
            format!("{uri}: {}, {} characters of base64", hash.to_hex(), blob.len())
        }
        _ => String::new(),
    }
}

/// Returns a tool's text, or its structured content if there is no text. Fails if the tool reports
/// an error.
fn tool_answer_text(result: &CallToolResult) -> Result<String, ReadError> {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    let texts: Vec<&str> = texts.map(|text| text.text.as_str()).collect();
    let text = match (&result.structured_content, texts.is_empty()) {
        (Some(data), true) => format!("{data:#}"),
        (Some(_) | None, _) => texts.join("\n"),
    };
    if result.is_error == Some(true) { Err(ReadError::Refused(text)) } else { Ok(text) }
}
