"""Planted in the configuration, in agent files and in the environment."""

from planting import Ground, Plant, Plants

MENDED = "Mend it in that file, and look again: mcp-subagents doctor"
AGENT = "---\nname: {}\ndescription: Helps.\n{}---\nHelp.\n"


def agents(ground: Ground, name: str, more: str = "") -> None:
    ground.configure(agents="auto")
    ground.put(".claude/agents/helper.md", AGENT.format(name, more))


def vanish(ground: Ground) -> None:
    """Leave the command in a folder that has been deleted."""
    folder = ground.home / "gone"
    folder.mkdir()
    ground.monkeypatch.chdir(folder)
    folder.rmdir()


CONFIGURATION: Plants = {
    "a folder that was deleted under us": Plant(
        check="config",
        plant=vanish,
        says="problem The configuration cannot be read: FileNotFoundError: [Errno 2] No such file or directory",
        fix="Go to a folder that is there, and look again: mcp-subagents doctor",
    ),
    "YAML that is none": Plant(
        check="config",
        plant=lambda ground: ground.put("subagents.yaml", "subagents: [\n"),
        says="problem subagents.yaml:2: not valid YAML: expected the node content, but found '<stream end>'",
        fix=MENDED,
    ),
    "an unknown key": Plant(
        check="config",
        plant=lambda ground: ground.configure(subagents=[{"name": "a", "modle": "x"}]),
        says="problem subagents.yaml:2: subagents[0].modle: unknown key, did you mean 'model'?",
        fix=MENDED,
    ),
    "a file that is not there": Plant(
        check="config",
        plant=lambda ground: None,
        arguments=("--config", "team.yaml"),
        says="problem team.yaml: there is no such file",
        fix="Name a file that is there, with --config or MCP_SUBAGENTS_CONFIG; or neither.",
    ),
    "a variable of ours with nonsense": Plant(
        check="config",
        plant=lambda ground: ground.set("MCP_SUBAGENTS_SYNC_PATIENCE", "long"),
        says="problem MCP_SUBAGENTS_SYNC_PATIENCE: must be a number of seconds, 0 or more, not 'long'",
        fix="Give MCP_SUBAGENTS_SYNC_PATIENCE another value, or do without it: unset MCP_SUBAGENTS_SYNC_PATIENCE",
    ),
    "a store of an unknown kind": Plant(
        check="config",
        plant=lambda ground: None,
        arguments=("--store", "mysql://me@there/db"),
        says="problem --store: there is no store of the kind 'mysql'; use sqlite:///FILE",
        fix="Give --store another value, or leave it out.",
    ),
    "a variable that is not set": Plant(
        check="config",
        plant=lambda ground: ground.configure(
            subagents=[{"name": "a", "mcp_servers": ["issues"]}],
            mcp_servers={"issues": {"command": "issues", "env": {"TOKEN": "${ISSUES_TOKEN}"}}},
        ),
        says="problem subagents.yaml:5: mcp_servers.issues.env.TOKEN: needs the environment variable ISSUES_TOKEN, "
        "which is not set. Set it where mcp-subagents is started, or give a default: ${ISSUES_TOKEN:-...}",
        fix="export ISSUES_TOKEN=... where you start mcp-subagents, or put ISSUES_TOKEN under `env` in your app's "
        "entry for it.",
    ),
    "a tool server that is not defined": Plant(
        check="config",
        plant=lambda ground: ground.configure(subagents=[{"name": "a", "mcp_servers": ["issues"]}]),
        says="problem subagents.yaml:3: subagents[0].mcp_servers[0]: there is no tool server 'issues': none is defined "
        "under the top-level mcp_servers",
        fix=MENDED,
    ),
    "Python tools that nobody has allowed": Plant(
        check="config",
        plant=lambda ground: ground.configure(subagents=[{"name": "a", "python_tools": ["os:getcwd"]}]),
        says="problem subagents.yaml:3: subagents[0].python_tools: The subagent 'a' names `python_tools`, which "
        "run code of this machine in the server; the operator has to allow that (`allow_python_tools: true`, or "
        "create_server(..., allow_python_tools=True)).",
        fix="Write `allow_python_tools: true` into the file, if you trust that code.",
    ),
    "a secret that is written out": Plant(
        check="config",
        plant=lambda ground: ground.configure(
            subagents=[
                {"name": "a", "mcp_servers": [{"issues": {"command": "x", "env": {"TOKEN": "ghp_" + "x1" * 12}}}]}
            ]
        ),
        says="warning the tool server issues of the subagent a has a secret written out, which is stored with "
        "every task; "
        "name a variable in its place: ${VARIABLE}",
        fix="Name a variable in its place, and export that where you start mcp-subagents.",
    ),
    "an agent file with a mistake": Plant(
        check="agents",
        plant=lambda ground: agents(ground, "helper", "tools: {\n"),
        says="problem {home}/.claude/agents/helper.md:5: not valid YAML: expected the node content, but found "
        "'<stream end>'",
        fix=MENDED,
    ),
    "an agent file with something that is not honoured": Plant(
        check="agents",
        plant=lambda ground: agents(ground, "helper", "tools: Bash\n"),
        says="warning {home}/.claude/agents/helper.md:4: tools: Bash: shell and writing are never granted by an agent "
        "file (not honoured)",
        fix="Take it out of the file, or leave it there: nothing else depends on it.",
    ),
}
