//! Maps keys to changes of the input line and to actions.

use siding_model::key_input::Key;

use super::{ExitConfirmation, PendingQuestion, TextStyle, UserAction, View};

/// The answers that approve a command.
const YES_WORDS: [&str; 2] = ["y", "yes"];
const NO_WORDS: [&str; 2] = ["n", "no"];

impl View {
    /// Handles a key. Returns the action that the key triggers, if any.
    pub fn on_key(&mut self, key: Key) -> Option<UserAction> {
        self.status_note = None;
        let leaving =
            std::mem::replace(&mut self.exit_confirmation, ExitConfirmation::NotRequested);
        match key {
            Key::Escape if !self.pending_questions.is_empty() => {
                return self.answer_question(false);
            }
            Key::Escape | Key::Ctrl('c') if self.is_busy() => return Some(UserAction::Interrupt),
            Key::Ctrl('c') if !self.input.is_empty() => self.input.clear(),
            Key::Ctrl('c') if leaving == ExitConfirmation::NotRequested => {
                self.exit_confirmation = ExitConfirmation::KeyPressedOnce;
                self.status_note = Some("press Ctrl-C again to quit".to_owned());
            }
            Key::Ctrl('c') => return self.request_exit(leaving, "Ctrl-C"),
            Key::Ctrl('d') if self.input.is_empty() => {
                return self.request_exit(leaving, "Ctrl-D");
            }
            Key::Ctrl('d') => self.input.delete(),
            Key::Ctrl('b') => return self.move_to_background(),
            Key::Ctrl('z') => return Some(UserAction::Suspend),
            Key::Ctrl('l') => return Some(UserAction::Redraw),
            Key::Enter => return self.on_enter(),
            Key::Escape | Key::Tab | Key::BackTab | Key::PageUp | Key::PageDown | Key::Mouse(_) => {
            }
            key @ (Key::Char(_)
            | Key::Paste(_)
            | Key::Newline
            | Key::Backspace
            | Key::Delete
            | Key::Left
            | Key::Right
            | Key::WordLeft
            | Key::WordRight
            | Key::Up
            | Key::Down
            | Key::Home
            | Key::End
            | Key::Ctrl(_)) => self.edit_input(key),
        }
        None
    }

    fn edit_input(&mut self, key: Key) {
        let input = &mut self.input;
        match key {
            Key::Char(c) => input.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => input.insert(&text),
            Key::Newline => input.insert("\n"),
            Key::Backspace => input.backspace(),
            Key::Delete => input.delete(),
            Key::Left => input.move_left(),
            Key::Right => input.move_right(),
            Key::WordLeft => input.move_word_left(),
            Key::WordRight => input.move_word_right(),
            Key::Up | Key::Ctrl('p') => input.history_previous(),
            Key::Down | Key::Ctrl('n') => input.history_next(),
            Key::Home | Key::Ctrl('a') => input.move_home(),
            Key::End | Key::Ctrl('e') => input.move_end(),
            Key::Ctrl('u') => input.delete_to_start(),
            Key::Ctrl('k') => input.delete_to_end(),
            Key::Ctrl('w') => input.delete_word(),
            Key::Ctrl(_)
            | Key::Enter
            | Key::Escape
            | Key::Tab
            | Key::BackTab
            | Key::PageUp
            | Key::PageDown
            | Key::Mouse(_) => {}
        }
    }

    fn on_enter(&mut self) -> Option<UserAction> {
        let text = self.input.text().trim().to_owned();
        if text.is_empty() {
            return None;
        }
        // Only `YES_WORDS` and `NO_WORDS` answer the question. Any other text is a prompt, because
        // a person who was typing may not have read the question.
        if !self.pending_questions.is_empty() {
            let word = text.to_lowercase();
            let is_yes = YES_WORDS.contains(&word.as_str());
            if is_yes || NO_WORDS.contains(&word.as_str()) {
                self.input.clear();
                return self.answer_question(is_yes);
            }
        }
        let text = self.input.submit().trim().to_owned();
        self.queued_prompts.push_back(text.clone());
        Some(UserAction::Submit(text))
    }

    fn answer_question(&mut self, yes: bool) -> Option<UserAction> {
        let PendingQuestion { call, command, .. } = self.pending_questions.pop_front()?;
        let answer = if yes { "yes" } else { "no" };
        self.push_line(TextStyle::Strong, format!("{answer}: {command}"));
        Some(UserAction::AnswerQuestion { call, yes })
    }

    fn move_to_background(&mut self) -> Option<UserAction> {
        if self.running_calls.iter().any(|call| matches!(call.tool.as_str(), "bash" | "task_wait"))
        {
            return Some(UserAction::MoveToBackground);
        }
        self.status_note = Some("no command is running in the foreground".to_owned());
        None
    }

    /// Returns the action that ends the agent. If something is still running, first warns and
    /// returns `None`; the next request then ends the agent. `key` is the name of the pressed key.
    fn request_exit(&mut self, leaving: ExitConfirmation, key: &str) -> Option<UserAction> {
        let is_free = self.tasks.is_empty() && !self.is_busy();
        if is_free || leaving == ExitConfirmation::Warned {
            return Some(UserAction::Quit);
        }
        self.exit_confirmation = ExitConfirmation::Warned;
        self.push_line(TextStyle::Error, "! these are running and will be stopped when you quit:");
        for task in self.tasks.clone() {
            self.push_line(TextStyle::Error, format!("  {}  {}", task.id, task.command));
        }
        if self.is_busy() {
            self.push_line(TextStyle::Error, "  the turn of the model");
        }
        self.status_note = Some(format!("press {key} again to quit and stop them"));
        None
    }
}
