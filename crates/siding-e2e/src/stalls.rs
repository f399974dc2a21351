//! Real programs that wait, for input and for other things, and what siding must say of each.
//!
//! The table of LINUX programs that block on input, and of those that only look so. Programs that
//! are not on a machine are left out, and named.

use std::path::Path;

/// The standard input of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    /// `--stdin pipe`.
    Pipe,
    /// `/dev/null`.
    Null,
}

/// What must be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// `input_wait`, hard.
    Input,
    /// `input_wait` or `input_likely`: an event loop, or an interpreter built upon one.
    SomeInput,
    /// This verdict.
    Verdict(&'static str),
    /// `waiting` on this.
    Waiting(&'static str),
    /// Anything but a wait for input.
    NoInput,
}

impl Expected {
    /// Whether somebody is waited for.
    #[must_use]
    pub fn is_positive(self) -> bool {
        matches!(
            self,
            Self::Input | Self::SomeInput | Self::Verdict("tty_stopped" | "password_likely")
        )
    }

    /// Whether what `siding why --json` says fits.
    #[must_use]
    pub fn fits(self, why: &serde_json::Value) -> bool {
        let verdict = why["verdict"].as_str().unwrap_or_default();
        match self {
            Self::Input => verdict == "input_wait" && why["certainty"] == "hard",
            Self::SomeInput => matches!(verdict, "input_wait" | "input_likely"),
            Self::Verdict(wanted) => verdict == wanted,
            Self::Waiting(on) => verdict == "waiting" && why["waiting_on"] == on,
            Self::NoInput => !says_input(why),
        }
    }
}

/// Whether somebody is said to be waited for.
#[must_use]
pub fn says_input(why: &serde_json::Value) -> bool {
    let verdict = why["verdict"].as_str().unwrap_or_default();
    matches!(verdict, "input_wait" | "input_likely" | "password_likely" | "tty_stopped")
}

/// One program.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name in reports.
    pub name: &'static str,
    /// Programs that must be there, by path or by name.
    pub needs: &'static [&'static str],
    /// What it reads.
    pub stdin: Given,
    /// The shell text.
    pub text: &'static str,
    /// What must be said.
    pub expected: Expected,
}

impl Case {
    /// Returns the first program that this machine does not have.
    #[must_use]
    pub fn lacks(&self) -> Option<&'static str> {
        self.needs.iter().copied().find(|program| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            !std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
                && !Path::new(program).is_file()
        })
    }
}

const PYTHON: &[&str] = &["/usr/bin/python3"];
const NODE: &[&str] = &["node"];
const SCRIPT: &[&str] = &["script"];

const fn case(
    name: &'static str,
    needs: &'static [&'static str],
    stdin: Given,
    text: &'static str,
    expected: Expected,
) -> Case {
    Case { name, needs, stdin, text, expected }
}

