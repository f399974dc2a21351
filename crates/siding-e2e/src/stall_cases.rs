//! Silent real programs, and the verdict of `siding why` that is correct for each: programs that
//! wait for input, and programs that wait for something else or compute. Tests print the name of
//! each program that the machine lacks, and skip its cases.

use std::path::Path;

/// The kinds of standard input with which the cases start their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinSource {
    /// `--stdin pipe`.
    Pipe,
    /// `/dev/null`.
    Null,
}

/// The results of `siding why` that a test accepts for a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// `input_wait` with hard certainty.
    InputWait,
    /// `input_wait` or `input_likely`, for event loops and interpreters based on one: these poll
    /// their input, so a blocked read cannot be observed.
    AnyInput,
    /// This verdict, with any certainty.
    Verdict(&'static str),
    /// `waiting`, with this value of `waiting_on`.
    Waiting(&'static str),
    /// Any verdict except a wait for input.
    NoInput,
}

impl ExpectedVerdict {
    /// Returns whether the expected verdict says that the task waits for input.
    #[must_use]
    pub fn expects_input_wait(self) -> bool {
        matches!(
            self,
            Self::InputWait | Self::AnyInput | Self::Verdict("tty_stopped" | "password_likely")
        )
    }

    /// Returns whether the JSON of `siding why --json` matches this expectation.
    #[must_use]
    pub fn accepts(self, why: &serde_json::Value) -> bool {
        let verdict = why["verdict"].as_str().unwrap_or_default();
        match self {
            Self::InputWait => verdict == "input_wait" && why["certainty"] == "hard",
            Self::AnyInput => matches!(verdict, "input_wait" | "input_likely"),
            Self::Verdict(wanted) => verdict == wanted,
            Self::Waiting(on) => verdict == "waiting" && why["waiting_on"] == on,
            Self::NoInput => !reports_input_wait(why),
        }
    }
}

/// Returns whether the JSON of `siding why --json` says that the task waits for input.
#[must_use]
pub fn reports_input_wait(why: &serde_json::Value) -> bool {
    let verdict = why["verdict"].as_str().unwrap_or_default();
    matches!(verdict, "input_wait" | "input_likely" | "password_likely" | "tty_stopped")
}

/// One shell command and the verdict that is correct while it runs.
#[derive(Debug, Clone, Copy)]
pub struct StallCase {
    /// Name of the case in failure messages and benchmark reports.
    pub name: &'static str,
    /// Programs that the case needs, by absolute path or by name.
    pub required_programs: &'static [&'static str],
    /// The kind of standard input with which the task starts.
    pub stdin: StdinSource,
    /// The shell text that starts the program, in an empty directory.
    pub text: &'static str,
    /// The results of `siding why` that are correct for this case.
    pub expected: ExpectedVerdict,
}

impl StallCase {
    /// Returns the first required program that this machine lacks.
    #[must_use]
    pub fn missing_program(&self) -> Option<&'static str> {
        self.required_programs.iter().copied().find(|program| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            !std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
                && !Path::new(program).is_file()
        })
    }
}

const PYTHON: &[&str] = &["/usr/bin/python3"];
const NODE: &[&str] = &["node"];
const SCRIPT: &[&str] = &["script"];

const fn stall_case(
    name: &'static str,
    needs: &'static [&'static str],
    stdin: StdinSource,
    text: &'static str,
    expected: ExpectedVerdict,
) -> StallCase {
    StallCase { name, required_programs: needs, stdin, text, expected }
}

const fn input_case(
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
) -> StallCase {
    stall_case(name, needs, StdinSource::Pipe, text, ExpectedVerdict::InputWait)
}

const fn event_loop_case(
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
) -> StallCase {
    stall_case(name, needs, StdinSource::Pipe, text, ExpectedVerdict::AnyInput)
}

const fn other_wait_case(
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
    expected: ExpectedVerdict,
) -> StallCase {
    stall_case(name, needs, StdinSource::Pipe, text, expected)
}

