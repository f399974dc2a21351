//! What two samples prove.

use super::class::{self, Class, Classed};
use super::facts::{Asleep, Doing, Object, Sample};
use super::prompt::{Prompt, Tail};
use super::verdict::{Certainty, Verdict, WaitingOn};

/// Ticks in a second in [`super::ProcessFacts`] (`sysconf(_SC_CLK_TCK)`, 100 on every Linux).
const TICKS_PER_SECOND: u64 = 100;
/// Processor time, in thousandths of a core, from which on a task counts as busy.
const BUSY_PERMILLE: u32 = 100;
/// The same, from which on there is no doubt.
const SURELY_BUSY_PERMILLE: u32 = 500;

/// What was decided about a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What it does.
    pub verdict: Verdict,
    /// On what it waits.
    pub waiting_on: Option<WaitingOn>,
    /// How sure that is.
    pub certainty: Certainty,
    /// Processor time of the tree between the samples, in thousandths of one core.
    pub cpu_permille: u32,
    /// Processes from the topmost one to the one that explains the verdict.
    pub path: Vec<i32>,
    /// The thread that does, where it is not the process's first.
    pub thread: Option<i32>,
    /// A process that reads the input while another, which explains the verdict, works.
    pub aside: Option<i32>,
    /// Where an answer could be typed.
    pub channel: Option<Object>,
    /// What the output asks.
    pub prompt: Option<Prompt>,
}

impl Judgement {
    /// Whether somebody has to do something, and there is no doubt about it.
    #[must_use]
    pub const fn is_urgent(&self) -> bool {
        matches!(self.certainty, Certainty::Hard)
            && matches!(self.verdict, Verdict::InputWait | Verdict::TtyStopped | Verdict::Stopped)
    }

    /// Returns what tells this from another judgement of the same task.
    #[must_use]
    pub fn key(&self) -> (Verdict, Option<WaitingOn>, Option<i32>) {
        (self.verdict, self.waiting_on, self.path.last().copied())
    }
}

/// Whether one sample alone gives reason to look again soon.
#[must_use]
pub fn is_suspicious(sample: &Sample) -> bool {
    class::of_sample(sample).iter().any(|one| matches!(one.class, Class::Input | Class::Stopped))
}

/// Judges a task by two samples and the end of its output.
///
/// Nothing is called certain that is not the same in both.
#[must_use]
pub fn judge(first: &Sample, second: &Sample, tail: &Tail) -> Judgement {
    let case = Case { first, second, tail, all: class::of_sample(second) };
    let found = case
        .reader()
        .or_else(|| case.stopped())
        .or_else(|| case.busy())
        .or_else(|| case.password())
        .or_else(|| case.asking_loop())
        .unwrap_or_else(|| case.rest());
    case.judgement(found)
}

struct Case<'s> {
    first: &'s Sample,
    second: &'s Sample,
    tail: &'s Tail,
    all: Vec<Classed<'s>>,
}

/// A verdict and the process that explains it.
#[derive(Clone, Copy)]
struct Finding<'s> {
    verdict: Verdict,
    waiting_on: Option<WaitingOn>,
    certainty: Certainty,
    subject: Option<Classed<'s>>,
}

impl<'s> Finding<'s> {
    const fn new(verdict: Verdict, certainty: Certainty, subject: Classed<'s>) -> Self {
        Self { verdict, waiting_on: None, certainty, subject: Some(subject) }
    }
}

