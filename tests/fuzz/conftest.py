import pytest

from tests.fuzz.siege import SUMMARIES


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(SUMMARIES, list[str]()):
        terminalreporter.write_line(line)
