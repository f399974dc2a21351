"""Claude Code: the behavior that docs/claude-code.md describes as observed."""

import json
import os
import shutil
import signal
import time

from scenario import Failed, Skipped, expect, scenario


SLOW = "for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 1; done; exit 3"


def version(machine):
    return machine.run([machine.host, "--version"]).stdout.split()[0]


def bash(command, **more):
    """Returns a step that calls the Bash tool."""
    return {"tools": [{"name": "Bash", "input": {"command": command, "description": "x", **more}}]}


END = [{"text": "end of turn"}, {"text": "woken"}]


def environment(machine, script):
    port = machine.serve(script)
    return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def install(machine, *options):
    machine.siding("install", "claude-code", "--scope", "project", *options)
    approved = {"enabledMcpjsonServers": ["siding"], "hasTrustDialogAccepted": True,
                "hasCompletedProjectOnboarding": True}
    state = {"hasCompletedOnboarding": True, "theme": "dark",
             "customApiKeyResponses": {"approved": ["none"], "rejected": []},
             "projects": {str(machine.project): approved}}
    (machine.home / ".claude.json").write_text(json.dumps(state))


def headless(machine, script, *options, wait=True):
    """Runs `claude -p` with a script, and returns the last request to the model."""
    words = [machine.host, "-p", "go", "--output-format", "json", "--allowedTools",
             "Bash,Monitor,mcp__siding__run", *options]
    settings = environment(machine, script)
    if not wait:
        return machine.start(words, **settings)
    machine.run(words, **settings)
    expect(len(machine.api.requests) > 1, "the host made no second request")
    return machine.api.transcript()


@scenario("guard denies rm -rf /")
def guard(machine):
    install(machine)
    told = headless(machine, [bash("rm -rf /"), *END])
    expect("siding guard, rule rm-root (deny)" in told, "no denial with the guard's message")


@scenario("a leftover process of a command is named")
def leftover(machine):
    install(machine)
    told = headless(machine, [bash("(true; sleep 300) & echo leftover"), *END])
    expect("still runs" in told and "sleep 300" in told, "the process was not named")


@scenario("the end of a background run is reported with a call")
def notice(machine):
    install(machine)
    command = "siding run --background -- 'sleep 1; echo built; exit 3'"
    told = headless(machine, [bash(command), bash("sleep 3; echo other"), *END])
    expect("you will be told when it ends" in told, "the start did not promise a notice")
    expect("<exit_code>3</exit_code>" in told, "no notice with the exit code")


@scenario("a background command has a deadline, with a line in the host's file")
def deadline(machine):
    install(machine)
    settings = {**environment(machine, [bash("sleep 100", run_in_background=True), *END]),
                "SIDING_MAX_ELAPSED": "4s"}
    words = [machine.host, "-p", "go", "--allowedTools", "Bash"]
    machine.run(words, **settings)
    told = machine.api.transcript()
    path = next((word for word in told.replace("<", " ").replace(">", " ").split()
                 if word.rstrip(".").endswith(".output")), None)
    expect(path, "the host named no output file")
    with open(path.rstrip("."), encoding="utf-8") as file:
        expect("[siding] stopped at its deadline of 4s" in file.read(), "no line in the file")


@scenario("a background command that asks a question is reported")
def question(machine):
    install(machine)
    if not shutil.which("script"):
        raise Skipped("script(1) is not installed")
    # In a file, because the guard would ask about this text in a command.
    (machine.project / "ask.sh").write_text('read -p "Remove all of them? [y/N] " x\n')
    # The pipe stays open, so that script(1) passes no end of file to its terminal.
    machine.environment["SIDING_STALL_AFTER"] = "5s"
    ask = "python3 -c 'import time; time.sleep(99)' | script -qec 'bash ask.sh' /dev/null"
    wait = "python3 -c 'import time; time.sleep(12)'"
    process = headless(machine, [bash(ask, run_in_background=True), bash(wait), bash("true"), *END],
                       wait=False)

    def told(machine):
        text = machine.api.transcript()
        return "<status>stalled</status>" in text and "waits for input from a terminal" in text

    machine.eventually("the question is reported", lambda: told(machine))
    os.killpg(process.pid, signal.SIGKILL)


