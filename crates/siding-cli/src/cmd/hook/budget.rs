//! The blocking budget of the host's own shell calls.
//!
//! PreToolUse sets the `timeout` of a call, and Claude Code moves the running command to the
//! background when the timeout expires. PostToolUse then explains the timeout, because the host's
//! message names a timeout that the agent never set. Nothing else in a shell call changes.
//!
//! In a subagent's call of siding's tool `run`, PreToolUse may set the `budget` instead.

use std::time::Duration;

use serde_json::{Map, Value, json};
use siding_model::budget::{BudgetCall, BudgetPolicy, HostCall, WaitRequest};
use siding_model::duration::format_duration;
use siding_model::settings::{HostBudget, Key, Origin};
use siding_model::text::one_line;

use super::input::HookInput;
use crate::context;

/// Claude Code's shell tool, whose calls get the budget.
const SHELL_TOOL: &str = "Bash";
/// Claude Code's name for the tool `run` of siding's MCP server.
const SIDING_RUN_TOOL: &str = "mcp__siding__run";
/// Time after a command's deadline and kill grace by which the shim has normally recorded the end
/// of the command.
const AFTER_KILL_MARGIN: Duration = Duration::from_secs(60);
/// Timeout in milliseconds of a shell call that sets none (Claude Code 2.1.330).
const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The host's variable that overrides `DEFAULT_TIMEOUT_MS`.
const DEFAULT_TIMEOUT_VARIABLE: &str = "BASH_DEFAULT_TIMEOUT_MS";
/// The host's variable that disables background commands. The host then kills a command at its
/// timeout.
const BACKGROUND_DISABLED_VARIABLE: &str = "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS";

/// Returns the policy for the host's calls, or `None` if the budget is off. A `budget` in siding's
/// settings takes precedence over the one that `siding install` wrote into the hook.
fn budget_policy(installed: HostBudget) -> Option<BudgetPolicy> {
    // `siding config check` reports mistakes in settings; here only the valid settings apply.
    let settings = context::load_valid_settings();
    let is_set = *settings.origin(Key::Budget) != Origin::BuiltIn;
    let budget = if is_set { settings.budget } else { installed };
    Some(BudgetPolicy { budget: budget.duration()?, ..settings.budget_policy() })
}

/// Returns the complete input of a call with the budget as its timeout, or `None` to leave the call
/// unchanged.
pub(super) fn updated_input(input: &HookInput, installed: HostBudget) -> Option<Value> {
    let call = shell_call(input)?;
    let policy = budget_policy(installed)?;
    let timeout = policy.decide_host_timeout(&HostCall {
        command: call.get("command")?.as_str()?,
        timeout: call_timeout(call)?,
        is_background: call
            .get("run_in_background")
            .is_some_and(|flag| *flag != Value::Bool(false)),
        is_subagent: input.agent_id.is_some(),
        can_move: !is_truthy(std::env::var(BACKGROUND_DISABLED_VARIABLE).ok().as_deref()),
    })?;
    // The host replaces the complete input, so the other fields must be repeated.
    let mut updated = call.clone();
    updated.insert("timeout".to_owned(), json!(to_millis(timeout)));
    Some(Value::Object(updated))
}

/// Returns the complete input of a subagent's call of siding's `run` tool, with a budget that lasts
/// until the command's end. Returns `None` to leave the call unchanged, for example if the policy
/// treats a subagent's call like others. The MCP server cannot set this budget, because it cannot
/// distinguish a subagent's call from others.
pub(super) fn updated_subagent_input(input: &HookInput) -> Option<Value> {
    let call = input
        .tool_input
        .as_ref()
        .filter(|_| input.tool_name.as_deref() == Some(SIDING_RUN_TOOL))?;
    let names_wait =
        ["background", "budget", "wait_for"].iter().any(|name| call.contains_key(*name));
    if names_wait || input.agent_id.is_none() {
        return None;
    }
    let settings = context::load_valid_settings();
    let asked = |is_subagent| BudgetCall {
        request: WaitRequest::Unspecified,
        is_subagent,
        is_person: false,
    };
    let policy = settings.budget_policy();
    if policy.decide(asked(true)) == policy.decide(asked(false)) {
        return None;
    }
    let timeout = call.get("timeout").and_then(Value::as_f64);
    let timeout = timeout.map(Duration::try_from_secs_f64).transpose().ok()?;
    let end_timeout = settings.deadline(timeout) + settings.kill_grace + AFTER_KILL_MARGIN;
    let mut updated = call.clone();
    updated.insert("budget".to_owned(), json!(end_timeout.as_secs()));
    Some(Value::Object(updated))
}

/// Returns a note for an agent whose command the host moved to the background when the budget
/// expired; `None` for any other call.
pub(super) fn format_background_move(input: &HookInput, installed: HostBudget) -> Option<String> {
    let call = shell_call(input)?;
    let response = input.tool_response.as_ref()?;
    let after = response.get("timedOutAfterMs")?.as_u64()?;
    let task = response.get("backgroundTaskId")?.as_str()?;
    let budget = budget_policy(installed)?.budget;
    let is_budget = after == to_millis(budget) && call.get("timeout")?.as_u64() == Some(after);
    is_budget.then(|| {
        format!(
            "The timeout of {} is siding's budget for foreground commands. At the budget Claude Code \
             moved this command to the background as {}, without interrupting it; you will be notified when \
             it ends. A command known to take this long can be started with `run_in_background`.",
            format_duration(budget),
            one_line(task, HOST_TASK_ID_COLUMNS)
        )
    })
}

/// Maximum width in columns of the host's task id, which siding does not control.
const HOST_TASK_ID_COLUMNS: usize = 40;

/// Returns the input of the tool call if the tool is the host's shell tool.
fn shell_call(input: &HookInput) -> Option<&Map<String, Value>> {
    input.tool_input.as_ref().filter(|_| input.tool_name.as_deref() == Some(SHELL_TOOL))
}

/// Returns the timeout that a call has without a budget, or `None` if its `timeout` is not a whole
/// number of milliseconds. In that case the hook leaves the call unchanged, and the host handles
/// the invalid value.
fn call_timeout(call: &Map<String, Value>) -> Option<Duration> {
    let timeout = match call.get("timeout") {
        None | Some(Value::Null) => {
            let set = std::env::var(DEFAULT_TIMEOUT_VARIABLE).ok();
            set.and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT_TIMEOUT_MS)
        }
        Some(value) => value.as_u64()?,
    };
    Some(Duration::from_millis(timeout))
}

/// Returns whether the host interprets the value of a variable as true.
fn is_truthy(value: Option<&str>) -> bool {
    value.is_some_and(|value| !["", "0", "false", "no", "off"].contains(&value.trim()))
}

fn to_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
