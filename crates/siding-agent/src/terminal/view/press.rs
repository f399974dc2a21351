//! What follows from the keys that a person presses.

use super::super::keys::Key;
use super::{Doubt, Leaving, Paint, View, Wish};

/// What answers whether a command is run.
const YES: [&str; 2] = ["y", "yes"];
const NO: [&str; 2] = ["n", "no"];

impl View {
    /// Takes in a key. Returns what is wanted.
    pub fn press(&mut self, key: Key) -> Option<Wish> {
        self.note = None;
        let leaving = std::mem::replace(&mut self.leaving, Leaving::No);
        match key {
            Key::Escape if !self.questions.is_empty() => return self.answer(false),
            Key::Escape | Key::Ctrl('c') if self.is_busy() => return Some(Wish::Interrupt),
            Key::Ctrl('c') if !self.input.is_empty() => self.input.clear(),
            Key::Ctrl('c') if leaving == Leaving::No => {
                self.leaving = Leaving::Once;
                self.note = Some("Ctrl-C once more leaves".to_owned());
            }
            Key::Ctrl('c') => return self.leave(leaving),
            Key::Ctrl('d') if self.input.is_empty() => return self.leave(leaving),
            Key::Ctrl('d') => self.input.delete(),
            Key::Ctrl('b') => return self.send_away(),
            Key::Ctrl('z') => return Some(Wish::Suspend),
            Key::Ctrl('l') => return Some(Wish::Redraw),
            Key::Enter => return self.enter(),
            Key::Escape => {}
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
            | Key::Ctrl(_)) => self.edit(key),
        }
        None
    }

    fn edit(&mut self, key: Key) {
        let input = &mut self.input;
        match key {
            Key::Char(c) => input.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => input.insert(&text),
            Key::Newline => input.insert("\n"),
            Key::Backspace => input.backspace(),
            Key::Delete => input.delete(),
            Key::Left => input.left(),
            Key::Right => input.right(),
            Key::WordLeft => input.word_left(),
            Key::WordRight => input.word_right(),
            Key::Up | Key::Ctrl('p') => input.up(),
            Key::Down | Key::Ctrl('n') => input.down(),
            Key::Home | Key::Ctrl('a') => input.home(),
            Key::End | Key::Ctrl('e') => input.end(),
            Key::Ctrl('u') => input.delete_to_start(),
            Key::Ctrl('k') => input.delete_to_end(),
            Key::Ctrl('w') => input.delete_word(),
            Key::Ctrl(_) | Key::Enter | Key::Escape => {}
        }
    }

    fn enter(&mut self) -> Option<Wish> {
        let text = self.input.text().trim().to_owned();
        if text.is_empty() {
            return None;
        }
        // Only these words alone are an answer: whoever was writing something else has not read it.
        if !self.questions.is_empty() {
            let word = text.to_lowercase();
            let is_yes = YES.contains(&word.as_str());
            if is_yes || NO.contains(&word.as_str()) {
                self.input.clear();
                return self.answer(is_yes);
            }
        }
        let text = self.input.take().trim().to_owned();
        self.queued.push_back(text.clone());
        Some(Wish::Say(text))
    }

    fn answer(&mut self, yes: bool) -> Option<Wish> {
        let Doubt { call, command, .. } = self.questions.pop_front()?;
        let said = if yes { "yes" } else { "no" };
        self.line(Paint::Strong, format!("{said}: {command}"));
        Some(Wish::Answer { call, yes })
    }

    fn send_away(&mut self) -> Option<Wish> {
        if self.calls.iter().any(|call| matches!(call.tool.as_str(), "bash" | "task_wait")) {
            return Some(Wish::SendAway);
        }
        self.note = Some("no command runs in the foreground".to_owned());
        None
    }

    /// Leaves, once it was said what that ends.
    fn leave(&mut self, leaving: Leaving) -> Option<Wish> {
        let is_free = self.tasks.is_empty() && !self.is_busy();
        if is_free || leaving == Leaving::Warned {
            return Some(Wish::Leave);
        }
        self.leaving = Leaving::Warned;
        self.line(Paint::Bad, "! these run, and are ended when you leave:");
        for task in self.tasks.clone() {
            self.line(Paint::Bad, format!("  {}  {}", task.id, task.command));
        }
        if self.is_busy() {
            self.line(Paint::Bad, "  the turn of the model");
        }
        self.note = Some("Ctrl-D once more leaves and ends them".to_owned());
        None
    }
}
