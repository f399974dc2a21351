//! Starts and notifies the host supervisor, which adopts a host's sandboxed commands and terminates
//! the processes that the host leaves behind.

use siding_core::host::{self, HostContext, HostFiles, SuperviseError};
use siding_core::session;
use siding_core::sys::birthmark;
use siding_core::task::adopt::AdoptionSettings;
use siding_model::host::BellByte;
use siding_model::id::Birthmark;
use siding_model::settings::Settings;

use super::conversation::Conversation;
use super::host::{HookEvent, HookHost};
use super::input::HookInput;
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;

/// Name of the file that records that the session's agent was warned about unsupervised commands.
const UNSUPERVISED_MARKER: &str = "unsupervised-warned";

/// Starts the host's supervisor if the settings enable it. If the supervisor cannot be started,
/// returns a warning for the agent, once in each conversation.
pub(super) fn start(
    conversation: &Conversation,
    host: HookHost,
    settings: &Settings,
) -> Result<Option<String>, Failure> {
    if !settings.supervise_hosts {
        return Ok(None);
    }
    let Conversation { root, owner, session } = conversation;
    let current = HostContext { session: session.clone(), terms: AdoptionSettings::from(settings) };
    let Err(why) = host::supervise(root, *owner, &current, SHIM_PROGRAM) else { return Ok(None) };
    if !session::record_once(root, session, UNSUPERVISED_MARKER)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "Commands that this program runs in a sandbox are not supervised by siding in this session: no \
         deadline, not in `siding ps`; and processes that it leaves when it is killed are not stopped. \
         Reason: {why}. `siding doctor --host {}` shows what to do. Commands outside a sandbox are \
         supervised as usual.\n",
        host.name()
    )))
}

/// Notifies the supervisor of an event. If the supervisor was killed, starts another one. If the
/// supervisor's files name another session, stores the event's session in them. Failures are
/// ignored, because the hook must answer the host in any case; the next event tries again.
pub(super) fn notify_supervisor(input: &HookInput, host: HookHost, event: HookEvent) {
    let ring = match event {
        HookEvent::PreToolUse if input.command().is_some() => BellByte::CallStarted,
        HookEvent::PostToolUse | HookEvent::PostToolUseFailure | HookEvent::PostToolBatch => {
            BellByte::CallReturned
        }
        HookEvent::PreToolUse | HookEvent::UserPromptSubmit | HookEvent::Stop => BellByte::Scan,
        HookEvent::SessionStart
        | HookEvent::SessionEnd
        | HookEvent::AwaitNotice
        | HookEvent::NotifyPerson => {
            return;
        }
    };
    // Every descendant of a supervised host inherits the host's mark, this process too. Without a
    // mark there is no supervisor to notify, and the state directory must not be created for an
    // event that needs no record.
    if birthmark::own_birthmark().and_then(Birthmark::host_mark).is_none() {
        return;
    }
    if let Ok(Some(conversation)) = Conversation::from_input(input, host, None) {
        let _best_effort = try_notify_supervisor(&conversation, ring);
    }
}

fn try_notify_supervisor(conversation: &Conversation, ring: BellByte) -> Result<(), Failure> {
    let Conversation { root, owner, session } = conversation;
    let Some(mark) = host::supervised_mark(root, *owner) else { return Ok(()) };
    let files = HostFiles::open(root, mark)?;
    let is_current = files.context().is_ok_and(|current| current.session == *session);
    if is_current && files.ring_bell(ring).is_ok() {
        return Ok(());
    }
    let settings = context::load_settings()?;
    let current =
        HostContext { session: session.clone(), terms: AdoptionSettings::from(&settings) };
    host::supervise(root, *owner, &current, SHIM_PROGRAM).map_err(unsupervised_failure)?;
    let _receiver_dropped = files.ring_bell(ring);
    Ok(())
}

fn unsupervised_failure(why: SuperviseError) -> Failure {
    Failure::new(why)
}
