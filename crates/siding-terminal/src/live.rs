//! The terminal of a running task: reads the present screen, types keys, and waits for their
//! effect.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::{clock, poll};
use siding_core::task::terminal::{TerminalClient, TerminalError};
use siding_core::task::watch::WatchError;
use siding_model::evidence::prompt::{OutputTail, Prompt};
use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::terminal::{
    AwaitedInput, KeyError, KeyInput, KeysRefusal, PromptEvidence, ScreenHash, TerminalFacts,
    TerminalUser,
};

use crate::condition::{ScreenCondition, ScreenConditionError};
use crate::history::TerminalHistory;
use crate::replay::TerminalReplay;
use crate::screen::Screen;
use crate::typed_escape::TypedEscape;

/// Time without output after which a terminal is idle, in milliseconds.
pub const IDLE_MS: u64 = 500;
/// First and longest pause between two samples of a task's processes, in milliseconds. The kernel
/// sends no notification when a process begins to read its terminal.
const LOOK_PAUSE_MS: (u64, u64) = (5, 50);
/// Maximum wait for the local copy of a remote output, in milliseconds.
const COPY_TIMEOUT_MS: u64 = 10_000;
/// Maximum number of attempts to type with `if_screen` while the output grows without changing
/// the screen.
const MAX_TYPE_ATTEMPTS: u32 = 100;

/// The reason why a terminal was not read, or why keys were not typed.
#[derive(Debug, thiserror::Error)]
pub enum LiveTerminalError {
    /// The terminal could not be used, or does not accept the keys at present.
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    /// No byte sequence encodes the key in the present modes of the terminal.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The output of the task could not be read.
    #[error("could not read the output of task {id}: {source}")]
    Output {
        /// The id of the task.
        id: TaskId,
        /// The error of the system call.
        source: io::Error,
    },
}

impl From<WatchError> for LiveTerminalError {
    fn from(error: WatchError) -> Self {
        Self::Terminal(error.into())
    }
}

/// The condition of a terminal for which a caller waits.
#[derive(Debug, Clone)]
pub enum TerminalCondition {
    /// The screen matches a regular expression.
    Screen(ScreenCondition),
    /// There was no output for [`IDLE_MS`].
    Idle,
    /// A foreground process waits for input, and has read everything that was typed.
    Input,
}

impl TerminalCondition {
    /// Returns whether a text has the form of such a condition. The expression may be invalid.
    #[must_use]
    pub fn is_form(text: &str) -> bool {
        matches!(text, "idle" | "input") || ScreenCondition::is_form(text)
    }
}

impl fmt::Display for TerminalCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Screen(condition) => write!(f, "{condition}"),
            Self::Idle => f.write_str("idle"),
            Self::Input => f.write_str("input"),
        }
    }
}

impl FromStr for TerminalCondition {
    type Err = ScreenConditionError;

    fn from_str(text: &str) -> Result<Self, ScreenConditionError> {
        match text {
            "idle" => Ok(Self::Idle),
            "input" => Ok(Self::Input),
            text => text.parse().map(Self::Screen),
        }
    }
}

/// The reason why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalWaitEnd {
    /// The condition is met.
    Met,
    /// The timeout has passed.
    TimedOut,
    /// The task has ended.
    Ended,
}

impl TerminalWaitEnd {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::TimedOut => "timeout",
            Self::Ended => "ended",
        }
    }
}

/// The screen of a running task, and the state of its terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveScreen {
    /// The screen.
    pub screen: Screen,
    /// The input for which the task waits; `None` if it does not wait.
    pub awaited: Option<AwaitedInput>,
    /// Time for which a person has held the terminal lease, in milliseconds; `None` without a
    /// lease.
    pub taken_for_ms: Option<u64>,
}

/// The terminal of a task that runs.
#[derive(Debug)]
pub struct LiveTerminal<'r> {
    client: TerminalClient<'r>,
    user: TerminalUser,
    dir: TaskDir,
    replay: Option<TerminalReplay>,
    /// The Escape that was typed last; `None` after any other key.
    escape: Option<TypedEscape>,
}

