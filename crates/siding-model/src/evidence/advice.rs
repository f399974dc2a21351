//! The advice for a diagnosis: the next step for the agent or person in charge of a quiet task.

use super::diagnose::Diagnosis;
use super::prompt::Prompt;
use super::sample::FdObject;
use super::verdict::{WaitingOn, WhyVerdict};
use crate::id::TaskId;
use crate::spec::StdinMode;

impl Diagnosis {
    /// Returns the advice as one sentence.
    #[must_use]
    pub fn advice(&self, id: TaskId, stdin: StdinMode) -> String {
        match self.verdict {
            WhyVerdict::InputWait | WhyVerdict::InputLikely => self.input_advice(id, stdin),
            WhyVerdict::PasswordLikely => format!(
                "It has most likely asked for a password, which a person has to give: tell them, \
                 or end it with `siding stop {id}`."
            ),
            WhyVerdict::TtyStopped => format!(
                "It was stopped because it used its terminal from the background and will not go \
                 on by itself: end it with `siding stop {id}` and start it without job control."
            ),
            WhyVerdict::Stopped => format!(
                "It was stopped by a signal or a debugger and will not go on by itself: continue \
                 it with `kill -CONT {}`, or end it with `siding stop {id}`.",
                self.process_path.last().copied().unwrap_or_default()
            ),
            WhyVerdict::Serving => {
                "It is a server that waits for connections: nothing has to be done.".to_owned()
            }
            WhyVerdict::Busy => "It computes: wait for it.".to_owned(),
            WhyVerdict::Waiting => self.waiting_advice(id),
            WhyVerdict::Quiet if self.input_channel.is_some() && stdin == StdinMode::Pipe => {
                format!(
                    "It waits for events and would take input (`siding input {id} TEXT`), but does \
                 not ask for any: nothing has to be done."
                )
            }
            WhyVerdict::Quiet => format!(
                "Nothing shows what it waits for: wait, or end it with `siding stop {id}` when it \
                 should have been done."
            ),
            WhyVerdict::Unknown => format!(
                "The kernel does not let siding look into it: judge by its last line, and end it \
                 with `siding stop {id}` when it should have been done."
            ),
        }
    }

    fn input_advice(&self, id: TaskId, stdin: StdinMode) -> String {
        if self.prompt == Some(Prompt::Password) {
            return format!(
                "It asks for a password, which a person has to give: tell them, or end it with \
                 `siding stop {id}`."
            );
        }
        match (self.input_channel, stdin) {
            (Some(FdObject::TaskStdin), StdinMode::Pipe) => format!(
                "It waits for input: answer with `siding input {id} TEXT`, close its input with \
                 `siding input {id} --eof`, or end it with `siding stop {id}`."
            ),
            (_, StdinMode::Pipe) if self.input_channel.is_none() => format!(
                "Its last line asks for something: answer with `siding input {id} TEXT`, or end \
                 it with `siding stop {id}`."
            ),
            (_, StdinMode::Null | StdinMode::Pipe) => format!(
                "It waits for somebody at a terminal, where nobody can type: end it with `siding \
                 stop {id}` and start it so that it does not ask."
            ),
        }
    }

    fn waiting_advice(&self, id: TaskId) -> String {
        let on = match self.waiting_on {
            Some(WaitingOn::Child) => "It waits for a child: wait with it",
            Some(WaitingOn::Timer) => "It sleeps until its time is up: wait for it",
            Some(WaitingOn::Lock) => {
                "It waits for a lock: wait until the holder is done, or see to it"
            }
            Some(WaitingOn::Fifo) => "It waits for somebody to open or fill a FIFO: see to that",
            Some(WaitingOn::Pipe) => {
                "It waits for the other end of a pipe: see to the process there"
            }
            Some(WaitingOn::Network) => "It waits for an answer from the network: wait",
            Some(WaitingOn::Disk) | None => "It waits for a disk: wait",
        };
        let aside = self
            .concurrent_reader
            .map_or_else(String::new, |pid| format!(" (process {pid} would read input meanwhile)"));
        format!("{on}{aside}, or end it with `siding stop {id}`.")
    }
}
