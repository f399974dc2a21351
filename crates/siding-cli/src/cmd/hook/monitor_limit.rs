//! The maximum lifetime of the host's own monitors.
//!
//! Claude Code ends a `Monitor` after at most 30 minutes, or 10 minutes in a headless run
//! (2.1.330). It documents these limits only in a tool schema that an agent may not have read. Only
//! the cap (`max_elapsed_hard_cap`) limits `siding monitor`.

use std::time::Duration;

use serde_json::Value;
use siding_model::duration::format_duration;

use super::await_notice;
use super::input::HookInput;
use crate::context;

/// Claude Code's tool that runs a command and reports each line of its output.
const MONITOR_TOOL: &str = "Monitor";
/// Maximum lifetime of a monitor in a session with a terminal.
const MAX_INTERACTIVE_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// Maximum lifetime of a monitor in a headless run.
const MAX_HEADLESS_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Returns a note for an agent whose monitor requests a longer lifetime than the host allows.
pub(super) fn format_limit_remark(input: &HookInput) -> Option<String> {
    let call =
        input.tool_input.as_ref().filter(|_| input.tool_name.as_deref() == Some(MONITOR_TOOL))?;
    // A monitor of a WebSocket has no command that siding could run.
    call.get("command")?.as_str()?;
    let longest =
        if await_notice::is_headless() { MAX_HEADLESS_LIFETIME } else { MAX_INTERACTIVE_LIFETIME };
    let asked = call.get("timeout_ms").and_then(Value::as_u64).map(Duration::from_millis);
    let is_cut = asked.is_some_and(|asked| asked > longest);
    let is_persistent = call.get("persistent") == Some(&Value::Bool(true));
    (is_cut || is_persistent).then(|| {
        let cap = context::load_valid_settings().max_elapsed_hard_cap;
        format!(
            "Claude Code ends this monitor after {} at most. `siding monitor --persistent -- 'COMMAND'` \
             in Bash watches for up to {}; its lines are reported to you in the same way.",
            format_duration(longest),
            format_duration(cap)
        )
    })
}
