//! Notifies a person of the notices that may require action, until the host's process ends.
//!
//! The hook returns immediately. A detached process follows the sessions of the host, sleeps until
//! a journal changes, and ends with the host. There is one such process for each host, even if the
//! host starts several conversations.

use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use siding_core::notices::{DeliveryLock, FollowEvent, Outbox, OutboxFollower};
use siding_core::sys::{descriptor, inspect_process};
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId, NoticeView, needs_person};
use siding_model::process::ProcRef;
use siding_model::settings::Webhook;

use super::conversation::Conversation;
use super::host::HookHost;
use crate::cmd::notices::{BellTarget, PersonNotifier};
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;
use crate::install::notify;
use crate::notify_method::{NotifyMethod, join_methods};

/// Descriptors through which a host's terminal is found, in the order of the checks.
const STANDARD_FDS: [i32; 3] = [1, 2, 0];

/// Arguments of the hook `notify-person` and of the detached process that it starts.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct FollowArgs {
    /// How to notify the person, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WAYS")]
    via: Vec<NotifyMethod>,
    #[arg(long, hide = true, requires_all = ["owner_pid", "owner_start"])]
    follow: Option<SessionId>,
    #[arg(long, hide = true)]
    owner_start: Option<u64>,
}

impl FollowArgs {
    /// Returns the conversation to follow, whose host has the process id `owner_pid`. Returns
    /// `None` in the hook itself, because only the detached process gets these arguments.
    pub(super) fn followed_conversation(
        &self,
        owner_pid: Option<i32>,
    ) -> Result<Option<Conversation>, Failure> {
        let (Some(session), Some(pid), Some(start_ticks)) =
            (self.follow.clone(), owner_pid, self.owner_start)
        else {
            return Ok(None);
        };
        let owner = ProcRef { pid, start_ticks };
        Ok(Some(Conversation { root: context::open_state_dir()?, owner, session }))
    }
}

/// Starts the detached process that follows the host's sessions.
pub(super) fn start_detached(
    conversation: &Conversation,
    host: HookHost,
    args: &FollowArgs,
) -> Result<ExitCode, Failure> {
    if args.via.is_empty() {
        return Err(Failure::new("notify-person needs --via")
            .with_hint("`--via desktop,bell,webhook`, or some of these"));
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("could not find siding's own path: {error}")))?;
    let child = Command::new(program)
        .args(["hook", "--host", host.name()])
        .args(["--via", &join_methods(&args.via), "--follow", conversation.session.as_str()])
        .args(["--owner-pid", &conversation.owner.pid.to_string()])
        .args(["--owner-start", &conversation.owner.start_ticks.to_string()])
        .arg("notify-person")
        // The host waits until no process holds the hook's pipes, and kills the hook's process
        // group, so the detached process must not have these pipes or be in this group.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    child.map_err(|error| Failure::new(format!("could not start siding to follow: {error}")))?;
    Ok(ExitCode::SUCCESS)
}

/// Follows the sessions of the host's process until that process ends.
pub(super) fn follow(
    conversation: &Conversation,
    host: HookHost,
    args: &FollowArgs,
) -> Result<ExitCode, Failure> {
    let Some(_keeps_alive) = claim_follower_locks(conversation)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let root = &conversation.root;
    let mut notifier = open_notifier(conversation, host, &args.via)?;
    // The follower opens one descriptor for each running task.
    descriptor::raise_open_limit();
    let outbox = Outbox::new(root, conversation.session.clone(), Consumer::person())?;
    let mut follower = OutboxFollower::for_owner(&outbox, conversation.owner, SHIM_PROGRAM)?;
    let stderr = std::io::stderr();
    // The first pass only acknowledges the notices from before the start: a resumed conversation
    // may have a long history, which must not be delivered.
    let mut is_past_first_pass = false;
    loop {
        for session in conversation.sessions()? {
            let outbox = Outbox::new(root, session, Consumer::person())?;
            let _keeps_alive = outbox.lock_delivery()?;
            let pending = outbox.pending()?;
            follower.schedule_later(&pending);
            if is_past_first_pass {
                let wanted = pending.notices.iter().filter(|notice| needs_person(notice));
                notifier.notify(&wanted.collect::<Vec<&NoticeView>>());
            }
            let ids: Vec<NoticeId> =
                pending.notices.iter().map(|notice| notice.notice_id).collect();
            outbox.acknowledge(&ids)?;
        }
        is_past_first_pass = true;
        match follower.next_event(stderr.as_fd())? {
            FollowEvent::TasksChanged(_) => {}
            FollowEvent::ReaderClosed => break,
        }
    }
    notifier.finish();
    Ok(ExitCode::SUCCESS)
}

/// Acquires the locks that make this process the only one that notifies the person about this
/// host's sessions. Returns `None` if another process holds one of the locks.
fn claim_follower_locks(conversation: &Conversation) -> Result<Option<Vec<DeliveryLock>>, Failure> {
    let mut sessions = conversation.sessions()?;
    if !sessions.contains(&conversation.session) {
        // The hook that opens the session may still be running, so this session is possibly not
        // listed yet.
        sessions.push(conversation.session.clone());
    }
    let mut locks = Vec::new();
    for session in sessions {
        let outbox = Outbox::new(&conversation.root, session, Consumer::person())?;
        match outbox.try_become_waiter()? {
            Some(turn) => locks.push(turn),
            None => return Ok(None),
        }
    }
    Ok(Some(locks))
}

fn open_notifier(
    conversation: &Conversation,
    host: HookHost,
    via: &[NotifyMethod],
) -> Result<PersonNotifier, Failure> {
    let bell =
        via.contains(&NotifyMethod::Bell).then(|| find_terminal(conversation.owner.pid)).flatten();
    let webhook = match via.contains(&NotifyMethod::Webhook) {
        true => notify::stored_address(conversation.root.path(), host.name())?
            .unwrap_or_else(|| context::load_valid_settings().notify_webhook),
        false => Webhook::OFF,
    };
    let desktop = via.contains(&NotifyMethod::Desktop);
    PersonNotifier::from_methods(
        desktop,
        bell.map_or(BellTarget::Off, BellTarget::Terminal),
        &webhook,
    )
}

/// Returns the terminal to which a standard descriptor of the host refers. The hook's own
/// descriptors refer to pipes.
fn find_terminal(host: i32) -> Option<PathBuf> {
    let mut names = STANDARD_FDS.into_iter().filter_map(|fd| inspect_process::fd_path(host, fd));
    names.find(|name| name.starts_with("/dev/pts/") || name.starts_with("/dev/tty")).map(Into::into)
}
