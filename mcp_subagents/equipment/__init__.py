"""What a subagent works with: tool servers, capabilities, a workspace, context files, Python tools.

`definitions`, `places` and `soundness` read and judge definitions and load nothing; `kits` makes pydantic-ai toolsets,
capabilities and instructions of them.
"""