const fn asks(name: &'static str, needs: &'static [&'static str], text: &'static str) -> Case {
    case(name, needs, Given::Pipe, text, Expected::Input)
}

const fn may_ask(name: &'static str, needs: &'static [&'static str], text: &'static str) -> Case {
    case(name, needs, Given::Pipe, text, Expected::SomeInput)
}

const fn waits(
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
    expected: Expected,
) -> Case {
    case(name, needs, Given::Pipe, text, expected)
}

/// All of them. Each goes on until it is stopped, in a directory of its own.
pub const CASES: &[Case] = &[
    // What waits for input.
    asks("cat", &[], "cat"),
    asks("grep without a file", &[], "grep x"),
    asks("bash read", &[], "read -p 'Continue? [y/N] ' x"),
    asks("bash select", &[], "select x in a b; do break; done"),
    asks("bash -i", &[], "bash --norc -i"),
    asks("read with a time limit", &[], "read -t 300 x"),
    asks("dash read", &["dash"], "dash -c 'read x'"),
    asks("rm -i", &[], "touch f; rm -i f"),
    asks("perl <STDIN>", &["perl"], "perl -e 'print \"Name: \"; $x = <STDIN>'"),
    asks("python input()", PYTHON, "/usr/bin/python3 -c 'input(\"Name: \")'"),
    asks("python REPL", PYTHON, "/usr/bin/python3 -i"),
    asks("python getpass", PYTHON, "/usr/bin/python3 -c 'import getpass; getpass.getpass()'"),
    asks(
        "python input() in a thread",
        PYTHON,
        "/usr/bin/python3 -c 'import threading; t = threading.Thread(target=input); t.start(); t.join()'",
    ),
    asks(
        "ssh-keygen overwrite",
        &["ssh-keygen"],
        "touch k; exec ssh-keygen -q -t ed25519 -N '' -f k",
    ),
    asks("ssh-keygen passphrase", &["ssh-keygen"], "exec ssh-keygen -q -t ed25519 -f k"),
    asks("node fs.readSync", NODE, "node -e 'require(\"fs\").readSync(0, Buffer.alloc(9))'"),
    may_ask(
        "node readline",
        NODE,
        "node -e 'const r = require(\"readline\"); \
         r.createInterface({input: process.stdin, output: process.stdout}).question(\"Name: \", () => {})'",
    ),
    may_ask("node REPL", NODE, "node -i"),
    may_ask("npm init", &["npm"], "npm init"),
    may_ask("gdb", &["gdb"], "gdb -q -nx"),
    may_ask(
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
    asks("script and cat", SCRIPT, "script -qc cat /dev/null"),
    asks(
        "script and vim",
        &["script", "vim"],
        "TERM=xterm script -qc 'vim -u NONE -n f' /dev/null",
    ),
    asks("script and bash", SCRIPT, "script -qc 'bash --norc -i' /dev/null"),
    asks(
        "script and less",
        &["script", "less"],
        "seq 999 > f; TERM=xterm script -qc 'less f' /dev/null",
    ),
    asks(
        "script and getpass",
        &["script", "/usr/bin/python3"],
        "script -qc '/usr/bin/python3 -c \"import getpass; getpass.getpass()\"' /dev/null",
    ),
    case(
        "pty.spawn",
        PYTHON,
        Given::Null,
        "/usr/bin/python3 -c 'import pty; pty.spawn([\"cat\"])'",
        Expected::Input,
    ),
    case("vim without a terminal", &["vim"], Given::Null, "vim -u NONE -n f", Expected::Input),
    case(
        "job control in a terminal",
        SCRIPT,
        Given::Pipe,
        "script -qc 'timeout 60 cat; true' /dev/null",
        Expected::Verdict("tty_stopped"),
    ),
    // What does not.
    waits("sleep", &[], "sleep 300", Expected::Waiting("timer")),
    waits("wait", &[], "sleep 300 & wait", Expected::Waiting("timer")),
    waits("sleep loop", &[], "while :; do sleep .3; done", Expected::NoInput),
    waits("tail | grep", &[], "touch f; tail -f f | grep x", Expected::NoInput),
    waits("tail -f", &[], "touch f; tail -f f", Expected::NoInput),
    waits("yes into nothing", &[], "yes > /dev/null", Expected::Verdict("busy")),
    waits("yes into a full pipe", &[], "yes | sleep 300", Expected::Waiting("pipe")),
    waits("sleep | cat", &[], "sleep 300 | cat", Expected::Waiting("timer")),
    waits("cat | sleep", &[], "cat | sleep 300", Expected::Waiting("timer")),
    waits(
        "flock",
        &["flock"],
        "flock l sleep 300 & until [ -e l ]; do :; done; sleep .2; exec flock l true",
        Expected::Waiting("lock"),
    ),
    waits("open of a FIFO", &[], "mkfifo f; exec cat f", Expected::Waiting("fifo")),
    waits("own FIFO", &[], "mkfifo f; exec 7<> f; read x <&7", Expected::Waiting("fifo")),
    waits("coproc", &[], "coproc cat; sleep 300", Expected::Waiting("timer")),
    waits(
        "make -j",
        &["make"],
        "printf 'all: a b\\na b:\\n\\tsleep 300\\n' > Makefile; make -j2",
        Expected::Waiting("timer"),
    ),
    waits("http.server", PYTHON, "/usr/bin/python3 -m http.server 0", Expected::Verdict("serving")),
    waits(
        "node http",
        NODE,
        "node -e 'require(\"http\").createServer().listen(0)'",
        Expected::Verdict("serving"),
    ),
    waits(
        "node http with keys",
        NODE,
        "node -e 'require(\"http\").createServer().listen(0, () => console.log(\"press h + enter\")); process.stdin.on(\"data\", () => {})'",
        Expected::Verdict("serving"),
    ),
    waits(
        "node language server",
        NODE,
        "node -e 'process.stdin.on(\"data\", () => {}); console.log(\"ready\")'",
        Expected::NoInput,
    ),
    waits("node without work", NODE, "node -e 'setTimeout(() => {}, 300000)'", Expected::NoInput),
    waits(
        "accept",
        PYTHON,
        "/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.accept()'",
        Expected::Verdict("serving"),
    ),
    waits(
        "recv",
        PYTHON,
        "/usr/bin/python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname()); c.recv(1)'",
        Expected::Waiting("network"),
    ),
    waits(
        "accept beside a thread that reads",
        PYTHON,
        "/usr/bin/python3 -c 'import socket, sys, threading\n\
         threading.Thread(target=sys.stdin.read, daemon=True).start()\n\
         socket.create_server((\"127.0.0.1\", 0)).accept()'",
        Expected::Verdict("serving"),
    ),
    waits(
        "child beside a thread that reads",
        PYTHON,
        "/usr/bin/python3 -c 'import subprocess, sys, threading\n\
         threading.Thread(target=sys.stdin.read, daemon=True).start()\n\
         subprocess.run([\"sleep\", \"300\"])'",
        Expected::Waiting("timer"),
    ),
    waits(
        "queue.get",
        PYTHON,
        "/usr/bin/python3 -c 'import queue; queue.Queue().get()'",
        Expected::NoInput,
    ),
    waits(
        "multiprocessing",
        PYTHON,
        "/usr/bin/python3 -c 'import multiprocessing, time; p = multiprocessing.Process(target=time.sleep, args=(300,)); p.start(); p.join()'",
        Expected::Waiting("timer"),
    ),
    waits(
        "inotify",
        PYTHON,
        "/usr/bin/python3 -c 'import ctypes, os; c = ctypes.CDLL(None); f = c.inotify_init(); c.inotify_add_watch(f, b\".\", 4095); os.read(f, 99)'",
        Expected::NoInput,
    ),
    waits(
        "select loop on the input",
        PYTHON,
        "/usr/bin/python3 -c 'import select\nwhile True: select.select([0], [], [], .05)'",
        Expected::NoInput,
    ),
    waits("stopped", &[], "kill -STOP $$", Expected::Verdict("stopped")),
    waits(
        "log that looks like a prompt",
        &[],
        "printf '[INFO] Starting: '; sleep 300",
        Expected::Waiting("timer"),
    ),
    waits(
        "question nobody waits for",
        &[],
        "echo 'Continue? (y/n)'; sleep 300",
        Expected::Waiting("timer"),
    ),
];