@scenario("zsh: its shells are adopted, and the output contains only the command's")
def zsh(machine):
    install(machine)
    shell = shutil.which("zsh")
    if not shell:
        raise Skipped("zsh is not installed")
    machine.environment["SHELL"] = shell
    told = headless(machine, [bash("true; sleep 3; echo $ZSH_NAME"), *END])
    expect('"content": "zsh"' in told, "the output contains more than the command's")
    expect(any(task["adopted"] for task in machine.tasks()), "no shell was adopted")


@scenario("kill -9 of the host leaves nothing")
def killed(machine):
    install(machine)
    command = "setsid sleep 4711 & (trap '' TERM; sleep 4712) & nohup sleep 4713 & wait"
    process = headless(machine, [bash(command), *END], wait=False)
    machine.eventually("the command runs", lambda: alive("sleep 4711") and alive("sleep 4713"))
    time.sleep(3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    machine.eventually("all processes have exited", lambda: not alive("sleep 471"), 20)


def living(start):
    """Returns the command lines of running processes that begin with `start`."""
    lines = set()
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.startswith(start):
            lines.add(line)
    return lines


def alive(start):
    """Returns whether a process with a command line that begins with `start` runs."""
    return bool(living(start))


def relays():
    """Returns the command lines of sandbox relays. Each contains a socket path of its own."""
    return living("socat UNIX-LISTEN:/tmp/claude-http-")


@scenario("kill -9 of a host with a sandbox leaves nothing, and its command was a task")
def sandboxed(machine):
    if not all(shutil.which(name) for name in ("bwrap", "socat")):
        raise Skipped("bubblewrap and socat are not installed")
    settings = {"sandbox": {"enabled": True, "autoAllowBashIfSandboxed": True}}
    file = machine.project / ".claude" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(settings))
    install(machine)
    script = [bash("echo S=$SIDING_SESSION; sleep 4721", run_in_background=True),
              bash("true; sleep 4722"), *END]
    others = relays()
    process = headless(machine, script, wait=False)

    def are_tasks():
        tasks = [task for task in machine.tasks() if task["sandbox"] == "bwrap"]
        return len(tasks) == 2 and all(task["session_id"].startswith("claude-") for task in tasks)

    machine.eventually("both commands are tasks of the session", are_tasks)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    machine.eventually("commands and relay have exited",
                       lambda: not alive("sleep 472") and relays() <= others, 15)


@scenario("siding's MCP tool runs and reports a command")
def mcp(machine):
    install(machine)
    search = {"name": "ToolSearch", "input": {"query": "select:mcp__siding__run"}}
    run = {"name": "mcp__siding__run", "input": {"command": "echo from mcp; exit 4"}}
    told = headless(machine, [{"tools": [search]}, {"tools": [run]}, *END])
    expect("exited 4" in told and "from mcp" in told, "no answer from the tool")


@scenario("budget: a slow command is moved, and the model reads the reason")
def budget(machine):
    install(machine, "--budget", "3s")
    told = headless(machine, [bash(SLOW), bash("echo short"), *END])
    for part in ("within its 3s timeout and was moved to the background", "is siding's budget",
                 "failed with exit code 3"):
        expect(part in told, f"not in the transcript: {part}")


@scenario("budget: sleep first and a shorter timeout are left alone")
def budget_exceptions(machine):
    install(machine, "--budget", "3s")
    script = [bash("sleep 5; echo sle''pt"), bash("true; sleep 10", timeout=2000), *END]
    told = headless(machine, script)
    expect("slept" in told, "a command that begins with sleep was killed")
    expect("within its 2s timeout" in told, "the shorter timeout was changed")


