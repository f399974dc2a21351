//! Running the tools that the model calls, and asking the model itself.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use schemars::JsonSchema;
use serde_json::Value;
use siding_model::text::one_line;
use siding_tools::async_fd::run_blocking;
use siding_tools::tools;
use siding_tools::{DeliveryAck, ToolAnswer as Answered, ToolContext, ToolError, schema};
use tokio::runtime::Runtime;

use super::came::{Came, Heard};
use super::foreground::{Foreground, Wishes};
use super::mates::Company;
use super::permit::Warden;
use super::spawn::{self, Spawner};
use super::{Purpose, bash, remote, team, watch_mcp};
use crate::message::{CallId, Message, ToolCall, ToolResult};
use crate::provider::{Answer, AskError, Asking, Cancel, Part, Provider};
use crate::tool::{Scene, ToolSpec, Toolbox};

/// Tokens that a model may write in one answer. All current models may write as many.
const MAX_TOKENS: u32 = 16_384;
/// What stands between siding's words about a command and those of the command.
const OUTPUT: &str = "\n\noutput:\n";

/// Columns of the name of a tool that does not exist.
const NAME: usize = 60;

/// What the model may call, and how it is done.
pub(super) struct Calls {
    toolbox: Toolbox,
    scene: Scene,
    pub(super) spawner: Spawner,
    pub(super) warden: Warden,
    pub(super) company: Company,
    specs: Vec<ToolSpec>,
}

impl Calls {
    /// Puts the tools together.
    ///
    /// # Errors
    ///
    /// Says that a tool which is to be the only one does not exist.
    pub(super) fn new(
        toolbox: Toolbox,
        scene: Scene,
        spawner: Spawner,
        company: Company,
        warden: Warden,
    ) -> Result<Self, String> {
        let mut specs = vec![
            spec::<bash::Args>(bash::NAME, bash::ABOUT),
            spec::<spawn::Args>(spawn::TOOL, spawn::ABOUT),
            spec::<watch_mcp::Args>(watch_mcp::NAME, watch_mcp::ABOUT),
            spec::<remote::Args>(remote::NAME, remote::ABOUT),
        ];
        if let Company::Lead(_) = &company {
            specs.push(spec::<team::SpawnArgs>(team::SPAWN, team::ABOUT_SPAWN));
        }
        if !matches!(company, Company::Alone) {
            specs.push(spec::<team::SendArgs>(team::SEND, team::ABOUT_SEND));
        }
        for tool in tools::all_tools() {
            if let Some(name) = own_name(tool.name) {
                specs.push(ToolSpec { name, about: tool.description, schema: tool.schema.into() });
            }
        }
        specs.extend(toolbox.specs().iter().cloned());
        let mut calls = Self { toolbox, scene, spawner, warden, company, specs };
        if let Some(only) = &calls.spawner.tools {
            calls.check(only)?;
            calls.specs.retain(|spec| only.iter().any(|name| name == spec.name));
        }
        Ok(calls)
    }

    /// Returns the names of the tools that change nothing.
    pub(super) fn reading(&self) -> HashSet<String> {
        let own = ["output", "wait", "list", "why"].into_iter().filter_map(own_name);
        let mut names = self.toolbox.reading();
        names.extend(own.map(str::to_owned));
        names
    }

    /// Asks the model.
    pub(super) fn ask(
        &self,
        provider: &dyn Provider,
        system: &str,
        messages: &[Message],
        purpose: Purpose,
        cancel: &Cancel,
        mut hear: impl FnMut(Heard),
    ) -> Result<Answer, AskError> {
        let asking =
            Asking { system, messages, tools: &self.specs, max_tokens: MAX_TOKENS, cancel };
        provider.ask(&asking, &mut |part| {
            if purpose == Purpose::Answer || matches!(part, Part::Again { .. }) {
                hear(Heard::of(part));
            }
        })
    }