impl<'r> LiveTerminal<'r> {
    /// Connects to the terminal of a task. `requester` is the name of the caller in the journal.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`]; [`TerminalError::Ended`] if the task has ended.
    pub fn open(
        root: &'r StateDir,
        program: &'r CStr,
        id: TaskId,
        user: TerminalUser,
        requester: &str,
    ) -> Result<Self, LiveTerminalError> {
        let mut client = TerminalClient::open(root, program, id, user, requester)?;
        // For a task without a terminal, the shim refuses the request and gives the reason.
        client.facts()?;
        let dir = client.watch().dir().map_err(WatchError::from)?;
        Ok(Self { client, user, dir, replay: None, escape: None })
    }

    /// Returns the present screen.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`].
    pub fn screen(&mut self) -> Result<Screen, LiveTerminalError> {
        Ok(self.facts_and_screen()?.1)
    }

    /// Returns the present screen, and the state of the terminal.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`].
    pub fn screen_with_input(&mut self) -> Result<LiveScreen, LiveTerminalError> {
        let (facts, screen) = self.facts_and_screen()?;
        let awaited = facts.awaited_input(prompt_evidence(&screen));
        Ok(LiveScreen { screen, awaited, taken_for_ms: facts.taken_for_ms })
    }

    /// Returns the output offset of the last screen, and whether a part
    /// before it was missing.
    #[must_use]
    pub fn position(&self) -> (u64, bool) {
        self.replay.as_ref().map_or((0, false), |replay| (replay.offset(), replay.is_incomplete()))
    }

    /// Types keys. With `if_screen`, types only if the screen has this hash at the moment of the
    /// first key.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`]; [`TerminalError::Refused`] if nothing was typed, with the hash of the
    /// present screen if it differs from `if_screen`.
    pub fn type_keys(
        &mut self,
        keys: &[KeyInput],
        if_screen: Option<&ScreenHash>,
    ) -> Result<(), LiveTerminalError> {
        let id = self.dir.id();
        let mut attempts = 0;
        loop {
            let (facts, screen) = self.facts_and_screen()?;
            let hash = screen.content_hash();
            attempts += 1;
            if if_screen.is_some_and(|wanted| !wanted.matches(&hash))
                || attempts > MAX_TYPE_ATTEMPTS
            {
                let refusal = KeysRefusal::ScreenChanged { hash };
                return Err(TerminalError::Refused { id, refusal }.into());
            }
            let mut bytes = Vec::new();
            for key in keys {
                bytes.extend(key.encode(screen.modes())?);
            }
            if let Some(refusal) = self.secret_refusal(&facts, &screen, &bytes) {
                return Err(TerminalError::Refused { id, refusal }.into());
            }
            match self.client.write(&bytes, if_screen.map(|_| facts.output_bytes)) {
                // The output has grown, perhaps without a change of the screen.
                Err(TerminalError::OutputDiffers { .. }) => {}
                result => {
                    self.escape = TypedEscape::at_end_of(&bytes);
                    return Ok(result?);
                }
            }
        }
    }

    /// Types bytes unchanged, unless the terminal refuses the keys of this user.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`], as for [`Self::type_keys`].
    pub fn type_bytes(&mut self, bytes: &[u8]) -> Result<(), LiveTerminalError> {
        let (facts, screen) = self.facts_and_screen()?;
        if let Some(refusal) = self.secret_refusal(&facts, &screen, bytes) {
            return Err(TerminalError::Refused { id: self.dir.id(), refusal }.into());
        }
        self.escape = TypedEscape::at_end_of(bytes);
        Ok(self.client.write(bytes, None)?)
    }

    /// Types bytes that were visible while they were entered. Even those of a person are refused if
    /// they would answer a prompt for a secret, because the secret would have been shown.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`], as for [`Self::type_keys`].
    pub fn type_visible_bytes(&mut self, bytes: &[u8]) -> Result<(), LiveTerminalError> {
        let (facts, screen) = self.facts_and_screen()?;
        if let Some(refusal) = refuse_secret(&facts, &screen, bytes) {
            return Err(TerminalError::Refused { id: self.dir.id(), refusal }.into());
        }
        Ok(self.client.write(bytes, None)?)
    }

