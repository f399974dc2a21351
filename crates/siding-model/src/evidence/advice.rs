//! The advice for a diagnosis: the next step for the agent or person in charge of a quiet task.

use super::diagnose::Diagnosis;
use super::prompt::Prompt;
use super::sample::FdObject;
use super::verdict::{WaitingOn, WhyVerdict};
use crate::id::TaskId;
use crate::spec::StdinMode;
use crate::terminal::AwaitedInput;

impl Diagnosis {
    /// Returns the advice as one sentence.
    #[must_use]
    pub fn advice(&self, id: TaskId, stdin: StdinMode) -> String {
        match self.verdict {
            WhyVerdict::InputWait | WhyVerdict::InputLikely => self.input_advice(id, stdin),
            WhyVerdict::PasswordLikely if stdin == StdinMode::Terminal => format!(
                "It has most likely asked for a password, which only the user can enter, with \
                 `siding answer {id}`; `siding stop {id}` ends the task."
            ),
            WhyVerdict::PasswordLikely => format!(
                "It has most likely asked for a password, which only the user can enter: ask the \
                 user, or end it with `siding stop {id}`."
            ),
            WhyVerdict::TtyStopped => format!(
                "It was stopped because it used its terminal from the background and will not \
                 continue by itself: end it with `siding stop {id}` and start it without job \
                 control."
            ),
            WhyVerdict::Stopped => format!(
                "It was stopped by a signal or a debugger and will not continue by itself: resume \
                 it with `kill -CONT {}`, or end it with `siding stop {id}`.",
                self.process_path.last().copied().unwrap_or_default()
            ),
            WhyVerdict::Serving => {
                "It is a server that waits for connections: nothing has to be done.".to_owned()
            }
            WhyVerdict::Busy => "It computes: wait for it.".to_owned(),
            WhyVerdict::Waiting => self.waiting_advice(id),
            WhyVerdict::Quiet if self.awaited_input == Some(AwaitedInput::Keys) => format!(
                "It is a full-screen program that waits for keys and asks for nothing: `siding \
                 screen {id}` shows it, and `siding keys {id} KEY` types."
            ),
            WhyVerdict::Quiet if self.input_channel.is_some() && stdin == StdinMode::Pipe => {
                format!(
                    "It waits for events and accepts input (`siding input {id} TEXT`), but does \
                 not ask for any: nothing has to be done."
                )
            }
            WhyVerdict::Quiet => format!(
                "It is not known what it waits for: wait, or end it with `siding stop {id}` if it \
                 should have finished by now."
            ),
            WhyVerdict::Unknown => format!(
                "The kernel denies siding access to its processes: judge by its last line, and end \
                 it with `siding stop {id}` if it should have finished by now."
            ),
        }
    }

    /// Returns the advice for an adopted task as one sentence. The terminal of such a task was opened
    /// by its host or a person, so the answer must be typed there.
    #[must_use]
    pub fn adopted_advice(&self, id: TaskId) -> String {
        let channel = self.input_channel;
        let is_terminal = matches!(channel, Some(FdObject::Terminal | FdObject::OtherTerminal));
        if !is_terminal || !self.verdict.asks_for_input() {
            return self.advice(id, StdinMode::Null);
        }
        let is_password = self.prompt == Some(Prompt::Password);
        if is_password || self.verdict == WhyVerdict::PasswordLikely {
            return format!(
                "It asks for a password on a terminal that siding has not opened, where only the \
                 user can enter it; `siding stop {id}` ends the task."
            );
        }
        format!(
            "It waits for input from a terminal that siding has not opened and cannot type into: \
             answer where the command was started, or end it with `siding stop {id}`."
        )
    }

