//! Lines that repeat.

/// Repetitions that are folded: two equal lines more after the first. One more is shorter itself
/// than its count.
const MIN_COUNTED_REPEATS: u64 = 2;
/// The same for blank lines, which part text and cost next to nothing.
const MIN_COUNTED_BLANK_REPEATS: u64 = 20;

/// Counts equal lines that follow each other.
#[derive(Debug, Default)]
pub(super) struct RepeatCounter {
    /// The last line, while it can still repeat.
    last_line: Option<String>,
    /// How often it came again since it was given out.
    repeat_count: u64,
}

impl RepeatCounter {
    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.last_line.as_ref().map_or(0, String::capacity)
    }

    fn push_line(&mut self, text: &str, out: &mut String) {
        if self.last_line.as_deref() == Some(text) {
            self.repeat_count += 1;
            return;
        }
        self.flush(out);
        out.push_str(text);
        out.push('\n');
        let last = self.last_line.get_or_insert_default();
        last.clear();
        last.push_str(text);
    }

    /// Says what was held back. The next line starts a new count.
    fn flush(&mut self, out: &mut String) {
        let again = std::mem::take(&mut self.repeat_count);
        let Some(last) = self.last_line.as_deref().filter(|_| again > 0) else {
            return;
        };
        let fold_from =
            if last.trim().is_empty() { MIN_COUNTED_BLANK_REPEATS } else { MIN_COUNTED_REPEATS };
        if again >= fold_from {
            out.push_str(&format!("… repeated {again} times\n"));
            return;
        }
        for _ in 0..again {
            out.push_str(last);
            out.push('\n');
        }
    }

    fn finish(&mut self, out: &mut String) {
        self.flush(out);
        self.last_line = None;
    }
}

/// Where finished lines go: straight out, or past a [`RepeatCounter`].
pub(super) struct LineSink<'a> {
    /// Text for the reader.
    pub(super) out: &'a mut String,
    /// Counts lines, when that was asked for.
    pub(super) counter: Option<&'a mut RepeatCounter>,
}

impl LineSink<'_> {
    /// Gives out a whole line; its newline is added.
    pub(super) fn push_line(&mut self, text: &str) {
        match &mut self.counter {
            Some(counter) => counter.push_line(text, self.out),
            None => {
                self.out.push_str(text);
                self.out.push('\n');
            }
        }
    }

    /// Gives out part of a line, as it is.
    pub(super) fn push_piece(&mut self, text: &str) {
        self.finish();
        self.out.push_str(text);
    }

    /// Gives out what is held back.
    pub(super) fn finish(&mut self) {
        if let Some(counter) = &mut self.counter {
            counter.finish(self.out);
        }
    }
}
