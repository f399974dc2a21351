//! What has become of the session's other tasks, told behind the answer of a tool. There is no other
//! way to a client that no hook tells it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use siding_core::notices::Outbox;
use siding_core::session::{self, Session};
use siding_core::sys::procfs;
use siding_model::advice::Dialect;
use siding_model::id::TaskId;
use siding_model::notice::{Consumer, NoticeId, NoticeView, format_notice_xml};
use siding_model::text::cut_head;

use crate::answer::Answer;
use crate::host::Host;
use crate::receipt::Receipt;

/// Bytes of notices behind one answer.
const MOST: usize = 8 << 10;
/// Bytes of a command in a notice that would be longer than that.
const COMMAND: usize = 80;

/// The notices that stand in answers which are on their way, so that of several calls at once only
/// one tells them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Telling(Arc<Mutex<HashSet<NoticeId>>>);

impl Telling {
    fn ids(&self) -> MutexGuard<'_, HashSet<NoticeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices that stand in an answer.
#[derive(Debug)]
pub struct News {
    pub(crate) ids: Vec<NoticeId>,
    telling: Telling,
}

impl Drop for News {
    fn drop(&mut self) {
        self.telling.ids().retain(|id| !self.ids.contains(id));
    }
}

/// Puts the session's news behind an answer. What cannot be read is told later.
pub fn add(host: &Host, answer: &mut Answer) {
    let Ok(outbox) = Outbox::new(&host.root, host.session.clone(), Consumer::agent()) else {
        return;
    };
    // From before the look: what another answer tells is either in here or acknowledged.
    let mut telling = host.telling.ids();
    let Ok(mut look) = outbox.pending() else { return };
    // The answer itself says how these stand.
    let said: HashSet<TaskId> = answer.receipts.iter().filter_map(Receipt::task).collect();
    look.notices.retain(|new| !said.contains(&new.task_id) && !telling.contains(&new.notice_id));
    if look.notices.is_empty() || hooks_tell(host) {
        return;
    }
    let (text, ids) = words(host.dialect, look.notices);
    // Said where no task can say it: what a task wrote may look like news.
    answer.said.push("news of this session's background tasks is in the last block".to_owned());
    telling.extend(ids.iter().copied());
    answer.news = Some(text);
    answer.receipts.push(Receipt::News(News { ids, telling: host.telling.clone() }));
}

/// Whether hooks of the client tell the news of all its sessions: they have opened one for its owner.
pub(crate) fn hooks_tell(host: &Host) -> bool {
    let own = procfs::boot_id().ok().zip(session::read(&host.root, &host.session).ok().flatten());
    let owner = own.and_then(|(boot, session)| session.living_owner(&boot));
    let sessions = owner.and_then(|owner| session::list_owned_by(&host.root, owner).ok());
    let has_hooks = |one: &Session| session::has_hooks(&host.root, &one.id);
    sessions.is_some_and(|all| all.iter().any(has_hooks))
}

/// Returns as many notices as there is room for, in order, and which these are.
fn words(dialect: Dialect, notices: Vec<NoticeView>) -> (String, Vec<NoticeId>) {
    let (mut blocks, mut ids) = (String::new(), Vec::new());
    let all = notices.len();
    for notice in notices {
        let id = notice.notice_id;
        let block = block(dialect, notice);
        if blocks.len() + block.len() > MOST && !ids.is_empty() {
            break;
        }
        blocks.push_str(&block);
        ids.push(id);
    }
    let mut text = format!("Reported by siding, of this session's background tasks:\n{blocks}");
    if ids.len() < all {
        let left = all - ids.len();
        let _a_string_takes_all =
            writeln!(text, "{left} more will be reported with the next answer.");
    }
    (text, ids)
}

/// Returns a notice as a model is told it, in short where it is too long for one answer.
#[must_use]
pub fn block(dialect: Dialect, mut notice: NoticeView) -> String {
    let whole = format_notice_xml(&notice);
    if whole.len() <= MOST {
        return whole;
    }
    reduce(dialect, &mut notice);
    format_notice_xml(&notice)
}

/// Leaves only what no task can make long.
fn reduce(dialect: Dialect, notice: &mut NoticeView) {
    notice.summary =
        format!("too long to be told here; {} shows it", dialect.format_tool("output"));
    notice.command = cut_head(&notice.command, COMMAND).to_owned();
    notice.evidence = None;
}
