"""What a host's model is told about delegating, from the roster and within 2 KB."""

import pytest
from front import host_of, subagent
from mcp import Client, MCPError

from mcp_subagents.config import SubAgentConfig
from mcp_subagents.server.guidance import get_server_instructions

LARGEST = 2_000


def roster(number: int, description: str = "Does one thing well.", name: str = "agent-{}") -> list[SubAgentConfig]:
    return [SubAgentConfig(name=name.format(i), description=description, instructions="") for i in range(number)]


ROSTERS = [
    pytest.param(roster(0), id="nobody"),
    pytest.param(roster(1), id="one"),
    pytest.param(roster(1, "Long. " * 1_000), id="one with a long description"),
    pytest.param(roster(5, "Does this, and that. " * 20), id="five with long descriptions"),
    pytest.param(roster(30), id="30"),
    pytest.param(roster(8, "これは長い説明です。" * 10), id="eight of three bytes a character"),
    pytest.param(roster(30, "これは長い説明です。" * 50), id="30 of three bytes a character"),
    pytest.param(roster(30, "x" * 500, name="name-" * 18 + "{}"), id="30 with long names"),
    pytest.param(roster(1_000), id="1000"),
]


async def delegated(host: Client, **arguments: str) -> str:
    [message] = (await host.get_prompt("delegate", arguments)).messages
    return getattr(message.content, "text", "")


@pytest.mark.parametrize("subagents", ROSTERS)
async def test_guidance_fits_into_2_kb(subagents: list[SubAgentConfig], era: str):
    goal = "Reach the moon."
    # A client that is told the newer version does not ask what the server has to say.
    async with host_of(*subagents, era="legacy" if era == "legacy" else "auto") as host:
        instructions = host.instructions or ""
        prompt = await delegated(host, goal=goal)
    assert len(instructions.encode()) < LARGEST
    assert len(prompt.encode()) - len(goal) < LARGEST
    assert prompt.endswith(f"\n\n## The goal\n\n{goal}")
    for text in (instructions, prompt):
        assert "`task`" in text
        assert "`wait_tasks`" in text
        assert "(no description)" not in text


@pytest.mark.parametrize(
    ("subagents", "words"),
    [
        pytest.param(roster(2), "- **agent-1**: Does one thing well.", id="names and purposes"),
        pytest.param(roster(5, "Does this, and that. " * 20), "- **agent-4**: Does this, and", id="in short"),
        pytest.param(roster(40), "`agent-38`, `agent-39`. subagents://agents says what each is good for.", id="names"),
        pytest.param(roster(1_000), "subagents://agents lists its 1000 subagents.", id="where to look"),
    ],
)
def test_as_much_of_the_roster_is_told_as_there_is_room_for(subagents: list[SubAgentConfig], words: str):
    assert words in get_server_instructions(subagents)


async def test_a_goal_can_be_given_to_one_subagent(era: str):
    async with host_of(subagent(name="reviewer"), subagent(name="researcher"), era=era) as host:
        [prompt] = (await host.list_prompts()).prompts
        text = await delegated(host, goal="Review it.", subagent_type="reviewer")
        with pytest.raises(MCPError, match=r"No subagent is named 'nobody'\. Configured: researcher, reviewer\."):
            await delegated(host, goal="Review it.", subagent_type="nobody")
    assert [(each.name, each.required) for each in prompt.arguments or []] == [("goal", True), ("subagent_type", False)]
    assert "- **reviewer**" in text
    assert "researcher" not in text
