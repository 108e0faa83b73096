"""What is known of the apps that call us: how long a call may last, and what becomes of one that lasts long."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """How an app treats a call that takes its time."""

    patience: float
    """Seconds that a call may last, with a margin for its way there and back."""
    patience_remote: float | None = None
    """The same over the network, where that differs."""
    notifies: bool = False
    """It moves a long call to the background and tells its model the result: a task id would only make it poll."""

    def bears(self, *, remote: bool) -> float:
        """How long a call of it may last."""
        return self.patience_remote if remote and self.patience_remote is not None else self.patience


UNKNOWN = Host(patience=45)
"""Many apps give up after 60 seconds, whatever progress they are told."""

HOSTS = {
    # Its own limit is a day; it gives up on a silent call after 30 minutes, over the network after 5.
    "claude-code": Host(patience=25 * 60, patience_remote=4.5 * 60, notifies=True),
    # Claude Desktop and claude.ai: 60 seconds have been seen.
    "claude-ai": UNKNOWN,
    "codex": Host(patience=4 * 60),
    "gemini-cli": Host(patience=5 * 60),
    "opencode": Host(patience=25),
    "visual studio code": Host(patience=10 * 60),
}
"""By the beginning of the name that an app gives itself, in lower case."""


def host_named(name: str | None) -> Host:
    """The host that calls itself `name`."""
    given = (name or "").lower()
    return next((host for known, host in HOSTS.items() if given.startswith(known)), UNKNOWN)
