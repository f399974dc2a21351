//! Having the host's process watched: its commands in a sandbox are kept, and what it leaves is ended.

use siding_core::adopt::AdoptionSettings;
use siding_core::host::{self, HostContext, HostFiles, SuperviseError};
use siding_core::session;
use siding_core::sys::birthmark;
use siding_model::host::BellByte;
use siding_model::id::Birthmark;
use siding_model::settings::Settings;

use super::conversation::Conversation;
use super::host::{HookEvent, HookHost};
use super::input::HookInput;
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;

/// Name of the file by which a session knows that its agent was told.
const UNSUPERVISED_MARKER: &str = "told-unsupervised";

/// Has the host watched from now on. Returns what its agent is to know: which commands are not kept,
/// the first time in this conversation.
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
        "Commands that this program runs in a sandbox are not kept by siding in this session: no \
         deadline, not in `siding ps`; and what it leaves running when it is killed is not ended. \
         Why: {why}. `siding doctor --host {}` says what to do. Commands outside of a sandbox are \
         kept as ever.\n",
        host.name()
    )))
}

/// Tells the supervisor what happens, and starts another where it was killed. That the host's event is
/// answered matters more: what fails here is tried again with the next one.
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
    // Whatever a marked host starts carries its mark, this process too. Where none does nothing is
    // touched: an event that needs no record must make none.
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
