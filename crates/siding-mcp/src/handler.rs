//! The SDK's handler: maps each request to siding's functions.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult, GetTaskParams,
    GetTaskResult, Implementation, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool,
    ToolAnnotations, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use siding_tools::async_fd::run_blocking;
use siding_tools::tools::ToolEffect;
use siding_tools::{DeliveryAck, ToolContext, answer_notices, tools};

use crate::delivery::PendingAcks;
use crate::progress::ToolCall;
use crate::resources::{self, Subscriptions};
use crate::tasks_extension;
use crate::tool_result::{error_result, tool_result};

/// The server's instructions for a model.
const INSTRUCTIONS: &str = "\
siding runs shell commands that may take long. `run` answers within its budget; a longer command \
continues in the background under a task id. Do something else meanwhile, then `wait` (never sleep \
or poll), `output` to read, `why` when it is quiet, `stop` to end it with all its processes. For a \
program that asks or draws a screen, `run` with `pty`, then `keys` for each step.";

/// The server for one client.
#[derive(Debug)]
pub(crate) struct McpServer {
    tool_context: Arc<ToolContext>,
    /// Set for a connection that acknowledges an answer after writing it; `None` where the SDK does
    /// not reveal when it writes.
    pending_acks: Option<PendingAcks>,
    subscriptions: Subscriptions,
}

impl McpServer {
    pub(crate) fn new(tool_context: Arc<ToolContext>, receipts: Option<PendingAcks>) -> Self {
        Self { tool_context, pending_acks: receipts, subscriptions: Subscriptions::default() }
    }

    /// Records the acknowledgements of an answer: after the answer has been written if that can be
    /// observed, otherwise immediately. Does nothing for a canceled request or a closed connection,
    /// because the answer is never written.
    fn acknowledge_when_sent(&self, context: &RequestContext<RoleServer>, acks: Vec<DeliveryAck>) {
        if acks.is_empty() || context.ct.is_cancelled() || context.peer.is_transport_closed() {
            return;
        }
        match &self.pending_acks {
            Some(receipts) => receipts.insert(context.id.clone(), acks),
            None => run_blocking(|| self.tool_context.acknowledge(acks)),
        }
    }
}

/// Converts a tool's definition to its MCP form.
fn to_mcp_tool(tool: &tools::Tool) -> Tool {
    let hints = ToolAnnotations::new();
    let hints = match tool.effect {
        ToolEffect::RunsCommands => hints.destructive(true).open_world(true),
        ToolEffect::Destructive => hints.destructive(true).idempotent(true),
        ToolEffect::Additive => hints.destructive(false),
        ToolEffect::ReadOnly => hints.read_only(true),
    };
    let described =
        Tool::new(tool.name, tool.description, Arc::new((tool.schema)())).with_annotations(hints);
    match tool.output_schema {
        Some(schema) => described.with_raw_output_schema(Arc::new(schema())),
        None => described,
    }
}

fn capabilities() -> ServerCapabilities {
    ServerCapabilities::builder()
        .enable_tools()
        .enable_resources()
        .enable_resources_subscribe()
        .enable_tasks()
        .build()
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(capabilities())
            .with_server_info(
                Implementation::new("siding", env!("CARGO_PKG_VERSION")).with_title("siding"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::TOOLS.iter().map(to_mcp_tool).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::TOOLS.iter().find(|tool| tool.name == name).map(to_mcp_tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(receipts) = &self.pending_acks {
            receipts.wait_settled().await;
        }
        let takes_tasks =
            context.client_capabilities().is_some_and(|client| client.supports_tasks());
        let mut call = ToolCall::new(context);
        let arguments = request.arguments.unwrap_or_default();
        let name = request.name.as_ref();
        let Some(result) = tools::call(&self.tool_context, &mut call, name, arguments).await else {
            return Err(ErrorData::invalid_params(format!("there is no tool `{name}`"), None));
        };
        let mut answer = match result {
            Ok(answer) => answer,
            Err(refusal) => return Ok(error_result(&refusal).into()),
        };
        // The task's record already exists, so a request about the task succeeds from now on.
        let goes_on = answer.background_task.filter(|_| takes_tasks);
        if let Some(task) =
            goes_on.and_then(|id| tasks_extension::created_task(&self.tool_context, id))
        {
            return Ok(CreateTaskResult::new(task).into());
        }
        // Notices are added only for a single client: over HTTP several clients share a session,
        // and a notice cannot be assigned to one of them.
        if self.pending_acks.is_some() {
            run_blocking(|| answer_notices::add_to_answer(&self.tool_context, &mut answer));
        }
        self.acknowledge_when_sent(&call.context, std::mem::take(&mut answer.delivery_acks));
        Ok(tool_result(answer).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        resources::list(&self.tool_context).map(ListResourcesResult::with_all_items)
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&self.tool_context, &request.uri).map(Into::into)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.add(&self.tool_context, request.uri, context.peer)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(resources::accepted_filter(&self.tool_context, requested))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        resources::listen(&self.tool_context, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (task, shown) = tasks_extension::get_task(&self.tool_context, &request.task_id)?;
        self.acknowledge_when_sent(&context, shown);
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No task of siding asks for input this way, and the specification says to ignore unknown
        // answers.
        tasks_extension::find_task(&self.tool_context, &request.task_id).map(drop)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        tasks_extension::cancel_task(&self.tool_context, &request.task_id)
    }
}
