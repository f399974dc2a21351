//! Running the tools that the model calls, and asking the model itself.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use siding_model::text::one_line;
use siding_tools::sleep::block;
use siding_tools::tools::{self, RunArgs};
use siding_tools::{Answer as Answered, Host, Receipt, Refusal, schema};
use tokio::runtime::Runtime;

use super::came::{Came, Heard};
use super::foreground::{Foreground, Wishes};
use super::mates::Company;
use super::spawn::{self, Spawner};
use super::{Purpose, remote, team, watch_mcp};
use crate::message::{CallId, Message, ToolCall, ToolResult};
use crate::provider::{Answer, AskError, Asking, Cancel, Part, Provider};
use crate::tool::{Scene, ToolSpec, Toolbox};

/// Tokens that a model may write in one answer. All current models may write as many.
const MAX_TOKENS: u32 = 16_384;
/// What stands between siding's words about a command and those of the command.
const OUTPUT: &str = "\n\noutput:\n";

/// Columns of the name of a tool that does not exist.
const NAME: usize = 60;

/// Whether a command may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Nothing speaks against it.
    Yes,
    /// Somebody should look first.
    Ask {
        /// What speaks against it.
        why: String,
    },
    /// It must not.
    No {
        /// What speaks against it.
        why: String,
    },
}

/// What becomes of commands that somebody should look at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubts {
    /// They are not run: nobody is there.
    Refused,
    /// They are run.
    Allowed,
    /// A person is asked.
    Asked,
}

/// Judges a command, which is to run in the background or not.
pub type Guard = Arc<dyn Fn(&str, bool) -> Permit + Send + Sync>;

/// What `bash` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Bash {
    /// Text for bash.
    command: String,
    /// Start it in the background and answer at once with the task id.
    #[serde(default)]
    run_in_background: bool,
    /// Deadline in seconds: how long it may live (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
    /// Seconds to wait before it goes on in the background (default 15).
    #[serde(default)]
    budget: Option<f64>,
    /// Let `task_input` write to it; otherwise it reads nothing.
    #[serde(default)]
    stdin: bool,
    /// Start even though the same command runs already in the same directory.
    #[serde(default)]
    allow_duplicate: bool,
}

const BASH: &str = "\
Run a shell command. Answers with how it ended and its output. One that takes longer than `budget` \
goes on in the background, and the answer has its task id. Every command is ended with all it started \
at its `timeout`, and when this agent ends.";

