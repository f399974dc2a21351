//! siding stores every byte of a task's output, in the order of the writes (promise P22).

use siding_e2e::fill_pattern::FillPattern;
use siding_e2e::{Sandbox, eventually, words};

use crate::{Task, assert_same, gate, perform, shell};

#[test]
fn output_bytes_are_stored_unchanged() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (args, shape, bytes) in [
        // Every byte value is stored unchanged, including NUL and invalid UTF-8, in writes of
        // several sizes.
        ("fill 3M --block 4k", FillPattern::Blocks(4096), 3 << 20),
        ("fill 5000001 --block 70k", FillPattern::Blocks(71_680), 5_000_001),
        ("fill 4M --block 1M", FillPattern::Blocks(1 << 20), 4 << 20),
        ("fill 10001 --block 1", FillPattern::Blocks(1), 10_001),
        // A line of 10 MiB is stored unchanged, with and without a final newline.
        ("fill 10M --line 10M", FillPattern::Lines(10 << 20), 10 << 20),
        ("fill 10485759 --line 10M", FillPattern::Lines(10 << 20), 10_485_759),
        ("fill 12345 --line 100", FillPattern::Lines(100), 12_345),
        ("fill 0", FillPattern::Lines(80), 0),
    ] {
        let task = Task::of(&perform(&sandbox, &words(args)).run().expect_code(0));
        assert_same(&task.file(), &shape.bytes(0, bytes), args);
        assert_eq!(task.number("/output/bytes"), bytes as u64, "{args}");
        assert_eq!(task.number("/output/kept_bytes"), bytes as u64, "{args}");
        assert!(task.0["output"]["gap"].is_null(), "{args}");
    }
}

/// No output is lost if the task enlarges its output pipe with F_SETPIPE_SZ.
#[test]
fn an_enlarged_pipe_is_drained_to_the_end() {
    let sandbox = Sandbox::new();
    let wide = "import fcntl, os\n\
                fcntl.fcntl(1, 1031, 1 << 20)\n\
                os.write(1, b'x' * (1 << 20))\n\
                os._exit(3)";
    if sandbox.host("python3", &["-c", "pass"]).run().code != Some(0) {
        eprintln!("skipped: no python3");
        return;
    }
    for _ in 0..5 {
        let args =
            ["run", "--json", "--budget", "none", "--allow-duplicate", "--", "python3", "-c", wide];
        let task = Task::of(&sandbox.siding(&args).run().expect_code(3));
        assert_eq!(task.file().len(), 1 << 20);
    }
}

/// The kernel writes lines of at most PIPE_BUF bytes atomically (pipe(7)), so the lines of two
/// concurrent writers must stay whole in the stored output.
#[test]
fn lines_of_two_writers_are_neither_torn_nor_lost() {
    const LINE_COUNT: usize = 100_000;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let script = "fork fill 20000000 --line 200 -- fork fill 9000000 --line 90 -- wait exit 0";
    let task = Task::of(&perform(&sandbox, &words(script)).run().expect_code(0));
    let found = task.file();
    assert_eq!(found.len(), LINE_COUNT * (200 + 90));
    let mut wanted = [(FillPattern::Lines(200), 0), (FillPattern::Lines(90), 0)];
    for line in found.split_inclusive(|byte| *byte == b'\n') {
        let writer = wanted.iter_mut().find(|(shape, _)| shape.write_len() == line.len());
        let (shape, next) = writer.unwrap_or_else(|| {
            panic!("a torn line: {:?}", String::from_utf8_lossy(line));
        });
        let whole = shape.bytes(*next * shape.write_len() as u64, shape.write_len());
        assert_same(line, &whole, "a writer's next line");
        *next += 1;
    }
    assert_eq!(wanted.map(|(_, next)| next), [LINE_COUNT as u64; 2]);
}

#[test]
fn late_output_of_a_lingering_child_is_kept() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = gate(&sandbox);
    let text = format!(
        "(read word < {0}; echo late $word; echo more >&2) & echo early; exit 7",
        gate.display()
    );
    let task = Task::of(&shell(&sandbox, &text).run().expect_code(7));
    assert_eq!(task.text("/phase"), "lingering");
    assert_eq!(task.text("/output/text"), "early\n");
    std::fs::write(gate, "word\n").expect("writing to the pipe succeeded");
    let _ended = sandbox.siding(&["wait", task.id()]).run().expect_code(7);
    assert_same(&task.file(), b"early\nlate word\nmore\n", "the whole output");
    eventually("nothing of it is left", || {
        siding_e2e::processes::with_birthmark(task.id()).is_empty()
    });
}
