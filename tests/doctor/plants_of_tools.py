"""Planted among tool servers, and where a server is to listen."""

import socket
import sys

from planting import TOOLBENCH, Ground, Plant, Plants


def equipped(ground: Ground, *args: str, command: str = sys.executable, **more: object) -> None:
    """A subagent with one tool server."""
    server = {"command": command, "args": list(args)}
    ground.configure(mcp_servers={"bench": server}, subagents=[{"name": "a", "mcp_servers": ["bench"], **more}])


def port_taken(ground: Ground) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ground.keep(listener)
    ground.configure(transport="http", port=listener.getsockname()[1])
    ground.names["port"] = listener.getsockname()[1]


TOOLS: Plants = {
    "a tool server whose command is missing": Plant(
        check="tools",
        plant=lambda ground: equipped(ground, command="no-such-program"),
        says="problem bench (a): there is no command 'no-such-program'.",
        fix="Install what has 'no-such-program', or write its full path as `command` of 'bench'.",
    ),
    "a tool server that dies at its start": Plant(
        check="tools",
        plant=lambda ground: equipped(ground, TOOLBENCH, "--broken"),
        says="problem bench (a): could not be started ({python}): Connection closed (exit code 1); it said: "
        "no licence found.",
        fix="Run it by hand and see what it says: cd {home} && {python} {bench} --broken",
        slow=True,
    ),
    "a tool server that does not answer": Plant(
        check="tools",
        plant=lambda ground: equipped(ground, TOOLBENCH, "--mute", str(ground.home / "pid")),
        arguments=("--patience", "2"),
        says="problem bench (a): no answer within 2 seconds.",
        fix="Run it by hand and see what it says: cd {home} && {python} {bench} --mute {home}/pid",
        slow=True,
    ),
    "a tool server that nobody serves": Plant(
        check="tools",
        plant=lambda ground: ground.configure(
            mcp_servers={"far": {"url": "http://127.0.0.1:9/mcp"}}, subagents=[{"name": "a", "mcp_servers": ["far"]}]
        ),
        says="problem far (a): cannot be reached (http://127.0.0.1:9/mcp): Client failed to connect: "
        "All connection attempts failed.",
        fix="Look whether it runs and is reached from here: curl -i 'http://127.0.0.1:9/mcp'",
        slow=True,
    ),
    "a tool that does not exist": Plant(
        check="tools",
        plant=lambda ground: equipped(ground, TOOLBENCH, tools=["bench__ad"]),
        says="problem The subagent 'a' names tools that do not exist: 'bench__ad' (did you mean 'bench__add'?).",
        fix="Mend `tools` or `disallowed_tools` of 'a'.",
        slow=True,
    ),
    "a port that is taken": Plant(
        check="port",
        plant=port_taken,
        says="problem Port {port} on 127.0.0.1 is in use. Choose another one, or 0 for any free one.",
        fix="Write another `port` (or `host`) into subagents.yaml, or end who has it.",
        slow=True,
    ),
    "an address that others could reach": Plant(
        check="port",
        plant=lambda ground: ground.configure(transport="http", host="0.0.0.0", port=0),
        says="problem Cannot listen on '0.0.0.0': other machines could reach it, and anybody there could delegate. "
        "Use 127.0.0.1, ::1 or localhost, or set MCP_SUBAGENTS_TOKEN to a secret that callers must know.",
        fix="Write another `port` (or `host`) into subagents.yaml, or end who has it.",
    ),
}
