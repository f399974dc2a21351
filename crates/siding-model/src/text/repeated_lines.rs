//! Replaces consecutive repetitions of a line with a count.

/// Minimum number of repetitions of a line that are replaced by a count. A single repetition is
/// kept, because most lines are shorter than the count.
const MIN_COUNTED_REPEATS: u64 = 2;
/// Minimum number of repetitions of a blank line that are replaced by a count. A few blank lines
/// are kept, because they structure the text and are short.
const MIN_COUNTED_BLANK_REPEATS: u64 = 20;

/// Counts consecutive equal lines.
#[derive(Debug, Default)]
pub(super) struct RepeatCounter {
    /// The last line, while it can still repeat.
    last_line: Option<String>,
    /// Number of repetitions since `last_line` was emitted.
    repeat_count: u64,
}

impl RepeatCounter {
    /// Returns the allocated size of the stored line, in bytes.
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

    /// Emits the repetitions or their count, and resets the count.
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

/// The destination of finished lines: the output itself, or a [`RepeatCounter`] in front of it.
pub(super) struct LineSink<'a> {
    pub(super) out: &'a mut String,
    /// The counter of repetitions; `None` if all lines are kept.
    pub(super) counter: Option<&'a mut RepeatCounter>,
}

impl LineSink<'_> {
    /// Emits a whole line with a newline, or holds it back if it repeats the line before.
    pub(super) fn push_line(&mut self, text: &str) {
        match &mut self.counter {
            Some(counter) => counter.push_line(text, self.out),
            None => {
                self.out.push_str(text);
                self.out.push('\n');
            }
        }
    }

    /// Emits a part of a line unchanged, after the repetitions that were held back.
    pub(super) fn push_piece(&mut self, text: &str) {
        self.finish();
        self.out.push_str(text);
    }

    /// Emits the repetitions that were held back.
    pub(super) fn finish(&mut self) {
        if let Some(counter) = &mut self.counter {
            counter.finish(self.out);
        }
    }
}
