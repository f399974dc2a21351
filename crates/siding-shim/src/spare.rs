//! Letting go of programs that a person opened through an adopted command and wants to keep.

use siding_core::sys::{birthmark, procfs};
use siding_model::host::is_excluded_program;
use siding_model::id::Birthmark;
use siding_model::process::ProcRef;

use crate::keeper::Keeper;

/// Most of a command line that is read, in bytes.
const WORDS_MAX: usize = 16 << 10;

impl Keeper {
    /// Takes out of an adopted task what is a person's: an editor or browser that has left the
    /// command's session, and all below it. From then on it carries a mark that is no task's.
    pub(crate) fn let_go_of_spared(&mut self) {
        let Some(adopted) = &self.state.adopted else { return };
        if adopted.spare_programs.is_empty() {
            return;
        }
        let is_persons = |process: &ProcRef| {
            let Some(stat) = procfs::stat(process.pid) else { return false };
            let has_left = adopted.process_session.is_none_or(|session| stat.session != session);
            let words = || procfs::command_words(process.pid, WORDS_MAX);
            has_left
                && words().is_some_and(|(words, name)| {
                    is_excluded_program(&name, &words, &adopted.spare_programs)
                })
        };
        let members = self.kin.members_now(&self.root, &self.state);
        let own = self.state.spec.task_id.birthmark();
        for process in members.iter().filter(|process| is_persons(process)) {
            spare(process.pid, own);
        }
        self.kin.forget_unmarked(own);
    }
}

/// Gives a process, and what is below it and is the task's, the mark of what is nobody's.
fn spare(pid: i32, own: Birthmark) {
    let below = procfs::descendants(pid, |_| false);
    for pid in std::iter::once(pid).chain(below) {
        if procfs::birthmark(pid) == Some(own) {
            // One that cannot be let go of ends with its task.
            let _stays = birthmark::set_birthmark_of(pid, Birthmark::RELEASED);
        }
    }
}
