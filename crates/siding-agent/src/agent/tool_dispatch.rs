//! Dispatch of tool calls, and requests to the model.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use schemars::JsonSchema;
use serde_json::Value;
use siding_model::text::one_line;
use siding_model::typed_command::typed_command;
use siding_tools::async_fd::run_blocking;
use siding_tools::tools::{self, ToolEffect};
use siding_tools::{DeliveryAck, ToolAnswer as Answered, ToolContext, ToolError, schema};
use tokio::runtime::Runtime;

use super::approval::Approver;
use super::call_control::{AgentCallContext, CallControl};
use super::event::AgentEvent;
use super::subagent::{self, SubagentSpawner};
use super::teammates::Team;
use super::{bash, monitor_mcp, remote_agent, teammate_tools};
use crate::cancel_flag::CancelFlag;
use crate::message::{CallId, Message, ToolCall, ToolResult};
use crate::provider::ModelRequest;
use crate::tool::{AgentToolContext, ToolSpec, Toolbox};

/// Maximum tokens of one answer of a model. A provider rejects a request for more tokens than the
/// model can write, so the value is low.
const MAX_RESPONSE_TOKENS: u32 = 16_384;
/// Separates siding's lines about a command from the command's output.
const OUTPUT_SEPARATOR: &str = "\n\noutput:\n";

/// Maximum columns of the name of an unknown tool that an error message quotes.
const TOOL_NAME_COLUMNS: usize = 60;

/// The tools that the model may call, and the state that their calls need.
pub(super) struct ToolDispatcher {
    toolbox: Toolbox,
    context: AgentToolContext,
    pub(super) spawner: SubagentSpawner,
    pub(super) approver: Approver,
    pub(super) team: Team,
    specs: Vec<ToolSpec>,
}

impl ToolDispatcher {
    /// Collects the specifications of the tools that the agent's role and the user's choice allow.
    ///
    /// # Errors
    ///
    /// The message about an empty list of requested tools, or about a tool that does not exist.
    pub(super) fn new(
        toolbox: Toolbox,
        context: AgentToolContext,
        spawner: SubagentSpawner,
        team: Team,
        approver: Approver,
    ) -> Result<Self, String> {
        let mut specs = vec![
            tool_spec::<bash::BashArgs>(bash::TOOL_NAME, bash::TOOL_DESCRIPTION),
            tool_spec::<subagent::SpawnAgentArgs>(subagent::TOOL_NAME, subagent::TOOL_DESCRIPTION),
            tool_spec::<monitor_mcp::MonitorMcpArgs>(
                monitor_mcp::TOOL_NAME,
                monitor_mcp::TOOL_DESCRIPTION,
            ),
            tool_spec::<remote_agent::RemoteAgentArgs>(
                remote_agent::TOOL_NAME,
                remote_agent::TOOL_DESCRIPTION,
            ),
        ];
        if let Team::Lead(_) = &team {
            specs.push(tool_spec::<teammate_tools::SpawnTeammateArgs>(
                teammate_tools::SPAWN_TEAMMATE,
                teammate_tools::SPAWN_DESCRIPTION,
            ));
        }
        if !matches!(team, Team::Alone) {
            specs.push(tool_spec::<teammate_tools::SendMessageArgs>(
                teammate_tools::SEND_MESSAGE,
                teammate_tools::SEND_DESCRIPTION,
            ));
        }
        specs.extend(tools::TOOLS.iter().filter_map(|tool| {
            let schema = (tool.schema)().into();
            Some(ToolSpec { name: tool.agent_name?, description: tool.description, schema })
        }));
        specs.extend(toolbox.specs().iter().cloned());
        let mut calls = Self { toolbox, context, spawner, approver, team, specs };
        if let Some(only) = &calls.spawner.tools {
            calls.check_tools(only)?;
            calls.specs.retain(|spec| only.iter().any(|name| name == spec.name));
        }
        Ok(calls)
    }

