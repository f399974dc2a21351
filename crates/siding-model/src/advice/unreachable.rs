//! The advice about a task whose remote machine is not reachable.

use std::time::Duration;

use super::truncate_to_seconds;
use crate::duration::format_duration;
use crate::process::UnixMs;
use crate::task_view::TaskView;
use crate::text::one_line;

/// Maximum number of columns of the reason, which is usually the last message of ssh.
const REASON_COLUMNS: usize = 200;

/// Says that the connection to the task's remote machine is interrupted, and what happens to the
/// task. Returns `None` for a task whose machine is reachable.
pub(super) fn unreachable_advice(view: &TaskView, now: UnixMs) -> Option<String> {
    let unreachable = view.unreachable.as_ref()?;
    let executor = one_line(view.executor.as_deref()?, usize::MAX);
    let elapsed = UnixMs::from_rfc3339(&unreachable.since).map_or_else(String::new, |since| {
        let elapsed = Duration::from_millis(u64::try_from(now.0 - since.0).unwrap_or(0));
        format!(" for {}", format_duration(truncate_to_seconds(elapsed)))
    });
    let next = if unreachable.stop_pending {
        "it is stopped there as soon as the connection is restored"
    } else if view.machine.is_some() {
        "it continues there, and siding tries to connect again"
    } else {
        // The connection broke before the machine answered.
        "it may have been started there, and siding tries to connect again"
    };
    let why = one_line(&unreachable.why, REASON_COLUMNS);
    Some(format!("its executor {executor} has been unreachable{elapsed} ({why}); {next}"))
}
