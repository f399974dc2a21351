"""Codex: its hooks, its shells, and the wake-up of an idle thread."""

import json
import time

from scenario import expect, scenario


def version(machine):
    return machine.run([machine.host, "--version"]).stdout.split()[-1]


def shell(command):
    """Returns a step that calls the shell tool."""
    return {"tools": [{"name": "exec_command", "input": {"cmd": command}}]}


def program(machine):
    """Returns the path of siding, because a login shell sets its own search path."""
    return machine.root / "bin" / "siding"


END = [{"text": "end of turn"}, {"text": "woken"}]


def install(machine, script):
    port = machine.serve(script)
    directory = machine.home / ".codex"
    directory.mkdir()
    (directory / "config.toml").write_text(f"""\
model = "scripted"
model_provider = "loopback"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[features]
daemon_auto_start = false

[model_providers.loopback]
name = "loopback"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"

[projects."{machine.project}"]
trust_level = "trusted"
""")
    machine.siding("install", "codex")


def headless(machine, script):
    """Runs `codex exec` with a script, and returns the last request to the model."""
    install(machine, script)
    machine.run([machine.host, "exec", "--skip-git-repo-check",
                 "--dangerously-bypass-hook-trust", "go"])
    expect(len(machine.api.requests) > 1, "the host made no second request")
    return machine.api.transcript()


@scenario("guard denies rm -rf /")
def guard(machine):
    told = headless(machine, [shell("rm -rf /"), *END])
    expect("siding guard, rule rm-root" in told, "no denial with the guard's message")


@scenario("its shells are adopted, and a leftover process is named")
def leftover(machine):
    told = headless(machine, [shell("setsid sleep 300 > /dev/null 2>&1 & echo leftover"), *END])
    expect("still runs" in told and "sleep 300" in told, "the process was not named")
    expect(any(task["adopted"] for task in machine.tasks()), "no shell was adopted")


@scenario("the end of a background run is reported with a call")
def notice(machine):
    command = f"{program(machine)} run --background -- 'sleep 1; echo built; exit 3'"
    told = headless(machine, [shell(command), shell("sleep 3; echo other"), *END])
    expect("<exit_code>3</exit_code>" in told, "no notice with the exit code")


@scenario("idle terminal: the end of a task wakes the agent")
def woken(machine):
    command = f"{program(machine)} run --background -- 'sleep 6; echo built; exit 3'"
    install(machine, [shell(command), *END])
    terminal = machine.terminal([machine.host, "--dangerously-bypass-hook-trust"])
    try:
        machine.eventually("the prompt", lambda: "Ask Codex" in terminal.screen())
        time.sleep(2)
        terminal.type("go")
        machine.eventually("the turn ends", lambda: "end of turn" in terminal.screen())
        machine.eventually("the agent is woken", lambda: "woken" in terminal.screen())
        told = json.dumps(machine.api.requests[-1])
        expect("<exit_code>3</exit_code>" in told, "woken without the notice")
    finally:
        terminal.close()


@scenario("the MCP server is listed")
def server(machine):
    install(machine, END)
    expect("siding" in machine.run([machine.host, "mcp", "list"]).stdout, "not listed")
