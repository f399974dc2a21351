//! Reminders of running tasks at a user's prompt (promise P68).

use serde_json::json;

use crate::support::{
    SESSION_ID, close_session, hook_context, open_session, sandbox, start_background_task,
};

const PROMPT_EVENT: &str = "user-prompt-submit";

/// Failures F30 and F53: a background task that was started after a prompt is named once, at the
/// next prompt, unless the agent has read its output.
#[test]
fn unread_background_task_is_named_once_at_the_next_prompt() {
    let sandbox = sandbox();
    open_session(&sandbox);
    assert_eq!(hook_context(&sandbox, PROMPT_EVENT, json!({})), "");
    let forgotten = start_background_task(&sandbox, "sleep 60");
    let looked_at = start_background_task(&sandbox, "echo text; sleep 60");
    siding_e2e::eventually("the output was read", || {
        let reading = sandbox.siding(&["output", &looked_at]).env("SIDING_SESSION", SESSION_ID);
        reading.run().expect_code(0).stdout_text().contains("text")
    });
    let context = hook_context(&sandbox, PROMPT_EVENT, json!({}));
    assert!(context.contains("automated, not from the user"), "{context}");
    assert!(context.contains(&forgotten) && !context.contains(&looked_at), "{context}");
    assert_eq!(hook_context(&sandbox, PROMPT_EVENT, json!({})), "", "expected exactly once");
    close_session(&sandbox);
}

/// Prompts do not count as batches, so twenty prompts without tool calls do not cause a list of
/// running tasks.
#[test]
fn prompts_do_not_count_as_batches() {
    let sandbox = sandbox();
    open_session(&sandbox);
    let id = start_background_task(&sandbox, "sleep 60");
    let named: Vec<u32> = (1..=21)
        .filter(|_| hook_context(&sandbox, PROMPT_EVENT, json!({})).contains(&id))
        .collect();
    assert_eq!(named, [] as [u32; 0]);
    close_session(&sandbox);
}
