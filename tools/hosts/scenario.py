"""A scratch machine for one scenario: a home, a project, a scripted model, and the host in it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from model_api import ModelApi

SCENARIOS = []
# Timeout of a host in one scenario, in seconds.
HOST_TIMEOUT = 120
# Environment variables that a host inherits. All others are removed, including those of sessions.
PASSED_ON = ("LANG", "LC_ALL", "SHELL", "TERM", "USER")


class Failed(Exception):
    """The observation that differs from the expected one."""


class Skipped(Exception):
    """The reason why a scenario cannot run here."""


def scenario(name):
    """Registers a scenario of the module's host."""

    def register(function):
        host = function.__module__.replace("_", "-")
        SCENARIOS.append((host, name, function))
        return function

    return register


def expect(is_so, what):
    """Fails the scenario unless `is_so` holds."""
    if not is_so:
        raise Failed(what)


class Machine:
    """A scratch machine with siding in its search path."""

    def __init__(self, siding, host):
        self.host = host
        # A short path, because the path of a socket has at most 107 bytes (unix(7)).
        self.root = Path(tempfile.mkdtemp(prefix="sh-", dir="/tmp"))
        self.home, self.project = self.root / "home", self.root / "project"
        for directory in (self.home, self.project, self.root / "bin"):
            directory.mkdir()
        (self.root / "bin" / "siding").symlink_to(siding)
        self.api = None
        self.environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        path = os.pathsep.join([str(self.root / "bin"), os.environ.get("PATH", "/usr/bin:/bin")])
        self.environment.update(HOME=str(self.home), PATH=path)
        self.started = []

    def serve(self, script):
        """Starts the scripted model, and returns its port."""
        self.api = ModelApi(script)
        return self.api.port

    def siding(self, *words, check=True):
        """Runs siding, and returns its output."""
        done = self.run(["siding", *words])
        if check and done.returncode != 0:
            raise Failed(f"siding {' '.join(words)}: code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def tasks(self):
        """Returns all recorded tasks."""
        return json.loads(self.siding("ps", "--all", "--json"))

    def run(self, words, timeout=HOST_TIMEOUT, **environment):
        """Runs a program in the project, and waits for its end."""
        try:
            return subprocess.run(words, cwd=self.project, text=True, stdin=subprocess.DEVNULL,
                                  env={**self.environment, **environment}, capture_output=True,
                                  timeout=timeout, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{words[0]} still ran after {timeout} s") from error

    def start(self, words, **environment):
        """Starts a program in the project, in a session of its own."""
        process = subprocess.Popen(words, cwd=self.project, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**self.environment, **environment}, start_new_session=True)
        self.started.append(process)
        return process

    def terminal(self, words, **environment):
        """Starts a program in a terminal."""
        return Terminal(self, words, {**self.environment, **environment})

    def eventually(self, what, is_so, seconds=60):
        """Waits until `is_so` returns a true value, and returns that."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = is_so()
            if found:
                return found
            time.sleep(0.2)
        raise Failed(f"not within {seconds} s: {what}")

    def close(self, keep):
        """Stops all processes, and removes the directory. With `keep` it stays, with the requests."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for session in self.sessions():
            self.run(["siding", "session", "close", session])
        if self.api:
            if keep:
                (self.root / "requests.json").write_text(json.dumps(self.api.requests, indent=1))
            self.api.close()
        if not keep:
            shutil.rmtree(self.root, ignore_errors=True)

    def sessions(self):
        listed = self.run(["siding", "session", "list", "--json"])
        return [one["session_id"] for one in json.loads(listed.stdout or "[]")]


class Terminal:
    """A program in a terminal of its own tmux server."""

    def __init__(self, machine, words, environment):
        if not shutil.which("tmux"):
            raise Skipped("tmux is not installed")
        self.socket = str(machine.root / "tmux")
        settings = [f"{name}={value}" for name, value in environment.items()]
        self.tmux("new-session", "-d", "-x", "140", "-y", "45", "-c", str(machine.project),
                  "env", "-i", *settings, "TERM=xterm-256color", *map(str, words))

    def tmux(self, *words):
        done = subprocess.run(["tmux", "-S", self.socket, *words], text=True, capture_output=True,
                              check=False)
        return done.stdout

    def screen(self):
        """Returns the text on the screen."""
        return self.tmux("capture-pane", "-p")

    def type(self, text):
        """Types a line and Enter."""
        self.tmux("send-keys", "-l", text)
        # Hosts take text that arrives together with Enter as pasted, and do not submit it.
        time.sleep(0.7)
        self.tmux("send-keys", "Enter")

    def close(self):
        self.tmux("kill-server")