@scenario("budget: a subagent's call is left alone")
def budget_subagent(machine):
    install(machine, "--budget", "2s")
    agent = {"name": "Agent", "input": {"description": "x", "prompt": "do it",
                                        "subagent_type": "general-purpose",
                                        "run_in_background": False}}
    script = [{"tools": [agent]}, bash("true; sleep 4; echo wh''ole"), {"text": "sub is done"}, *END]
    headless(machine, script)
    everything = json.dumps(machine.api.requests)
    expect("whole" in everything, "the subagent's command did not end in the foreground")
    expect("is siding's budget" not in everything, "the subagent's call had a budget")


@scenario("a subagent's call of siding's tool waits for the end")
def subagent_tool(machine):
    install(machine)
    machine.environment["SIDING_BLOCKING_BUDGET"] = "1s"
    agent = {"name": "Agent", "input": {"description": "x", "prompt": "do it",
                                        "subagent_type": "general-purpose",
                                        "run_in_background": False}}
    search = {"name": "ToolSearch", "input": {"query": "select:mcp__siding__run"}}
    run = {"name": "mcp__siding__run", "input": {"command": "sleep 3; echo wh''ole"}}
    script = [{"tools": [agent]}, {"tools": [search]}, {"tools": [run]}, {"text": "sub is done"}, *END]
    headless(machine, script)
    everything = json.dumps(machine.api.requests)
    expect("whole" in everything, "the command did not end within the call")


@scenario("budget: deny rules hold")
def budget_rules(machine):
    install(machine, "--budget", "3s")
    told = headless(machine, [bash("git push"), *END], "--disallowedTools", "Bash(git push:*)")
    expect("has been denied" in told, "a denied command was not denied")


@scenario("host: a long leading sleep is refused")
def sleep_refused(machine):
    install(machine)
    told = headless(machine, [bash("sleep 30; echo x"), *END])
    expect("Blocked: sleep 30" in told, "not refused")


@scenario("host: a monitor is limited, and the agent reads about siding's")
def monitor(machine):
    install(machine)
    search = {"name": "ToolSearch", "input": {"query": "select:Monitor"}}
    watch = {"name": "Monitor", "input": {"command": "echo tick", "description": "ticks",
                                          "timeout_ms": 3600000}}
    told = headless(machine, [{"tools": [search]}, {"tools": [watch]}, *END])
    expect("expires in 10m" in told, "the host's message has changed")
    expect("siding monitor --persistent" in told, "siding's monitor was not named")


@scenario("idle terminal: the end of a task wakes the agent")
def woken(machine):
    install(machine, "--budget", "2s")
    script = [bash("siding run --background -- 'sleep 6; echo built; exit 3'"), *END]
    terminal = machine.terminal([machine.host, "--permission-mode", "default", "--allowedTools",
                                 "Bash"], **environment(machine, script))
    try:
        machine.eventually("the prompt", lambda: "\u276f" in terminal.screen())
        time.sleep(2)
        terminal.type("go")
        machine.eventually("the turn ends", lambda: "end of turn" in terminal.screen())
        machine.eventually("the agent is woken", lambda: "woken" in terminal.screen())
        expect("<exit_code>3</exit_code>" in machine.api.transcript(), "woken without the notice")
    finally:
        terminal.close()


@scenario("uninstall leaves the settings as they were")
def uninstall(machine):
    settings = machine.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{\t"model" : "x" ,\n\n "permissions":{} }'
    settings.write_text(before)
    machine.siding("install", "claude-code", "--scope", "project", "--budget", "15s")
    listed = machine.run([machine.host, "mcp", "list"])
    machine.siding("uninstall", "claude-code", "--scope", "project")
    if settings.read_text() != before:
        raise Failed("settings.json has changed")
    expect("siding" in listed.stdout, "the host does not list the server")