impl<'s> Case<'s> {
    /// A process that is blocked on the input, and nobody else in the tree goes on without it.
    fn reader(&self) -> Option<Finding<'s>> {
        if let Some(reader) = self.readers().find(|one| !self.is_aside(one)) {
            return Some(Finding::new(Verdict::InputWait, Certainty::Hard, reader));
        }
        let reader = self.aside()?;
        self.tail.prompt?;
        Some(Finding::new(Verdict::InputLikely, Certainty::Soft, reader))
    }

    fn readers(&self) -> impl Iterator<Item = Classed<'s>> {
        self.all
            .iter()
            .filter(|one| one.class == Class::Input && self.is_held(one) && self.is_idle(one))
            .copied()
    }

    /// A reader beside which others work.
    fn aside(&self) -> Option<Classed<'s>> {
        self.readers().find(|one| self.is_aside(one))
    }

    /// Whether somebody works whom a reader does not hold up: another thread of its process, what
    /// such a process has started, or anybody who does not wait for it. A process whose only thread
    /// reads asks on behalf of all that it has in its background.
    fn is_aside(&self, reader: &Classed<'s>) -> bool {
        let pid = reader.process.process.pid;
        let is_all_of_it = reader.process.threads.len() == 1;
        let above = self.path(pid);
        let waits = |other: i32| {
            other != pid && above.contains(&other)
                || is_all_of_it && self.path(other).contains(&pid)
        };
        let works = |other: &Classed<'s>| other.class.is_work();
        self.all.iter().any(|other| works(other) && !waits(other.process.process.pid))
    }

    /// Whether anybody works who is no kin of a process that was stopped.
    fn work_beside(&self, stopped: &Classed<'s>) -> bool {
        self.all.iter().any(|other| other.class.is_work() && !self.are_kin(stopped, other))
    }

    /// Whether one is the other, or an ancestor of it.
    fn are_kin(&self, one: &Classed<'s>, other: &Classed<'s>) -> bool {
        let (one, other) = (one.process.process.pid, other.process.process.pid);
        self.path(one).contains(&other) || self.path(other).contains(&one)
    }

    fn stopped(&self) -> Option<Finding<'s>> {
        let is_stopped = |one: &&Classed<'s>| one.class == Class::Stopped && self.is_held(one);
        let found = *self.all.iter().find(|one| is_stopped(one) && !self.work_beside(one))?;
        let by_terminal = found.process.has_terminal && found.process.is_behind;
        let verdict = if by_terminal { Verdict::TtyStopped } else { Verdict::Stopped };
        Some(Finding::new(verdict, Certainty::Hard, found))
    }

    fn busy(&self) -> Option<Finding<'s>> {
        let permille = self.cpu_permille();
        let runs = |one: &&Classed<'s>| one.class == Class::Running;
        let used = |one: &Classed<'s>| {
            let before = self.first.process(one.process.process.pid);
            one.process.own_ticks - before.map_or(0, |old| old.own_ticks).min(one.process.own_ticks)
        };
        let busiest = self.all.iter().max_by_key(|one| (used(one), runs(one)))?;
        let runs_on = self.all.iter().filter(runs).find(|one| self.is_held(one));
        let subject = if permille >= BUSY_PERMILLE { busiest } else { runs_on? };
        let sure = permille >= SURELY_BUSY_PERMILLE;
        let certainty = if sure { Certainty::Hard } else { Certainty::Soft };
        Some(Finding::new(Verdict::Busy, certainty, *subject))
    }

    /// A process that hides behind another user's rights, and the signs of a password prompt.
    fn password(&self) -> Option<Finding<'s>> {
        let found = self.all.iter().find(|one| {
            let asks = self.tail.prompt == Some(Prompt::Password);
            let in_the_dark = one.process.echoes == Some(false) && self.tail.is_open();
            one.class == Class::Denied && (asks || in_the_dark)
        })?;
        Some(Finding::new(Verdict::PasswordLikely, Certainty::Soft, *found))
    }

    /// An event loop with the input in its set, and output that ends like a question.
    fn asking_loop(&self) -> Option<Finding<'s>> {
        let strictly = self.tail.prompt.is_some();
        let asks = |one: &&Classed<'s>| {
            let is_loop = one.class == Class::InputLoop && (strictly || self.tail.is_open());
            is_loop || one.class == Class::Serving && strictly && channel(one).is_some()
        };
        let found = self.all.iter().find(asks)?;
        Some(Finding::new(Verdict::InputLikely, Certainty::Soft, *found))
    }

    /// The first reason in the order of [`Class`], relays last.
    fn rest(&self) -> Finding<'s> {
        let rank = |one: &&Classed<'s>| (one.class.is_relay(), one.class.is_open(), one.class);
        let Some(subject) = self.all.iter().min_by_key(|one| (rank(one), !self.is_held(one)))
        else {
            let (verdict, certainty) = (Verdict::Unknown, Certainty::None);
            return Finding { verdict, waiting_on: None, certainty, subject: None };
        };
        let certainty = if self.is_held(subject) { Certainty::Hard } else { Certainty::Soft };
        let waits = |on, certainty| Finding {
            waiting_on: Some(on),
            ..Finding::new(Verdict::Waiting, certainty, *subject)
        };
        match subject.class {
            Class::Disk => waits(WaitingOn::Disk, certainty),
            Class::Network => waits(WaitingOn::Network, certainty),
            Class::Lock => waits(WaitingOn::Lock, certainty),
            Class::Fifo => waits(WaitingOn::Fifo, certainty),
            Class::PipeFull | Class::PipeRead => waits(WaitingOn::Pipe, certainty),
            Class::Timer => waits(WaitingOn::Timer, certainty),
            Class::Child => waits(WaitingOn::Child, certainty),
            // A queue inside a program looks the same.
            Class::Futex => waits(WaitingOn::Lock, Certainty::Soft),
            Class::Serving => Finding::new(Verdict::Serving, certainty, *subject),
            Class::Denied => {
                self.or_asks(Finding::new(Verdict::Unknown, Certainty::None, *subject))
            }
            Class::Input | Class::Stopped | Class::Running | Class::InputLoop | Class::Idle => {
                self.or_asks(Finding::new(Verdict::Quiet, Certainty::None, *subject))
            }
        }
    }

    /// Where nothing else is known, a strict prompt at the end of the output is.
    fn or_asks(&self, found: Finding<'s>) -> Finding<'s> {
        if self.tail.prompt.is_none() {
            return found;
        }
        Finding { verdict: Verdict::InputLikely, certainty: Certainty::Soft, ..found }
    }

    /// Whether the process did the same in the first sample.
    fn is_held(&self, one: &Classed<'s>) -> bool {
        let Some(before) = self.first.process(one.process.process.pid) else { return false };
        if before.process != one.process.process || before.state != one.process.state {
            return false;
        }
        let Some(thread) = one.thread else { return true };
        // What tells an endless wait from a short one is looked at where it matters.
        let same = |old: &&super::ThreadFacts| match (&old.doing, &thread.doing) {
            (Doing::Asleep(old), Doing::Asleep(new)) => {
                old.call == new.call && old.on == new.on && old.is_endless == new.is_endless
            }
            (old, new) => old == new,
        };
        before.threads.iter().find(|old| old.tid == thread.tid).is_some_and(|old| same(&old))
    }

    /// Whether the process used no processor time at all between the samples.
    fn is_idle(&self, one: &Classed<'s>) -> bool {
        let Some(before) = self.first.process(one.process.process.pid) else { return false };
        let Some(thread) = one.thread else { return false };
        let asleep = |doing: &'s Doing| match doing {
            Doing::Asleep(asleep) => Some(asleep),
            Doing::Running | Doing::Denied | Doing::Hidden => None,
        };
        let old = before.threads.iter().find(|old| old.tid == thread.tid);
        let old: Option<&Asleep> = old.and_then(|old| asleep(&old.doing));
        let (Some(old), Some(new)) = (old, asleep(&thread.doing)) else { return false };
        let slept = new.is_endless || new.ran_ns.is_some() && new.ran_ns == old.ran_ns;
        slept && before.own_ticks == one.process.own_ticks
    }

    fn cpu_permille(&self) -> u32 {
        // What a child had used when it ended is its parent's, so sums stay comparable.
        let sum = |sample: &Sample| -> u64 {
            sample.processes.iter().map(|one| one.own_ticks + one.reaped_ticks).sum()
        };
        let ms = self.second.at.ms_since(self.first.at).max(1);
        let used = sum(self.second).saturating_sub(sum(self.first));
        let permille = used.saturating_mul(1000 * 1000 / TICKS_PER_SECOND) / ms;
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    /// Returns the processes from the topmost one down to this one.
    fn path(&self, pid: i32) -> Vec<i32> {
        let mut path = Vec::new();
        let mut next = self.second.process(pid);
        while let Some(process) = next.filter(|one| !path.contains(&one.process.pid)) {
            path.push(process.process.pid);
            next = self.second.process(process.parent);
        }
        path.reverse();
        path
    }

    fn judgement(&self, found: Finding<'s>) -> Judgement {
        let Finding { verdict, waiting_on, certainty, subject } = found;
        let pid = subject.map(|one| one.process.process.pid);
        let path = pid.map(|pid| self.path(pid)).unwrap_or_default();
        // Whoever stands between the input and a terminal of its own passes on what is typed.
        let passes_on = |one: &&Classed<'s>| {
            path.contains(&one.process.process.pid) && channel(one) == Some(Object::Input)
        };
        let passed_on = self.all.iter().find(passes_on).map(|_| Object::Input);
        let aside = self.aside().map(|one| one.process.process.pid);
        Judgement {
            verdict,
            waiting_on,
            certainty,
            cpu_permille: self.cpu_permille(),
            thread: subject
                .and_then(|one| one.thread)
                .map(|one| one.tid)
                .filter(|tid| Some(*tid) != pid),
            aside: aside.filter(|aside| pid != Some(*aside) && verdict != Verdict::InputWait),
            channel: passed_on.or_else(|| subject.and_then(|one| channel(&one))),
            prompt: self.tail.prompt,
            path,
        }
    }
}

/// Returns where a process would take input from.
fn channel(one: &Classed<'_>) -> Option<Object> {
    let Some(Doing::Asleep(asleep)) = one.thread.map(|thread| &thread.doing) else { return None };
    asleep.on.iter().find(|waited| waited.to_read && waited.object.is_input()).map(|on| on.object)
}