    /// Returns the names of the tools that change nothing.
    pub(super) fn read_only_tools(&self) -> HashSet<String> {
        let shared = tools::TOOLS.iter().filter(|tool| tool.effect == ToolEffect::ReadOnly);
        let mut names = self.toolbox.read_only_tools();
        names.extend(shared.filter_map(|tool| tool.agent_name).map(str::to_owned));
        names
    }

    /// Returns a request that offers the tools to the model.
    pub(super) fn model_request<'r>(
        &'r self,
        system: &'r str,
        messages: &'r [Message],
        cancel: &'r CancelFlag,
    ) -> ModelRequest<'r> {
        ModelRequest {
            system,
            messages,
            tools: &self.specs,
            max_tokens: MAX_RESPONSE_TOKENS,
            cancel,
        }
    }

    /// Runs a call on another thread, and returns its control. The result is sent as
    /// [`AgentEvent::CallFinished`].
    pub(super) fn start_call(
        self: &Arc<Self>,
        runtime: &Runtime,
        host: &Arc<ToolContext>,
        call: ToolCall,
        sender: &Sender<AgentEvent>,
    ) -> CallControl {
        let (mut foreground, wishes, cancel) =
            AgentCallContext::new(call.id.clone(), sender.clone());
        let (this, host, sender) = (Arc::clone(self), Arc::clone(host), sender.clone());
        let ToolCall { id, name, input } = call;
        runtime.spawn(async move {
            let (result, receipts) = match (name.as_str(), runtime_tool_name(&name), input) {
                _ if !this.has_tool(&name) => (
                    ToolResult { call: id, text: this.unknown_tool(&name), is_error: true },
                    Vec::new(),
                ),
                (bash::TOOL_NAME, _, Value::Object(input)) => {
                    into_tool_result(id, &host, this.run_bash(&host, &mut foreground, input).await)
                }
                (subagent::TOOL_NAME, _, Value::Object(input)) => {
                    let answer = this.spawn_agent(&host, &mut foreground, input).await;
                    into_tool_result(id, &host, answer)
                }
                (teammate_tools::SPAWN_TEAMMATE, _, Value::Object(input)) => {
                    let answer = this.spawn_teammate(&host, &mut foreground, input).await;
                    into_tool_result(id, &host, answer)
                }
                (teammate_tools::SEND_MESSAGE, _, Value::Object(input)) => {
                    into_tool_result(id, &host, this.send_message(input))
                }
                (monitor_mcp::TOOL_NAME, _, Value::Object(input)) => into_tool_result(
                    id,
                    &host,
                    this.run_monitor_mcp(&host, &foreground, input).await,
                ),
                (remote_agent::TOOL_NAME, _, Value::Object(input)) => into_tool_result(
                    id,
                    &host,
                    this.run_remote_agent(&host, &mut foreground, input).await,
                ),
                (_, Some(tool), Value::Object(input)) => {
                    let answer = this.run_task_tool(&host, &mut foreground, tool, input).await;
                    into_tool_result(id, &host, answer)
                }
                (_, _, input) => {
                    let outcome =
                        run_blocking(|| this.toolbox.run(&this.context, &name, input, &cancel));
                    let is_error = outcome.is_err();
                    let text = outcome.unwrap_or_else(|why| why);
                    (ToolResult { call: id, text, is_error }, Vec::new())
                }
            };
            // The send fails if the agent has ended.
            let _receiver_dropped = sender.send(AgentEvent::CallFinished(result, receipts));
        });
        wishes
    }

    pub(super) fn has_tool(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name)
    }

    /// Checks that the list names at least one tool, and only existing ones.
    ///
    /// # Errors
    ///
    /// The message about an empty list, or about an unknown name with the names that exist.
    pub(super) fn check_tools(&self, tools: &[String]) -> Result<(), String> {
        match tools.iter().find(|name| !self.has_tool(name)) {
            _ if tools.is_empty() => {
                Err("the list is empty; name a tool, or omit the list".to_owned())
            }
            Some(name) => Err(self.unknown_tool(name)),
            None => Ok(()),
        }
    }

    /// Returns the message about an unknown tool, with the names that exist.
    fn unknown_tool(&self, name: &str) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
        let name = one_line(name, TOOL_NAME_COLUMNS);
        format!("there is no tool `{name}`; the tools are {}", names.join(", "))
    }

    async fn run_bash(
        &self,
        host: &ToolContext,
        call: &mut AgentCallContext,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: bash::BashArgs = tools::parse_arguments(input)?;
        self.approver.approve(call, &args.command, args.run_in_background).await?;
        tools::run(host, call, args.into_run_args(&self.spawner.cwd)).await
    }

    /// Runs a task tool. A shell may run the text that a tool types, so the guard judges it.
    async fn run_task_tool(
        &self,
        host: &Arc<ToolContext>,
        call: &mut AgentCallContext,
        tool: &'static str,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        if let Some(command) = typed_command(tool, &input) {
            self.approver.approve(call, &command, false).await?;
        }
        let answer = tools::call(host, call, tool, input).await;
        answer.unwrap_or_else(|| Err(ToolError::Arguments(self.unknown_tool(tool))))
    }

    async fn run_monitor_mcp(
        &self,
        host: &ToolContext,
        call: &AgentCallContext,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: monitor_mcp::MonitorMcpArgs = tools::parse_arguments(input)?;
        if let Some(command) = &args.command {
            self.approver.approve(call, command, true).await?;
        }
        run_blocking(|| args.start(host, call, &self.spawner.cwd))
    }

    async fn run_remote_agent(
        &self,
        host: &Arc<ToolContext>,
        call: &mut AgentCallContext,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: remote_agent::RemoteAgentArgs = tools::parse_arguments(input)?;
        args.validate()?;
        self.approver
            .approve_with_concern(call, &args.display_command(), args.approval_concern())
            .await?;
        args.start(host, call, &self.spawner.cwd).await
    }
}

