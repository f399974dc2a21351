//! Every byte is kept, in order, whoever writes it and whenever.

use siding_e2e::fill::Shape;
use siding_e2e::{Sandbox, eventually, words};

use crate::{Task, assert_same, gate, perform, shell};

#[test]
fn bytes_are_kept_as_they_are_written() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    for (args, shape, bytes) in [
        // Every byte value, NUL and invalid UTF-8 among them, in writes of all sizes.
        ("fill 3M --block 4k", Shape::Blocks(4096), 3 << 20),
        ("fill 5000001 --block 70k", Shape::Blocks(71_680), 5_000_001),
        ("fill 4M --block 1M", Shape::Blocks(1 << 20), 4 << 20),
        ("fill 10001 --block 1", Shape::Blocks(1), 10_001),
        // A line of 10 MB, and no final newline.
        ("fill 10M --line 10M", Shape::Lines(10 << 20), 10 << 20),
        ("fill 10485759 --line 10M", Shape::Lines(10 << 20), 10_485_759),
        ("fill 12345 --line 100", Shape::Lines(100), 12_345),
        ("fill 0", Shape::Lines(80), 0),
    ] {
        let task = Task::of(&perform(&sandbox, &words(args)).run().expect_code(0));
        assert_same(&task.file(), &shape.bytes(0, bytes), args);
        assert_eq!(task.number("/output/bytes"), bytes as u64, "{args}");
        assert_eq!(task.number("/output/kept_bytes"), bytes as u64, "{args}");
        assert!(task.0["output"]["gap"].is_null(), "{args}");
    }
}

/// What a task writes into a pipe that it made larger itself is no less its output.
#[test]
fn a_pipe_that_the_task_enlarged_is_emptied_to_the_end() {
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

/// Lines of at most PIPE_BUF bytes are whole, whoever else writes (pipe(7)).
#[test]
fn two_writers_tear_and_lose_no_line() {
    const LINES: usize = 100_000;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let script = "fork fill 20000000 --line 200 -- fork fill 9000000 --line 90 -- wait exit 0";
    let task = Task::of(&perform(&sandbox, &words(script)).run().expect_code(0));
    let found = task.file();
    assert_eq!(found.len(), LINES * (200 + 90));
    let mut wanted = [(Shape::Lines(200), 0), (Shape::Lines(90), 0)];
    for line in found.split_inclusive(|byte| *byte == b'\n') {
        let writer = wanted.iter_mut().find(|(shape, _)| shape.chunk() == line.len());
        let (shape, next) = writer.unwrap_or_else(|| {
            panic!("torn: {:?}", String::from_utf8_lossy(line));
        });
        let whole = shape.bytes(*next * shape.chunk() as u64, shape.chunk());
        assert_same(line, &whole, "a writer's next line");
        *next += 1;
    }
    assert_eq!(wanted.map(|(_, next)| next), [LINES as u64; 2]);
}

#[test]
fn what_a_lingering_child_writes_late_is_kept() {
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
    std::fs::write(gate, "word\n").expect("somebody reads");
    let _ended = sandbox.siding(&["wait", task.id()]).run().expect_code(0);
    assert_same(&task.file(), b"early\nlate word\nmore\n", "the whole output");
    eventually("nothing of it is left", || {
        siding_e2e::processes::with_birthmark(task.id()).is_empty()
    });
}
