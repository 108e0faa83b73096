"""Every behaviour is tried in both eras of the protocol."""

import pytest


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param