    fn input_advice(&self, id: TaskId, stdin: StdinMode) -> String {
        if self.prompt == Some(Prompt::Password) {
            return match stdin {
                StdinMode::Terminal => format!(
                    "It asks for a password, which only the user can enter, with `siding answer \
                     {id}`; `siding stop {id}` ends the task."
                ),
                StdinMode::Null | StdinMode::Pipe | StdinMode::Inherit => format!(
                    "It asks for a password, which only the user can enter: ask the user, or end \
                     it with `siding stop {id}`."
                ),
            };
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
            (_, StdinMode::Terminal) => format!(
                "It waits for input from its terminal: `siding screen {id}` shows the question, \
                 `siding keys {id} TEXT Enter` answers it, and `siding stop {id}` ends the task."
            ),
            (_, StdinMode::Null | StdinMode::Pipe | StdinMode::Inherit) => format!(
                "It waits for input from a terminal without a user: end it with `siding stop {id}` \
                 and start it so that it does not ask."
            ),
        }
    }

    fn waiting_advice(&self, id: TaskId) -> String {
        let on = match self.waiting_on {
            Some(WaitingOn::Child) => "It waits for a child: wait as well",
            Some(WaitingOn::Timer) => "It sleeps on a timer: wait for it",
            Some(WaitingOn::Lock) => {
                "It waits for a lock: wait until the holder is done, or check the holder"
            }
            Some(WaitingOn::Fifo) => {
                "It waits for another process to open or write to a FIFO: check that process"
            }
            Some(WaitingOn::Pipe) => {
                "It waits for the other end of a pipe: check the process there"
            }
            Some(WaitingOn::Network) => "It waits for an answer from the network: wait",
            Some(WaitingOn::Disk) | None => "It waits for a disk: wait",
        };
        let aside = self
            .concurrent_reader
            .map_or_else(String::new, |pid| format!(" (process {pid} also waits for input)"));
        format!("{on}{aside}, or end it with `siding stop {id}`.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::verdict::Certainty;
    use super::*;

    fn diagnosis(verdict: WhyVerdict, prompt: Option<Prompt>) -> Diagnosis {
        Diagnosis {
            verdict,
            waiting_on: None,
            certainty: Certainty::Hard,
            cpu_permille: 0,
            process_path: vec![7],
            thread: None,
            concurrent_reader: None,
            input_channel: Some(FdObject::Terminal),
            prompt,
            awaited_input: None,
        }
    }

    #[test]
    fn an_adopted_task_is_answered_where_its_terminal_was_opened() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        let found = diagnosis(WhyVerdict::InputWait, None);
        let text = found.adopted_advice(id);
        assert!(text.contains("answer where the command was started, or end it"), "{text}");
        let secret = diagnosis(WhyVerdict::InputWait, Some(Prompt::Password));
        for secret in [secret, diagnosis(WhyVerdict::PasswordLikely, None)] {
            let text = secret.adopted_advice(id);
            assert!(text.contains("where only the user can enter it"), "{text}");
        }
        for other in [
            Diagnosis { input_channel: None, ..found },
            diagnosis(WhyVerdict::Busy, None),
            diagnosis(WhyVerdict::TtyStopped, None),
        ] {
            assert_eq!(other.adopted_advice(id), other.advice(id, StdinMode::Null));
        }
    }

    #[test]
    fn only_a_person_answers_a_prompt_for_a_secret() {
        let id: TaskId = "b-4k7q0n2m8x5t".parse().unwrap();
        for found in [
            diagnosis(WhyVerdict::InputWait, Some(Prompt::Password)),
            diagnosis(WhyVerdict::PasswordLikely, None),
        ] {
            let text = found.advice(id, StdinMode::Terminal);
            assert!(text.contains("only the user can enter, with `siding answer b-4k7q"), "{text}");
            let text = found.advice(id, StdinMode::Null);
            assert!(text.contains("ask the user, or end it"), "{text}");
        }
        let text = diagnosis(WhyVerdict::InputWait, None).advice(id, StdinMode::Terminal);
        assert!(text.contains("`siding keys b-4k7q0n2m8x5t TEXT Enter` answers it"), "{text}");
    }
}
