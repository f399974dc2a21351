//! Lines that repeat.

/// Repetitions that are folded: two equal lines more after the first. One more is shorter itself
/// than its count.
const LINES_MIN: u64 = 2;
/// The same for blank lines, which part text and cost next to nothing.
const BLANK_MIN: u64 = 20;

/// Counts equal lines that follow each other.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// The last line, while it can still repeat.
    last: Option<String>,
    /// How often it came again since it was given out.
    again: u64,
}

impl Counter {
    /// Bytes held.
    pub(super) fn held(&self) -> usize {
        self.last.as_ref().map_or(0, String::capacity)
    }

    fn line(&mut self, text: &str, out: &mut String) {
        if self.last.as_deref() == Some(text) {
            self.again += 1;
            return;
        }
        self.flush(out);
        out.push_str(text);
        out.push('\n');
        let last = self.last.get_or_insert_default();
        last.clear();
        last.push_str(text);
    }

    /// Says what was held back. The next line starts a new count.
    fn flush(&mut self, out: &mut String) {
        let again = std::mem::take(&mut self.again);
        let Some(last) = self.last.as_deref().filter(|_| again > 0) else {
            return;
        };
        let fold_from = if last.trim().is_empty() { BLANK_MIN } else { LINES_MIN };
        if again >= fold_from {
            out.push_str(&format!("… repeated {again} times\n"));
            return;
        }
        for _ in 0..again {
            out.push_str(last);
            out.push('\n');
        }
    }

    fn end(&mut self, out: &mut String) {
        self.flush(out);
        self.last = None;
    }
}

/// Where finished lines go: straight out, or past a [`Counter`].
pub(super) struct Outlet<'a> {
    /// Text for the reader.
    pub(super) out: &'a mut String,
    /// Counts lines, when that was asked for.
    pub(super) counter: Option<&'a mut Counter>,
}

impl Outlet<'_> {
    /// Gives out a whole line; its newline is added.
    pub(super) fn line(&mut self, text: &str) {
        match &mut self.counter {
            Some(counter) => counter.line(text, self.out),
            None => {
                self.out.push_str(text);
                self.out.push('\n');
            }
        }
    }

    /// Gives out part of a line, as it is.
    pub(super) fn piece(&mut self, text: &str) {
        self.end();
        self.out.push_str(text);
    }

    /// Gives out what is held back.
    pub(super) fn end(&mut self) {
        if let Some(counter) = &mut self.counter {
            counter.end(self.out);
        }
    }
}