    /// Runs a call. What comes of it is sent.
    pub(super) fn start(
        self: &Arc<Self>,
        runtime: &Runtime,
        host: &Arc<ToolContext>,
        call: ToolCall,
        sender: &Sender<Came>,
    ) -> Wishes {
        let (mut foreground, wishes, cancel) = Foreground::new(call.id.clone(), sender.clone());
        let (this, host, sender) = (Arc::clone(self), Arc::clone(host), sender.clone());
        let ToolCall { id, name, input } = call;
        runtime.spawn(async move {
            let (result, receipts) = match (name.as_str(), tool_of(&name), input) {
                _ if !this.has(&name) => {
                    (ToolResult { call: id, text: this.unknown(&name), is_error: true }, Vec::new())
                }
                (bash::NAME, _, Value::Object(input)) => {
                    taken(id, &host, this.bash(&host, &mut foreground, input).await)
                }
                (spawn::TOOL, _, Value::Object(input)) => {
                    let answer = this.spawn_agent(&host, &mut foreground, input).await;
                    taken(id, &host, answer)
                }
                (team::SPAWN, _, Value::Object(input)) => {
                    let answer = this.spawn_mate(&host, &mut foreground, input).await;
                    taken(id, &host, answer)
                }
                (team::SEND, _, Value::Object(input)) => taken(id, &host, this.send_message(input)),
                (watch_mcp::NAME, _, Value::Object(input)) => {
                    taken(id, &host, this.watch_mcp(&host, &foreground, input).await)
                }
                (remote::NAME, _, Value::Object(input)) => {
                    taken(id, &host, this.remote(&host, &mut foreground, input).await)
                }
                (_, Some(tool), Value::Object(input)) => {
                    let answer = tools::call(&host, &mut foreground, tool, input).await;
                    let answer =
                        answer.unwrap_or_else(|| Err(ToolError::Arguments(this.unknown(&name))));
                    taken(id, &host, answer)
                }
                (_, _, input) => {
                    let outcome =
                        run_blocking(|| this.toolbox.run(&this.scene, &name, input, &cancel));
                    let is_error = outcome.is_err();
                    let text = outcome.unwrap_or_else(|why| why);
                    (ToolResult { call: id, text, is_error }, Vec::new())
                }
            };
            // Nobody waits for it when the agent has gone.
            let _nobody = sender.send(Came::Done(result, receipts));
        });
        wishes
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.specs.iter().any(|spec| spec.name == name)
    }

    /// Makes sure that all of these are tools that there are here.
    ///
    /// # Errors
    ///
    /// Says which is none, and which there are.
    pub(super) fn check(&self, tools: &[String]) -> Result<(), String> {
        match tools.iter().find(|name| !self.has(name)) {
            _ if tools.is_empty() => Err("no tool is named; name one, or leave it out".to_owned()),
            Some(name) => Err(self.unknown(name)),
            None => Ok(()),
        }
    }

    /// Says that there is no such tool, and which there are.
    fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
        let name = one_line(name, NAME);
        format!("there is no tool `{name}`; there are {}", names.join(", "))
    }

    async fn bash(
        &self,
        host: &ToolContext,
        foreground: &mut Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: bash::Args = tools::parse_arguments(input)?;
        self.warden.permit(foreground, &args.command, args.run_in_background).await?;
        tools::run(host, foreground, args.of_runtime(&self.spawner.cwd)).await
    }

    async fn watch_mcp(
        &self,
        host: &ToolContext,
        foreground: &Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: watch_mcp::Args = tools::parse_arguments(input)?;
        if let Some(command) = &args.command {
            self.warden.permit(foreground, command, true).await?;
        }
        run_blocking(|| args.begin(host, &self.spawner.cwd))
    }

    async fn remote(
        &self,
        host: &Arc<ToolContext>,
        foreground: &mut Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, ToolError> {
        let args: remote::Args = tools::parse_arguments(input)?;
        args.check()?;
        self.warden.permit_doubted(foreground, &args.shown(), args.doubt()).await?;
        args.begin(host, foreground, &self.spawner.cwd).await
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("specs", &self.specs).finish_non_exhaustive()
    }
}

fn spec<A: JsonSchema>(name: &'static str, about: &'static str) -> ToolSpec {
    ToolSpec { name, about, schema: schema::for_arguments::<A>().into() }
}

/// Returns what this agent calls a tool that works on tasks.
fn own_name(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "output" => "task_output",
        "wait" => "task_wait",
        "stop" => "task_stop",
        "list" => "task_list",
        "input" => "task_input",
        "why" => "task_why",
        _ => return None,
    })
}

/// Returns the tool that this agent calls so.
fn tool_of(name: &str) -> Option<&str> {
    name.strip_prefix("task_").filter(|tool| own_name(tool).is_some())
}

/// Returns the result of a call.
pub(super) fn taken(
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
                text.push_str(OUTPUT);
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
