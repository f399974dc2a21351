"""Gemini CLI and opencode: only the MCP connection, because their model protocols are not scripted."""

from scenario import expect, scenario


def version(machine):
    return machine.run([machine.host, "--version"]).stdout.split()[-1]


@scenario("gemini: the MCP server connects")
def gemini(machine):
    trusted = machine.home / ".gemini"
    trusted.mkdir()
    (trusted / "trustedFolders.json").write_text(f'{{"{machine.project}": "TRUST_FOLDER"}}')
    machine.siding("install", "gemini")
    listed = machine.run([machine.host, "mcp", "list"])
    expect("siding" in listed.stdout + listed.stderr, "not listed")
    expect("onnected" in listed.stdout + listed.stderr, "not connected")


@scenario("opencode: the MCP server connects")
def opencode(machine):
    machine.siding("install", "opencode")
    listed = machine.run([machine.host, "mcp", "list"])
    expect("siding" in listed.stdout + listed.stderr, "not listed")
