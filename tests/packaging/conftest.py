"""What is built once for all tests of packaging."""

from pathlib import Path

import pytest
from distributions import Environment, build


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was built from it."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def clean(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it needs, and nothing else."""
    [wheel] = dist.glob("*.whl")
    return Environment.made(tmp_path_factory.mktemp("clean"), str(wheel))
