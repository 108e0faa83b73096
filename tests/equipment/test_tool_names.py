"""What the tools of a tool server are called."""

import pytest

from mcp_subagents.equipment.tool_names import LONGEST_NAME, tool_names


@pytest.mark.parametrize(
    ("tools", "ours"),
    [
        (["get_user", "list"], ["s__get_user", "s__list"]),
        (["get.user"], ["s__get_user"]),
        (["get.user", "get_user"], ["s__get_user_d77646df", "s__get_user"]),
        (["get_user", "get.user"], ["s__get_user", "s__get_user_d77646df"]),
        (["get/user", "get.user"], ["s__get_user_13047134", "s__get_user_d77646df"]),
        (["x", "x"], ["s__x"]),
    ],
    ids=["plain", "odd alone", "odd and plain", "in another order", "both odd", "one twice"],
)
def test_no_tool_takes_the_name_of_another(tools: list[str], ours: list[str]):
    named = tool_names("s", tools)
    assert list(named.items()) == list(zip(ours, dict.fromkeys(tools), strict=True))


def test_long_names_that_differ_at_their_end_stay_apart():
    long = "x" * 100
    named = tool_names("s", [f"{long}.a", f"{long}_a", f"{long}.b"])
    assert len(named) == 3
    assert all(len(name) <= LONGEST_NAME for name in named)