impl fmt::Debug for ToolDispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolDispatcher").field("specs", &self.specs).finish_non_exhaustive()
    }
}

fn tool_spec<A: JsonSchema>(name: &'static str, about: &'static str) -> ToolSpec {
    ToolSpec { name, description: about, schema: schema::for_arguments::<A>().into() }
}

/// Returns the name under which `siding_tools` knows the task tool that the agent calls `name`;
/// `None` if there is no such task tool.
fn runtime_tool_name(name: &str) -> Option<&'static str> {
    tools::TOOLS.iter().find(|tool| tool.agent_name == Some(name)).map(|tool| tool.name)
}

/// Converts a tool's answer to the result for the model. Also returns the acknowledgements that
/// take effect once the result is recorded in the transcript.
pub(super) fn into_tool_result(
    call: CallId,
    host: &ToolContext,
    answer: Result<Answered, ToolError>,
) -> (ToolResult, Vec<DeliveryAck>) {
    match answer {
        Ok(mut answer) => {
            let receipts = std::mem::take(&mut answer.delivery_acks);
            let is_error = answer.is_error;
            let mut text = answer.lines.join("\n");
            if let Some(output) = answer.output.filter(|output| !output.is_empty()) {
                text.push_str(OUTPUT_SEPARATOR);
                text.push_str(&output);
            }
            (ToolResult { call, text, is_error }, receipts)
        }
        Err(refusal) => {
            let text = refusal.format_line(host.dialect);
            (ToolResult { call, text, is_error: true }, Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `run` is replaced by `bash`, which asks the approver first.
    #[test]
    fn shared_tools_that_run_commands_are_replaced() {
        for tool in tools::TOOLS.iter().filter(|tool| tool.effect == ToolEffect::RunsCommands) {
            assert_eq!(tool.agent_name, None, "{} must be approved first", tool.name);
        }
    }
}