/// What the model may call, and how it is done.
pub(super) struct Calls {
    toolbox: Toolbox,
    scene: Scene,
    pub(super) spawner: Spawner,
    pub(super) guard: Guard,
    pub(super) company: Company,
    doubts: Doubts,
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
        (guard, doubts): (Guard, Doubts),
    ) -> Result<Self, String> {
        let mut specs = vec![
            ToolSpec { name: "bash", about: BASH, schema: schema::of::<Bash>().into() },
            ToolSpec {
                name: spawn::TOOL,
                about: spawn::ABOUT,
                schema: schema::of::<spawn::Args>().into(),
            },
            ToolSpec {
                name: watch_mcp::NAME,
                about: watch_mcp::ABOUT,
                schema: schema::of::<watch_mcp::Args>().into(),
            },
            ToolSpec {
                name: remote::NAME,
                about: remote::ABOUT,
                schema: schema::of::<remote::Args>().into(),
            },
        ];
        if let Company::Lead(_) = &company {
            let schema = schema::of::<team::SpawnArgs>().into();
            specs.push(ToolSpec { name: team::SPAWN, about: team::ABOUT_SPAWN, schema });
        }
        if !matches!(company, Company::Alone) {
            let schema = schema::of::<team::SendArgs>().into();
            specs.push(ToolSpec { name: team::SEND, about: team::ABOUT_SEND, schema });
        }
        for tool in tools::all() {
            if let Some(name) = own_name(tool.name) {
                specs.push(ToolSpec { name, about: tool.about, schema: tool.schema.into() });
            }
        }
        specs.extend(toolbox.specs().iter().cloned());
        let mut calls = Self { toolbox, scene, spawner, guard, company, doubts, specs };
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
        host: &Arc<Host>,
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
                ("bash", _, Value::Object(input)) => {
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
                        answer.unwrap_or_else(|| Err(Refusal::Arguments(this.unknown(&name))));
                    taken(id, &host, answer)
                }
                (_, _, input) => {
                    let outcome = block(|| this.toolbox.run(&this.scene, &name, input, &cancel));
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
        host: &Host,
        foreground: &mut Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, Refusal> {
        let Bash { command, run_in_background, timeout, budget, stdin, allow_duplicate } =
            tools::read(input)?;
        self.permit(foreground, &command, run_in_background).await?;
        let args = RunArgs {
            command,
            background: run_in_background,
            timeout,
            budget,
            stdin,
            allow_duplicate,
            cwd: Some(self.spawner.cwd.clone()),
            may_start_away: true,
            ..RunArgs::default()
        };
        tools::run(host, foreground, args).await
    }

    async fn watch_mcp(
        &self,
        host: &Host,
        foreground: &Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, Refusal> {
        let args: watch_mcp::Args = tools::read(input)?;
        if let Some(command) = &args.command {
            self.permit(foreground, command, true).await?;
        }
        block(|| args.begin(host, &self.spawner.cwd))
    }

    async fn remote(
        &self,
        host: &Arc<Host>,
        foreground: &mut Foreground,
        input: serde_json::Map<String, Value>,
    ) -> Result<Answered, Refusal> {
        let args: remote::Args = tools::read(input)?;
        args.check()?;
        let shown = args.shown();
        match ((self.guard)(&shown, true), args.doubt()) {
            (Permit::Yes, Some(why)) => self.doubt(foreground, &shown, why).await?,
            (permit, _) => self.held_to(permit, foreground, &shown).await?,
        }
        args.begin(host, foreground, &self.spawner.cwd).await
    }

    /// Makes sure that a command may run.
    async fn permit(
        &self,
        foreground: &Foreground,
        command: &str,
        background: bool,
    ) -> Result<(), Refusal> {
        self.held_to((self.guard)(command, background), foreground, command).await
    }

    /// Does as the guard says.
    async fn held_to(
        &self,
        permit: Permit,
        foreground: &Foreground,
        command: &str,
    ) -> Result<(), Refusal> {
        match permit {
            Permit::Yes => Ok(()),
            Permit::Ask { why } => self.doubt(foreground, command, why).await,
            Permit::No { why } => Err(Refusal::Arguments(format!("not run: {why}"))),
        }
    }

    /// Has it decided whether a command is run that somebody should look at first.
    async fn doubt(
        &self,
        foreground: &Foreground,
        command: &str,
        why: String,
    ) -> Result<(), Refusal> {
        let no = |who: &str| {
            Err(Refusal::Arguments(format!(
                "not run: a person has to say yes to this first, and {who}: {why}"
            )))
        };
        match self.doubts {
            Doubts::Allowed => Ok(()),
            Doubts::Refused => no("none is asked here"),
            Doubts::Asked => match foreground.ask(command, &why).await {
                Some(true) => Ok(()),
                Some(false) => no("has said no"),
                None => Err(Refusal::Cancelled),
            },
        }
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("specs", &self.specs).finish_non_exhaustive()
    }
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
    host: &Host,
    answer: Result<Answered, Refusal>,
) -> (ToolResult, Vec<Receipt>) {
    match answer {
        Ok(mut answer) => {
            let receipts = std::mem::take(&mut answer.receipts);
            let is_error = answer.is_error;
            let mut text = answer.said.join("\n");
            if let Some(output) = answer.output.filter(|output| !output.is_empty()) {
                text.push_str(OUTPUT);
                text.push_str(&output);
            }
            (ToolResult { call, text, is_error }, receipts)
        }
        Err(refusal) => {
            let text = refusal.line(host.dialect);
            (ToolResult { call, text, is_error: true }, Vec::new())
        }
    }
}
