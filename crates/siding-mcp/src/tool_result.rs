//! Converts the answers and errors of tools to results of MCP.

use rmcp::model::{CallToolResult, ContentBlock};
use siding_model::advice::Dialect;
use siding_tools::{ToolAnswer, ToolError};

/// Converts a tool's answer to an MCP result.
pub(crate) fn tool_result(answer: ToolAnswer) -> CallToolResult {
    let (is_error, structured) = (answer.is_error, answer.structured());
    let blocks = answer.into_text_blocks().into_iter().map(ContentBlock::text).collect();
    let mut result =
        if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    result.structured_content = structured;
    result
}

/// Converts a tool's error to an MCP result, because clients show the model a result, but not a
/// protocol error.
pub(crate) fn error_result(refusal: &ToolError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal.format_line(Dialect::Tools))])
}
