//! Feeds many random outputs to the emulator. `SIDING_TEST_SCREENS` sets their number.

use siding_model::terminal::TerminalSize;

use crate::Emulator;

/// Default number of outputs.
const DEFAULT_SCREENS: u64 = 3_000;
/// Longest output, in bytes.
const MAX_OUTPUT_BYTES: u64 = 400;
/// Bytes that start or end something in a terminal.
const SPECIAL_BYTES: &[u8] = b"\x1b\x1b\x1b\x1b[[[[]P?;:(0)#!>78MDEHc\r\n\t\x08\x07\x0e\x0f0123456789hlmrHJKABCDGLMPSTXZ@`bdsu\xc3\xa9\xe7\x95\x8c\xef\xb8\x8f\xe2\x9d\xa4";

/// The generator `xorshift64*`: the seed alone determines a case.
struct Random(u64);

impl Random {
    fn next_below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }

    fn next_byte(&mut self) -> u8 {
        let special = SPECIAL_BYTES[self.next_below(SPECIAL_BYTES.len() as u64) as usize];
        let any = self.next_below(256) as u8;
        if self.next_below(5) > 0 { special } else { any }
    }

    fn next_size(&mut self) -> TerminalSize {
        let (columns, rows) = match self.next_below(4) {
            0 => (3, 3),
            1 => (20, 8),
            2 => (80, 24),
            _ => (500, 200),
        };
        // Large screens are rare, because they take most of the time.
        let (columns, rows) =
            if self.next_below(50) > 0 { (columns.min(20), rows.min(8)) } else { (columns, rows) };
        TerminalSize {
            columns: 1 + self.next_below(columns) as u16,
            rows: 1 + self.next_below(rows) as u16,
        }
    }
}

#[test]
fn random_output_never_panics() {
    let cases = std::env::var("SIDING_TEST_SCREENS").ok().and_then(|text| text.parse().ok());
    for seed in 1..=cases.unwrap_or(DEFAULT_SCREENS) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut emulator = Emulator::new(random.next_size());
        for _ in 0..random.next_below(3) + 1 {
            let length = random.next_below(MAX_OUTPUT_BYTES);
            let output: Vec<u8> = (0..length).map(|_| random.next_byte()).collect();
            emulator.feed(&output);
            emulator.resize(random.next_size());
        }
        let screen = emulator.screen();
        assert!(screen.cursor().column < screen.size().columns, "seed {seed}");
    }
}

#[test]
fn an_unterminated_sequence_hides_no_later_text() {
    for start in ["\x1b[", "\x1b]2;", "\x1bP", "\x1b_", "\x1b^"] {
        let mut emulator = Emulator::new(TerminalSize::DEFAULT);
        emulator.feed(start.as_bytes());
        for _ in 0..100 {
            emulator.feed(&[b'1'; 10_000]);
        }
        emulator.feed(b"\x1b[Htext");
        assert_eq!(emulator.screen().row(0), "text", "{start:?}");
        assert!(emulator.screen().title().is_none_or(|title| title.len() <= 1024));
    }
}
