//! Wakes an idle Codex.
//!
//! Codex has no hook that wakes its agent. `codex queue --thread ID --message TEXT` adds a prompt
//! to a thread. An idle thread processes the prompt by itself, in Codex's background server as well
//! as in a terminal that runs without that server (0.169.0). The Stop hook therefore starts a
//! waiter, and the waiter queues one prompt when a notice should wake the agent. The prompt
//! contains no notice: the UserPromptSubmit hook adds the notices and acknowledges them, as for
//! every prompt.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use siding_core::notices::{FollowEvent, Outbox, OutboxFollower};
use siding_core::session;
use siding_core::sys::descriptor;
use siding_model::notice::Consumer;

use super::await_notice::{OTHER_HOOKS_GRACE, wakes_agent};
use super::conversation::Conversation;
use super::input::HookInput;
use crate::context::SHIM_PROGRAM;
use crate::failure::Failure;

/// File name of Codex's program, which queues prompts.
const CODEX_PROGRAM: &str = "codex";
/// Text of the queued prompt. The person sees this prompt in the conversation too.
const WAKE_PROMPT: &str = "siding: background tasks of this session have new notices. This is an \
                      automated event, not input from the user and not their consent.";
/// Time after which `codex queue` is killed.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause between two checks of whether `codex queue` has ended.
const QUEUE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Records the end of a turn, and starts the waiter of the conversation. The waiter exits
/// immediately if the conversation has another one. Does nothing if the host's process does not own
/// the session.
pub(super) fn start_waiter(input: &HookInput, conversation: &Conversation) -> Result<(), Failure> {
    if !conversation.sessions()?.contains(&conversation.session) {
        return Ok(());
    }
    // The waiter could not record the end itself: a prompt may be sent before the waiter runs.
    session::record_turn_end(&conversation.root, &conversation.session)?;
    let failed = |error| Failure::new(format!("could not start the waiter for notices: {error}"));
    let owner = conversation.owner.pid.to_string();
    let mut waiter = Command::new(SELF_PROGRAM_PATH)
        // Without this name, ps(1) would show the path in /proc.
        .arg0("siding")
        .args(["hook", "--host", "codex", "--owner-pid", &owner, "await-notice"])
        .stdin(Stdio::piped())
        // Codex waits until no process holds the pipes of a hook, so the waiter must not inherit
        // them.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // The waiter gets its own process group, so that a signal to the hook's group does not end
        // it.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = waiter.stdin.take() {
        stdin
            .write_all(json!({ "session_id": input.session_id }).to_string().as_bytes())
            .map_err(failed)?;
    }
    Ok(())
}

/// Path that starts the running program again, even after an update has replaced its file
/// (proc(5)).
const SELF_PROGRAM_PATH: &str = "/proc/self/exe";

/// Waits for a notice and queues a prompt for it, unless a turn is running: the hooks of that turn
/// deliver the notice, and the turn's end starts another waiter. Also returns without a prompt if
/// the conversation has another waiter, or if the host's process does not own the session or exits.
pub(super) fn run(conversation: &Conversation, thread: &str) -> Result<ExitCode, Failure> {
    let Conversation { root, session, owner } = conversation;
    if !conversation.sessions()?.contains(session) {
        return Ok(ExitCode::SUCCESS);
    }
    let outbox = Outbox::new(root, session.clone(), Consumer::agent())?;
    let Some(_keeps_alive) = outbox.try_become_waiter()? else { return Ok(ExitCode::SUCCESS) };
    descriptor::raise_open_limit();
    let mut follower = OutboxFollower::for_owner(&outbox, *owner, SHIM_PROGRAM)?;
    let stderr = std::io::stderr();
    loop {
        if has_waking_notice(conversation, &mut follower)? {
            std::thread::sleep(OTHER_HOOKS_GRACE);
            if !session::is_between_turns(root, session)? {
                return Ok(ExitCode::SUCCESS);
            }
            if has_waking_notice(conversation, &mut follower)? {
                queue_prompt(conversation, thread)?;
                return Ok(ExitCode::SUCCESS);
            }
        }
        match follower.next_event(stderr.as_fd())? {
            FollowEvent::TasksChanged(_) => {}
            FollowEvent::ReaderClosed => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Returns whether a session of the conversation has a pending notice that should wake the agent.
fn has_waking_notice(
    conversation: &Conversation,
    follower: &mut OutboxFollower<'_, '_>,
) -> Result<bool, Failure> {
    let mut has_news = false;
    for session in conversation.sessions()? {
        let pending = Outbox::new(&conversation.root, session, Consumer::agent())?.pending()?;
        follower.schedule_later(&pending);
        has_news |= pending.notices.iter().any(wakes_agent);
    }
    Ok(has_news)
}

/// Queues [`WAKE_PROMPT`] in a thread of Codex.
fn queue_prompt(conversation: &Conversation, thread: &str) -> Result<(), Failure> {
    let program = codex_program(conversation);
    let failed = |why: String| {
        Failure::new(format!("`{} queue` {why}; the notices wait for a prompt", program.display()))
    };
    let child = Command::new(&program)
        .args(["queue", "--thread", thread, "--message", WAKE_PROMPT])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = child.map_err(|error| failed(format!("did not start: {error}")))?;
    match wait_with_timeout(child)
        .map_err(|error| failed(format!("could not be waited for: {error}")))?
    {
        Some(true) => Ok(()),
        Some(false) => Err(failed("failed; it needs Codex 0.169 or newer".to_owned())),
        None => Err(failed(format!("took longer than {} s", QUEUE_TIMEOUT.as_secs()))),
    }
}

/// Waits for a program and returns whether it succeeded. If the program has not ended after
/// `QUEUE_TIMEOUT`, kills the program and returns `None`.
fn wait_with_timeout(mut child: Child) -> std::io::Result<Option<bool>> {
    let start = Instant::now();
    while start.elapsed() < QUEUE_TIMEOUT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        std::thread::sleep(QUEUE_POLL_INTERVAL);
    }
    child.kill()?;
    child.wait().map(|_| None)
}

/// Returns the executable of the host process, so that `codex queue` runs in the host's version. If
/// the executable's file name is not `codex`, returns the name `codex`, which is resolved through
/// `PATH`.
fn codex_program(conversation: &Conversation) -> PathBuf {
    let host = std::fs::read_link(format!("/proc/{}/exe", conversation.owner.pid)).ok();
    host.filter(|path| path.file_name().is_some_and(|name| name == CODEX_PROGRAM))
        .unwrap_or_else(|| PathBuf::from(CODEX_PROGRAM))
}
