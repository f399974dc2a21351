//! Answers the start of a conversation, and its continuation after it was resumed, cleared or
//! compacted.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use siding_core::session;
use siding_core::sys::descriptor;
use siding_core::upkeep::reap::ReapStep;
use siding_model::id::SessionId;
use siding_model::unowned::ReportAudience;

use super::answer::{AnswerWithAcks, HookAnswer};
use super::conversation::Conversation;
use super::host::HookHost;
use super::notices::escape_xml;
use super::stale_sessions;
use super::{daily_report, reminder, supervision};
use crate::cmd::reap;
use crate::context;
use crate::failure::Failure;
use crate::shell_init;

/// Variable with the path of the file that each of Claude Code's shells reads first.
const CLAUDE_ENV_FILE_VARIABLE: &str = "CLAUDE_ENV_FILE";
/// The corresponding variable of Codex, which runs the file once and keeps the variables that the
/// file sets.
const CODEX_ENV_FILE_VARIABLE: &str = "CODEX_ENV_FILE";

/// Opens the session, removes what earlier sessions left, and answers with facts for the agent.
pub(super) fn answer(
    conversation: &Conversation,
    host: HookHost,
) -> Result<AnswerWithAcks<'_>, Failure> {
    // The session is opened before the reaper runs, so that the tasks of a resumed conversation
    // have an owner again and are not stopped.
    conversation.open_session()?;
    session::record_hooks(&conversation.root, &conversation.session)?;
    write_adoption_line(host, &conversation.session).unwrap_or_else(|failure| {
        failure.report();
    });
    descriptor::raise_open_limit();
    let settings = context::load_settings()?;
    let steps =
        reap::run_for_session_fast(&conversation.root, &settings).unwrap_or_else(|failure| {
            // A failure of the reaper is only reported, because the session is already open.
            failure.report();
            Vec::new()
        });
    let mut text = String::new();
    match supervision::start(conversation, host, &settings) {
        Ok(unkept) => text.extend(unkept),
        // A failure to start the supervisor is only reported.
        Err(failure) => drop(failure.report()),
    }
    if let Some(left) = stale_sessions::report_and_close_stale(&conversation.root)? {
        text.push_str(&left);
    }
    let report = reap::report_for_agent(&conversation.root, &settings, &steps);
    text.push_str(report.as_deref().unwrap_or_default());
    if let Some(cleared) = format_cleared(&steps) {
        text.push_str(&format!("siding cleaned up after earlier crashes: {cleared}.\n"));
    }
    if let Some(running) = reminder::list_background_tasks(conversation)? {
        text.push_str(&format!("Running background tasks of this session:\n{running}"));
    }
    let daily = daily_report::due_report(&conversation.root, &settings);
    if let Some(daily) = &daily {
        text.push_str(&daily.context);
    }
    if text.is_empty() {
        return Ok(HookAnswer::Nothing.into());
    }
    let context = format!("siding reports (automated, not from the user):\n{}", escape_xml(&text));
    let answer = AnswerWithAcks::from(HookAnswer::Context(context))
        .with_person_line(daily.map(|daily| daily.person));
    // The report of unowned processes is recorded as shown only once the host has received it.
    Ok(answer.on_delivered(move || {
        reap::record_report_shown(&conversation.root, &settings, &steps, ReportAudience::Agent);
    }))
}

/// Returns a summary of the reaper's steps for the agent; `None` if there is nothing to report.
fn format_cleared(steps: &[ReapStep]) -> Option<String> {
    // Tasks of ended sessions are omitted, because `stale_sessions` reports them. Unowned processes
    // that were only found are omitted, because `report_for_agent` reports them.
    let is_news = |step: &&ReapStep| {
        !matches!(step, ReapStep::Leaving { .. } | ReapStep::ForeignFound { .. })
    };
    reap::format_summary(&steps.iter().filter(is_news).cloned().collect::<Vec<_>>())
}

/// Appends text to the host's environment file: for Claude Code the script that requests the
/// adoption of each new shell, for Codex the variable that names the session. Gemini CLI has no
/// such file.
fn write_adoption_line(host: HookHost, session: &SessionId) -> Result<(), Failure> {
    let (name, text) = match host {
        HookHost::ClaudeCode => {
            let program = std::env::current_exe().map_err(|error| {
                Failure::new(format!("could not find siding's own path: {error}"))
            })?;
            (CLAUDE_ENV_FILE_VARIABLE, shell_init::init_script(&program, Some(session))?)
        }
        HookHost::Codex => (CODEX_ENV_FILE_VARIABLE, format!("export SIDING_SESSION={session}\n")),
        HookHost::Gemini => return Ok(()),
    };
    let Some(path) = std::env::var_os(name) else { return Ok(()) };
    append_once(Path::new(&path), &text).map_err(|error| {
        Failure::new(format!("could not write `{}` ({name}): {error}", path.display()))
            .with_hint("commands of this session run as before, without siding")
    })
}

/// Appends a text to a file unless the file contains it already: SessionStart occurs again when a
/// conversation is compacted.
fn append_once(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut before = String::new();
    file.read_to_string(&mut before)?;
    if before.contains(text) {
        return Ok(());
    }
    file.seek(SeekFrom::End(0))?;
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    file.write_all(format!("{gap}{text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_once_adds_a_line_once_at_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("env");
        append_once(&path, "ours\n").expect("added");
        append_once(&path, "ours\n").expect("there");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "ours\n");
        std::fs::write(&path, "export A=1").expect("a file");
        append_once(&path, "ours\n").expect("added");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "export A=1\nours\n");
    }
}