    /// Returns the refusal if the bytes of an agent's keys would answer a prompt for a secret. The
    /// shim cannot recognize every prompt, because it has no screen.
    fn secret_refusal(
        &self,
        facts: &TerminalFacts,
        screen: &Screen,
        bytes: &[u8],
    ) -> Option<KeysRefusal> {
        match self.user {
            TerminalUser::Person => None,
            TerminalUser::Agent => refuse_secret(facts, screen, bytes),
        }
    }

    /// Waits until a condition is met, for at most `timeout_ms` milliseconds. The last output of a
    /// task that ends meanwhile may meet a condition on the screen.
    ///
    /// # Errors
    ///
    /// [`LiveTerminalError`].
    pub fn wait(
        &mut self,
        condition: &TerminalCondition,
        timeout_ms: u64,
    ) -> Result<TerminalWaitEnd, LiveTerminalError> {
        let until = clock::monotonic_now().plus_ms(timeout_ms);
        let waited = match condition {
            TerminalCondition::Screen(wanted) => self.wait_for_screen(wanted, until),
            TerminalCondition::Idle => self.wait_for_silence(until),
            TerminalCondition::Input => self.wait_for_reader(until),
        };
        match waited {
            Err(LiveTerminalError::Terminal(TerminalError::Ended { .. })) => {
                let is_met = self.last_screen_meets(condition)?;
                Ok(if is_met { TerminalWaitEnd::Met } else { TerminalWaitEnd::Ended })
            }
            result => result,
        }
    }

    /// Returns whether the last screen of a task that has ended meets a condition.
    fn last_screen_meets(
        &mut self,
        condition: &TerminalCondition,
    ) -> Result<bool, LiveTerminalError> {
        let TerminalCondition::Screen(wanted) = condition else { return Ok(false) };
        let (dir, state) = self.client.watch().state()?;
        let Some(terminal) = &state.terminal else { return Ok(false) };
        let id = self.dir.id();
        let replay = TerminalReplay::open(&dir, &TerminalHistory::from(terminal), None, false)
            .map_err(|source| LiveTerminalError::Output { id, source })?;
        Ok(wanted.is_met(&replay.screen()))
    }

    fn wait_for_screen(
        &mut self,
        wanted: &ScreenCondition,
        until: MonotonicMs,
    ) -> Result<TerminalWaitEnd, LiveTerminalError> {
        loop {
            self.follow_output()?;
            if wanted.is_met(&self.screen()?) {
                return Ok(TerminalWaitEnd::Met);
            }
            let left = until.ms_since(clock::monotonic_now());
            if left == 0 {
                return Ok(TerminalWaitEnd::TimedOut);
            }
            self.wait_for_output(left)?;
        }
    }

    fn wait_for_silence(
        &mut self,
        until: MonotonicMs,
    ) -> Result<TerminalWaitEnd, LiveTerminalError> {
        loop {
            self.follow_output()?;
            let left = until.ms_since(clock::monotonic_now());
            let has_grown = self.wait_for_output(left.min(IDLE_MS))?;
            if !has_grown && left >= IDLE_MS {
                return Ok(TerminalWaitEnd::Met);
            }
            if left == 0 {
                return Ok(TerminalWaitEnd::TimedOut);
            }
        }
    }

    fn wait_for_reader(
        &mut self,
        until: MonotonicMs,
    ) -> Result<TerminalWaitEnd, LiveTerminalError> {
        let mut pause = LOOK_PAUSE_MS.0;
        let mut previous = None;
        loop {
            let facts = self.client.facts()?;
            // A program may poll for input between two steps of its work, so two samples must
            // agree.
            let is_ready = facts.awaits_input() && !self.may_await_rest_of_key(&facts);
            let mut input = facts.input;
            if let Some(reader) = &mut input.reader {
                // The time passes in a program that polls with a timeout.
                reader.timed_wait_cpu_ns = None;
            }
            let seen = is_ready.then_some((facts.output_bytes, input));
            if seen.is_some() && seen == previous {
                // The caller shows the local output, so it must already contain the question.
                self.screen_at(facts.output_bytes)?;
                return Ok(TerminalWaitEnd::Met);
            }
            previous = seen;
            let left = until.ms_since(clock::monotonic_now());
            if left == 0 {
                return Ok(TerminalWaitEnd::TimedOut);
            }
            thread::sleep(Duration::from_millis(pause.min(left)));
            pause = if seen.is_some() { LOOK_PAUSE_MS.0 } else { (pause * 2).min(LOOK_PAUSE_MS.1) };
        }
    }