/// All cases. Each program runs for at least a minute unless it is stopped, in its own directory.
pub const STALL_CASES: &[StallCase] = &[
    // Programs that wait for input.
    input_case("cat", &[], "cat"),
    input_case("grep without a file", &[], "grep x"),
    input_case("bash read", &[], "read -p 'Continue? [y/N] ' x"),
    input_case("bash select", &[], "select x in a b; do break; done"),
    input_case("bash -i", &[], "bash --norc -i"),
    input_case("read with a time limit", &[], "read -t 300 x"),
    input_case("dash read", &["dash"], "dash -c 'read x'"),
    input_case("rm -i", &[], "touch f; rm -i f"),
    input_case("perl <STDIN>", &["perl"], "perl -e 'print \"Name: \"; $x = <STDIN>'"),
    input_case("python input()", PYTHON, "/usr/bin/python3 -c 'input(\"Name: \")'"),
    input_case("python REPL", PYTHON, "/usr/bin/python3 -i"),
    input_case("python getpass", PYTHON, "/usr/bin/python3 -c 'import getpass; getpass.getpass()'"),
    input_case(
        "python input() in a thread",
        PYTHON,
        "/usr/bin/python3 -c 'import threading; t = threading.Thread(target=input); t.start(); t.join()'",
    ),
    input_case(
        "ssh-keygen overwrite",
        &["ssh-keygen"],
        "touch k; exec ssh-keygen -q -t ed25519 -N '' -f k",
    ),
    input_case("ssh-keygen passphrase", &["ssh-keygen"], "exec ssh-keygen -q -t ed25519 -f k"),
    input_case("node fs.readSync", NODE, "node -e 'require(\"fs\").readSync(0, Buffer.alloc(9))'"),
    event_loop_case(
        "node readline",
        NODE,
        "node -e 'const r = require(\"readline\"); \
         r.createInterface({input: process.stdin, output: process.stdout}).question(\"Name: \", () => {})'",
    ),
    event_loop_case("node REPL", NODE, "node -i"),
    event_loop_case("npm init", &["npm"], "npm init"),
    event_loop_case("gdb", &["gdb"], "gdb -q -nx"),
    event_loop_case(
        "python asyncio",
        PYTHON,
        "/usr/bin/python3 -c 'import asyncio, sys\n\
         async def main():\n \
         reader = asyncio.StreamReader()\n \
         await asyncio.get_event_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)\n \
         print(\"Name: \", end=\"\", flush=True)\n \
         await reader.readline()\n\
         asyncio.run(main())'",
    ),
    input_case("script and cat", SCRIPT, "script -qc cat /dev/null"),
    input_case(
        "script and vim",
        &["script", "vim"],
        "TERM=xterm script -qc 'vim -u NONE -n f' /dev/null",
    ),
    input_case("script and bash", SCRIPT, "script -qc 'bash --norc -i' /dev/null"),
    input_case(
        "script and less",
        &["script", "less"],
        "seq 999 > f; TERM=xterm script -qc 'less f' /dev/null",
    ),
    input_case(
        "script and getpass",
        &["script", "/usr/bin/python3"],
        "script -qc '/usr/bin/python3 -c \"import getpass; getpass.getpass()\"' /dev/null",
    ),
    stall_case(
        "pty.spawn",
        PYTHON,
        StdinSource::Null,
        "/usr/bin/python3 -c 'import pty; pty.spawn([\"cat\"])'",
        ExpectedVerdict::InputWait,
    ),
    stall_case(
        "vim without a terminal",
        &["vim"],
        StdinSource::Null,
        "vim -u NONE -n f",
        ExpectedVerdict::InputWait,
    ),
    stall_case(
        "job control in a terminal",
        SCRIPT,
        StdinSource::Pipe,
        "script -qc 'timeout 60 cat; true' /dev/null",
        ExpectedVerdict::Verdict("tty_stopped"),
    ),
    // Programs that do not wait for input.
    other_wait_case("sleep", &[], "sleep 300", ExpectedVerdict::Waiting("timer")),
    other_wait_case("wait", &[], "sleep 300 & wait", ExpectedVerdict::Waiting("timer")),
    other_wait_case("sleep loop", &[], "while :; do sleep .3; done", ExpectedVerdict::NoInput),
    other_wait_case("tail | grep", &[], "touch f; tail -f f | grep x", ExpectedVerdict::NoInput),
    other_wait_case("tail -f", &[], "touch f; tail -f f", ExpectedVerdict::NoInput),
    other_wait_case("yes into nothing", &[], "yes > /dev/null", ExpectedVerdict::Verdict("busy")),
    other_wait_case(
        "yes into a full pipe",
        &[],
        "yes | sleep 300",
        ExpectedVerdict::Waiting("pipe"),
    ),
    other_wait_case("sleep | cat", &[], "sleep 300 | cat", ExpectedVerdict::Waiting("timer")),
    other_wait_case("cat | sleep", &[], "cat | sleep 300", ExpectedVerdict::Waiting("timer")),
    other_wait_case(
        "flock",
        &["flock"],
        "flock l sleep 300 & until [ -e l ]; do :; done; sleep .2; exec flock l true",
        ExpectedVerdict::Waiting("lock"),
    ),
    other_wait_case(
        "open of a FIFO",
        &[],
        "mkfifo f; exec cat f",
        ExpectedVerdict::Waiting("fifo"),
    ),
    other_wait_case(
        "own FIFO",
        &[],
        "mkfifo f; exec 7<> f; read x <&7",
        ExpectedVerdict::Waiting("fifo"),
    ),
    other_wait_case("coproc", &[], "coproc cat; sleep 300", ExpectedVerdict::Waiting("timer")),
    other_wait_case(
        "make -j",
        &["make"],
        "printf 'all: a b\\na b:\\n\\tsleep 300\\n' > Makefile; make -j2",
        ExpectedVerdict::Waiting("timer"),
    ),
    other_wait_case(
        "http.server",
        PYTHON,
        "/usr/bin/python3 -m http.server 0",
        ExpectedVerdict::Verdict("serving"),
    ),
    other_wait_case(
        "node http",
        NODE,
        "node -e 'require(\"http\").createServer().listen(0)'",
        ExpectedVerdict::Verdict("serving"),
    ),
    other_wait_case(
        "node http with keys",
        NODE,
        "node -e 'require(\"http\").createServer().listen(0, () => console.log(\"press h + enter\")); process.stdin.on(\"data\", () => {})'",
        ExpectedVerdict::Verdict("serving"),
    ),
    other_wait_case(
        "node language server",
        NODE,
        "node -e 'process.stdin.on(\"data\", () => {}); console.log(\"ready\")'",
        ExpectedVerdict::NoInput,
    ),
    other_wait_case(
        "node without work",
        NODE,
        "node -e 'setTimeout(() => {}, 300000)'",
        ExpectedVerdict::NoInput,
    ),
    other_wait_case(
        "accept",
        PYTHON,
        "/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.accept()'",
        ExpectedVerdict::Verdict("serving"),
    ),
    other_wait_case(
        "recv",
        PYTHON,
        "/usr/bin/python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname()); c.recv(1)'",
        ExpectedVerdict::Waiting("network"),
    ),
    other_wait_case(
        "accept beside a thread that reads",
        PYTHON,
        "/usr/bin/python3 -c 'import socket, sys, threading\n\
         threading.Thread(target=sys.stdin.read, daemon=True).start()\n\
         socket.create_server((\"127.0.0.1\", 0)).accept()'",
        ExpectedVerdict::Verdict("serving"),
    ),
    other_wait_case(
        "child beside a thread that reads",
        PYTHON,
        "/usr/bin/python3 -c 'import subprocess, sys, threading\n\
         threading.Thread(target=sys.stdin.read, daemon=True).start()\n\
         subprocess.run([\"sleep\", \"300\"])'",
        ExpectedVerdict::Waiting("timer"),
    ),
    other_wait_case(
        "queue.get",
        PYTHON,
        "/usr/bin/python3 -c 'import queue; queue.Queue().get()'",
        ExpectedVerdict::NoInput,
    ),
    other_wait_case(
        "multiprocessing",
        PYTHON,
        "/usr/bin/python3 -c 'import multiprocessing, time; p = multiprocessing.Process(target=time.sleep, args=(300,)); p.start(); p.join()'",
        ExpectedVerdict::Waiting("timer"),
    ),
    other_wait_case(
        "inotify",
        PYTHON,
        "/usr/bin/python3 -c 'import ctypes, os; c = ctypes.CDLL(None); f = c.inotify_init(); c.inotify_add_watch(f, b\".\", 4095); os.read(f, 99)'",
        ExpectedVerdict::NoInput,
    ),
    other_wait_case(
        "select loop on the input",
        PYTHON,
        "/usr/bin/python3 -c 'import select\nwhile True: select.select([0], [], [], .05)'",
        ExpectedVerdict::NoInput,
    ),
    other_wait_case("stopped", &[], "kill -STOP $$", ExpectedVerdict::Verdict("stopped")),
    other_wait_case(
        "log that looks like a prompt",
        &[],
        "printf '[INFO] Starting: '; sleep 300",
        ExpectedVerdict::Waiting("timer"),
    ),
    other_wait_case(
        "question nobody waits for",
        &[],
        "echo 'Continue? (y/n)'; sleep 300",
        ExpectedVerdict::Waiting("timer"),
    ),
];
