//! The diagnosis of a quiet task from two samples of its processes.

use super::classify::{self, ClassifiedProcess, ProcessActivity};
use super::prompt::{OutputTail, Prompt};
use super::sample::{BlockedSyscall, FdObject, TaskSample, ThreadState};
use super::verdict::{Certainty, WaitingOn, WhyVerdict};
use crate::terminal::AwaitedInput;

/// Clock ticks per second in [`super::ProcessFacts`] (`sysconf(_SC_CLK_TCK)`, 100 on x86-64 and
/// AArch64).
const TICKS_PER_SECOND: u64 = 100;
/// Processor time at and above which a task is busy, in thousandths of a core.
const BUSY_PERMILLE: u32 = 100;
/// Processor time at and above which a task is certainly busy, in thousandths of a core.
const CERTAINLY_BUSY_PERMILLE: u32 = 500;

/// The cause of a task's silence, as far as two samples of its processes show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The cause of the silence.
    pub verdict: WhyVerdict,
    /// The object that the task waits for; `None` unless the verdict is [`WhyVerdict::Waiting`].
    pub waiting_on: Option<WaitingOn>,
    /// Whether the samples prove the verdict, only agree with it, or do not support it.
    pub certainty: Certainty,
    /// Processor time of the tree between the samples, in thousandths of one core.
    pub cpu_permille: u32,
    /// Pids from the topmost process down to the one that explains the verdict; empty if none does.
    pub process_path: Vec<i32>,
    /// Id of the thread that explains the verdict; `None` for the process's first thread, and if no
    /// process explains the verdict.
    pub thread: Option<i32>,
    /// Pid of a process that is blocked reading input while other threads or processes work. `None`
    /// without such a process, if this process itself explains the verdict, and for
    /// [`WhyVerdict::InputWait`].
    pub concurrent_reader: Option<i32>,
    /// The object from which the task would read an answer: the task's input if a process in
    /// `process_path` waits for it, otherwise the object of the process that explains the verdict.
    /// `None` if none of these processes waits for typed input.
    pub input_channel: Option<FdObject>,
    /// The kind of prompt at the end of the output; `None` if there is no prompt.
    pub prompt: Option<Prompt>,
    /// The kind of input that the task waits for; see [`super::Evidence`].
    pub awaited_input: Option<AwaitedInput>,
}

impl Diagnosis {
    /// Returns whether the verdict is certain and requires action from an agent or a person.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        matches!(self.certainty, Certainty::Hard) && self.verdict.needs_action()
    }

    /// Returns a key that is equal for two diagnoses of a task if they report the same cause: the
    /// verdict, the object, and the process that explains them.
    #[must_use]
    pub fn dedup_key(&self) -> (WhyVerdict, Option<WaitingOn>, Option<i32>) {
        (self.verdict, self.waiting_on, self.process_path.last().copied())
    }
}

/// Returns whether a process of the sample is stopped or blocked reading input. The next sample is
/// then taken soon, because only two samples make this certain.
#[must_use]
pub fn is_suspicious(sample: &TaskSample) -> bool {
    classify::classify_sample(sample).iter().any(|one| one.activity.is_suspicious())
}

/// Diagnoses a task from two samples and the end of its output.
///
/// The checks run in order of precedence, and the first one that finds a cause decides. A verdict
/// about a wait is [`Certainty::Hard`] only if both samples show the same wait.
#[must_use]
pub fn diagnose(first: &TaskSample, second: &TaskSample, tail: &OutputTail) -> Diagnosis {
    let case = Evaluation { first, second, tail, processes: classify::classify_sample(second) };
    // An editor waits for keys as long as it is open, which needs no person.
    let asks = !tail.is_full_screen();
    let found = case
        .find_blocked_reader()
        .filter(|_| asks)
        .or_else(|| case.find_stopped())
        .or_else(|| case.find_busy())
        .or_else(|| case.find_password_prompt().filter(|_| asks))
        .or_else(|| case.find_prompting_loop().filter(|_| asks))
        .unwrap_or_else(|| case.remaining_reason());
    case.build_diagnosis(found)
}

struct Evaluation<'s> {
    first: &'s TaskSample,
    second: &'s TaskSample,
    tail: &'s OutputTail,
    processes: Vec<ClassifiedProcess<'s>>,
}

/// A verdict, and the process that explains it.
#[derive(Clone, Copy)]
struct Finding<'s> {
    verdict: WhyVerdict,
    waiting_on: Option<WaitingOn>,
    certainty: Certainty,
    subject: Option<ClassifiedProcess<'s>>,
}

