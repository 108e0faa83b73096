"""What tests of equipment share."""

from pathlib import Path

import pytest


@pytest.fixture
def project(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project of that user, where the server is started."""
    project = home / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project
