//! Tool answers and errors as results of the protocol.

use rmcp::model::{CallToolResult, ContentBlock};
use siding_model::advice::Dialect;
use siding_tools::{ToolAnswer, ToolError};

/// Returns the result of a call of a tool.
pub(crate) fn tool_result(answer: ToolAnswer) -> CallToolResult {
    let (is_error, structured) = (answer.is_error, answer.structured());
    let blocks = answer.into_text_blocks().into_iter().map(ContentBlock::text).collect();
    let mut result =
        if is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    result.structured_content = structured;
    result
}

/// Returns that of one that came to nothing: the model reads it, which it would not do with an error
/// of the protocol.
pub(crate) fn error_result(refusal: &ToolError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(refusal.format_line(Dialect::Tools))])
}