impl<'s> Finding<'s> {
    const fn new(
        verdict: WhyVerdict,
        certainty: Certainty,
        subject: ClassifiedProcess<'s>,
    ) -> Self {
        Self { verdict, waiting_on: None, certainty, subject: Some(subject) }
    }
}

impl<'s> Evaluation<'s> {
    /// Finds a process that is blocked reading input while the tree does no independent work. While
    /// the tree does such work, a prompt at the end of the output makes it likely that the reader
    /// needs an answer.
    fn find_blocked_reader(&self) -> Option<Finding<'s>> {
        if let Some(reader) = self.blocked_readers().find(|one| !self.has_concurrent_work(one)) {
            return Some(Finding::new(WhyVerdict::InputWait, Certainty::Hard, reader));
        }
        let reader = self.find_concurrent_reader()?;
        self.tail.prompt?;
        Some(Finding::new(WhyVerdict::InputLikely, Certainty::Soft, reader))
    }

    fn blocked_readers(&self) -> impl Iterator<Item = ClassifiedProcess<'s>> {
        self.processes
            .iter()
            .filter(|one| {
                one.activity == ProcessActivity::ReadingInput
                    && self.is_unchanged(one)
                    && self.used_no_cpu(one)
            })
            .copied()
    }

    /// Finds a blocked reader while other threads or processes do independent work.
    fn find_concurrent_reader(&self) -> Option<ClassifiedProcess<'s>> {
        self.blocked_readers().find(|one| self.has_concurrent_work(one))
    }

    /// Returns whether independent work continues that does not depend on the reader. The reader's
    /// ancestors are assumed to wait for the reader. If the reader is the only thread of its
    /// process, the process's descendants are assumed to wait as well, because the process asks on
    /// behalf of its background jobs.
    fn has_concurrent_work(&self, reader: &ClassifiedProcess<'s>) -> bool {
        let pid = reader.process.process.pid;
        let is_all_of_it = reader.process.threads.len() == 1;
        let above = self.ancestor_path(pid);
        let waits = |other: i32| {
            other != pid && above.contains(&other)
                || is_all_of_it && self.ancestor_path(other).contains(&pid)
        };
        let works = |other: &ClassifiedProcess<'s>| other.activity.is_independent_work();
        self.processes.iter().any(|other| works(other) && !waits(other.process.process.pid))
    }

    /// Returns whether independent work continues in a process that is neither an ancestor nor a
    /// descendant of the stopped process.
    fn has_unrelated_work(&self, stopped: &ClassifiedProcess<'s>) -> bool {
        self.processes
            .iter()
            .any(|other| other.activity.is_independent_work() && !self.are_related(stopped, other))
    }

    /// Returns whether `one` and `other` are the same process, or one is an ancestor of the other.
    fn are_related(&self, one: &ClassifiedProcess<'s>, other: &ClassifiedProcess<'s>) -> bool {
        let (one, other) = (one.process.process.pid, other.process.process.pid);
        self.ancestor_path(one).contains(&other) || self.ancestor_path(other).contains(&one)
    }

    fn find_stopped(&self) -> Option<Finding<'s>> {
        let is_stopped = |one: &&ClassifiedProcess<'s>| {
            one.activity == ProcessActivity::Stopped && self.is_unchanged(one)
        };
        let found =
            *self.processes.iter().find(|one| is_stopped(one) && !self.has_unrelated_work(one))?;
        let by_terminal = found.process.has_terminal && found.process.is_in_terminal_background;
        let verdict = if by_terminal { WhyVerdict::TtyStopped } else { WhyVerdict::Stopped };
        Some(Finding::new(verdict, Certainty::Hard, found))
    }

    fn find_busy(&self) -> Option<Finding<'s>> {
        let permille = self.cpu_permille();
        let runs = |one: &&ClassifiedProcess<'s>| one.activity == ProcessActivity::Running;
        let used = |one: &ClassifiedProcess<'s>| {
            let before = self.first.process(one.process.process.pid);
            one.process.self_ticks
                - before.map_or(0, |old| old.self_ticks).min(one.process.self_ticks)
        };
        let busiest = self.processes.iter().max_by_key(|one| (used(one), runs(one)))?;
        let runs_on = self.processes.iter().filter(runs).find(|one| self.is_unchanged(one));
        let subject = if permille >= BUSY_PERMILLE { busiest } else { runs_on? };
        let sure = permille >= CERTAINLY_BUSY_PERMILLE;
        let certainty = if sure { Certainty::Hard } else { Certainty::Soft };
        Some(Finding::new(WhyVerdict::Busy, certainty, *subject))
    }

    /// Finds a process that the kernel does not let siding inspect, such as sudo(8). The output
    /// must end with a password prompt, or with an incomplete line while the process's terminal
    /// does not echo.
    fn find_password_prompt(&self) -> Option<Finding<'s>> {
        let found = self.processes.iter().find(|one| {
            let asks = self.tail.prompt == Some(Prompt::Password);
            let in_the_dark =
                one.process.terminal_echo == Some(false) && self.tail.is_unterminated();
            one.activity == ProcessActivity::Denied && (asks || in_the_dark)
        })?;
        Some(Finding::new(WhyVerdict::PasswordLikely, Certainty::Soft, *found))
    }

    /// Finds an event loop that polls the input while the output ends with a prompt or with an
    /// incomplete line. A server that also polls the input needs a prompt.
    fn find_prompting_loop(&self) -> Option<Finding<'s>> {
        let strictly = self.tail.prompt.is_some();
        let asks = |one: &&ClassifiedProcess<'s>| {
            let is_loop = one.activity == ProcessActivity::PollingInput
                && (strictly || self.tail.is_unterminated());
            is_loop
                || one.activity == ProcessActivity::Serving
                    && strictly
                    && input_channel(one).is_some()
        };
        let found = self.processes.iter().find(asks)?;
        Some(Finding::new(WhyVerdict::InputLikely, Certainty::Soft, *found))
    }

    /// Returns the verdict for the process with the best explanation in the order of
    /// [`ProcessActivity`]. Inconclusive activities come after all others, and processes that only
    /// wait for another process come last.
    fn remaining_reason(&self) -> Finding<'s> {
        let rank = |one: &&ClassifiedProcess<'s>| {
            (one.activity.waits_for_other_process(), one.activity.is_inconclusive(), one.activity)
        };
        let Some(subject) =
            self.processes.iter().min_by_key(|one| (rank(one), !self.is_unchanged(one)))
        else {
            let (verdict, certainty) = (WhyVerdict::Unknown, Certainty::None);
            return Finding { verdict, waiting_on: None, certainty, subject: None };
        };
        let certainty = if self.is_unchanged(subject) { Certainty::Hard } else { Certainty::Soft };
        let waits = |on, certainty| Finding {
            waiting_on: Some(on),
            ..Finding::new(WhyVerdict::Waiting, certainty, *subject)
        };
        match subject.activity {
            ProcessActivity::Disk => waits(WaitingOn::Disk, certainty),
            ProcessActivity::Network => waits(WaitingOn::Network, certainty),
            ProcessActivity::Lock => waits(WaitingOn::Lock, certainty),
            ProcessActivity::Fifo => waits(WaitingOn::Fifo, certainty),
            ProcessActivity::PipeFull | ProcessActivity::PipeRead => {
                waits(WaitingOn::Pipe, certainty)
            }
            ProcessActivity::Timer => waits(WaitingOn::Timer, certainty),
            ProcessActivity::Child => waits(WaitingOn::Child, certainty),
            // Not certain: an idle worker thread that waits for work also blocks in futex(2).
            ProcessActivity::Futex => waits(WaitingOn::Lock, Certainty::Soft),
            ProcessActivity::Serving => Finding::new(WhyVerdict::Serving, certainty, *subject),
            ProcessActivity::Denied => {
                self.or_prompt(Finding::new(WhyVerdict::Unknown, Certainty::None, *subject))
            }
            ProcessActivity::ReadingInput
            | ProcessActivity::Stopped
            | ProcessActivity::Running
            | ProcessActivity::PollingInput
            | ProcessActivity::Idle => {
                self.or_prompt(Finding::new(WhyVerdict::Quiet, Certainty::None, *subject))
            }
        }
    }

    /// Replaces a finding without evidence by [`WhyVerdict::InputLikely`] if the output ends with a
    /// prompt.
    fn or_prompt(&self, found: Finding<'s>) -> Finding<'s> {
        if self.tail.prompt.is_none() {
            return found;
        }
        Finding { verdict: WhyVerdict::InputLikely, certainty: Certainty::Soft, ..found }
    }

    /// Returns whether the process and the thread that explains it were in the same state in the
    /// first sample.
    fn is_unchanged(&self, one: &ClassifiedProcess<'s>) -> bool {
        let Some(before) = self.first.process(one.process.process.pid) else { return false };
        if before.process != one.process.process || before.state != one.process.state {
            return false;
        }
        let Some(thread) = one.thread else { return true };
        // Processor time is not compared here. Only `used_no_cpu` compares it, to distinguish one
        // long wait from many short ones.
        let same = |old: &&super::ThreadFacts| match (&old.state, &thread.state) {
            (ThreadState::Blocked(old), ThreadState::Blocked(new)) => {
                old.call == new.call
                    && old.blocked_on == new.blocked_on
                    && old.has_no_timeout == new.has_no_timeout
            }
            (old, new) => old == new,
        };
        before.threads.iter().find(|old| old.tid == thread.tid).is_some_and(|old| same(&old))
    }

    /// Returns whether the process slept in one wait and used no processor time between the
    /// samples.
    fn used_no_cpu(&self, one: &ClassifiedProcess<'s>) -> bool {
        let Some(before) = self.first.process(one.process.process.pid) else { return false };
        let Some(thread) = one.thread else { return false };
        let asleep = |doing: &'s ThreadState| match doing {
            ThreadState::Blocked(asleep) => Some(asleep),
            ThreadState::Running | ThreadState::Denied | ThreadState::Hidden => None,
        };
        let old = before.threads.iter().find(|old| old.tid == thread.tid);
        let old: Option<&BlockedSyscall> = old.and_then(|old| asleep(&old.state));
        let (Some(old), Some(new)) = (old, asleep(&thread.state)) else { return false };
        let slept = new.has_no_timeout
            || new.thread_cpu_ns.is_some() && new.thread_cpu_ns == old.thread_cpu_ns;
        slept && before.self_ticks == one.process.self_ticks
    }

    fn cpu_permille(&self) -> u32 {
        // When a child is reaped, the kernel adds its processor time to the parent's count for
        // reaped children, so the sums of both samples are comparable.
        let sum = |sample: &TaskSample| -> u64 {
            sample.processes.iter().map(|one| one.self_ticks + one.reaped_children_ticks).sum()
        };
        let ms = self.second.taken_at.ms_since(self.first.taken_at).max(1);
        let used = sum(self.second).saturating_sub(sum(self.first));
        let permille = used.saturating_mul(1000 * 1000 / TICKS_PER_SECOND) / ms;
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    /// Returns the pids from the topmost ancestor of a process down to the process itself.
    fn ancestor_path(&self, pid: i32) -> Vec<i32> {
        let mut path = Vec::new();
        let mut next = self.second.process(pid);
        while let Some(process) = next.filter(|one| !path.contains(&one.process.pid)) {
            path.push(process.process.pid);
            next = self.second.process(process.parent);
        }
        path.reverse();
        path
    }

    fn build_diagnosis(&self, found: Finding<'s>) -> Diagnosis {
        let Finding { verdict, waiting_on, certainty, subject } = found;
        let pid = subject.map(|one| one.process.process.pid);
        let path = pid.map(|pid| self.ancestor_path(pid)).unwrap_or_default();
        // An ancestor that reads the task's input and runs its child on a separate terminal, such
        // as script(1), forwards typed text to the child. The answer has to go to the task's input.
        let passes_on = |one: &&ClassifiedProcess<'s>| {
            path.contains(&one.process.process.pid)
                && input_channel(one) == Some(FdObject::TaskStdin)
        };
        let passed_on = self.processes.iter().find(passes_on).map(|_| FdObject::TaskStdin);
        let input_channel = passed_on.or_else(|| subject.and_then(|one| input_channel(&one)));
        let aside = self.find_concurrent_reader().map(|one| one.process.process.pid);
        Diagnosis {
            verdict,
            waiting_on,
            certainty,
            cpu_permille: self.cpu_permille(),
            thread: subject
                .and_then(|one| one.thread)
                .map(|one| one.tid)
                .filter(|tid| Some(*tid) != pid),
            concurrent_reader: aside
                .filter(|aside| pid != Some(*aside) && verdict != WhyVerdict::InputWait),
            input_channel,
            prompt: self.tail.prompt,
            awaited_input: self.awaited_input(verdict, input_channel),
            process_path: path,
        }
    }

    /// Returns the kind of input that a task with this verdict waits for.
    fn awaited_input(
        &self,
        verdict: WhyVerdict,
        channel: Option<FdObject>,
    ) -> Option<AwaitedInput> {
        if verdict.asks_for_input() {
            let is_secret =
                verdict == WhyVerdict::PasswordLikely || self.tail.prompt == Some(Prompt::Password);
            return if is_secret { Some(AwaitedInput::Secret) } else { self.tail.awaited_input() };
        }
        let is_idle = verdict == WhyVerdict::Quiet
            && self.tail.is_full_screen()
            && channel == Some(FdObject::Terminal);
        is_idle.then_some(AwaitedInput::Keys)
    }
}

/// Returns the object from which a blocked process would read typed input.
fn input_channel(one: &ClassifiedProcess<'_>) -> Option<FdObject> {
    let Some(ThreadState::Blocked(asleep)) = one.thread.map(|thread| &thread.state) else {
        return None;
    };
    asleep
        .blocked_on
        .iter()
        .find(|waited| waited.for_reading && waited.object.accepts_typed_input())
        .map(|on| on.object)
}