    /// Returns whether the program may not have acted on the last typed key yet.
    fn may_await_rest_of_key(&mut self, facts: &TerminalFacts) -> bool {
        let now = clock::monotonic_now();
        self.escape.as_mut().is_some_and(|escape| escape.is_undecided(facts.input.reader, now))
    }

    /// Requests a message when the output grows.
    fn follow_output(&mut self) -> Result<(), LiveTerminalError> {
        self.client.take_growth();
        let request = ShimRequest::Subscribe { follow: true, shown: None };
        Ok(self.client.watch().send(&request)?)
    }

    /// Waits until the output grows, for at most `timeout_ms` milliseconds. Returns whether the
    /// output has grown.
    fn wait_for_output(&mut self, timeout_ms: u64) -> Result<bool, LiveTerminalError> {
        let until = clock::monotonic_now().plus_ms(timeout_ms);
        loop {
            let mut has_grown = self.client.take_growth();
            while let Some(message) = self.client.watch().try_recv()? {
                has_grown |= matches!(message, ShimMessage::Output { .. });
            }
            let id = self.dir.id();
            let Some(source) = self.client.watch().source() else {
                return Err(TerminalError::Ended { id }.into());
            };
            let left = until.ms_since(clock::monotonic_now());
            if has_grown || left == 0 {
                return Ok(has_grown);
            }
            poll::wait_readable(&[source], Some(left))
                .map_err(|source| LiveTerminalError::Output { id, source })?;
        }
    }

    /// Returns the state of the terminal and the screen after the same output.
    fn facts_and_screen(&mut self) -> Result<(TerminalFacts, Screen), LiveTerminalError> {
        let facts = self.client.facts()?;
        let screen = self.screen_at(facts.output_bytes)?;
        Ok((facts, screen))
    }

    /// Returns the screen after `output_bytes` bytes of output. Waits until the local copy of a
    /// remote output has them.
    fn screen_at(&mut self, output_bytes: u64) -> Result<Screen, LiveTerminalError> {
        let id = self.dir.id();
        let failed = |source| LiveTerminalError::Output { id, source };
        let until = clock::monotonic_now().plus_ms(COPY_TIMEOUT_MS);
        loop {
            let (dir, state) = self.client.watch().state()?;
            let Some(terminal) = &state.terminal else {
                return Err(TerminalError::Ended { id }.into());
            };
            let history = TerminalHistory::from(terminal);
            let to = Some(output_bytes);
            let replay = match &mut self.replay {
                Some(replay) => {
                    replay.advance(&dir, &history, to, false).map_err(failed)?;
                    replay
                }
                none => {
                    none.insert(TerminalReplay::open(&dir, &history, to, false).map_err(failed)?)
                }
            };
            // The output of a remote task arrives shortly after the answer of its shim.
            let is_complete = replay.offset() >= output_bytes;
            if is_complete || clock::monotonic_now() >= until {
                return Ok(replay.screen());
            }
            thread::sleep(Duration::from_millis(LOOK_PAUSE_MS.0));
        }
    }
}

/// Returns the refusal of bytes that would answer a prompt for a secret; `None` without such a
/// prompt.
fn refuse_secret(facts: &TerminalFacts, screen: &Screen, bytes: &[u8]) -> Option<KeysRefusal> {
    let is_answer = facts.input.is_answer_to_secret(prompt_evidence(screen), bytes);
    is_answer.then(|| KeysRefusal::SecretRequested { prompt: cursor_row(screen).to_owned() })
}

/// Returns the text of the row with the cursor, where a program shows its prompt.
fn cursor_row(screen: &Screen) -> &str {
    screen.row(usize::from(screen.cursor().row))
}

fn prompt_evidence(screen: &Screen) -> PromptEvidence {
    let prompt = OutputTail::from_bytes(cursor_row(screen).as_bytes()).prompt;
    PromptEvidence {
        is_password_prompt: prompt == Some(Prompt::Password),
        is_alternate_screen: screen.is_alternate(),
    }
}
