"""Which scenarios of the conformance suite are run, and which need not pass, with the reason."""

IN_BOTH = [
    *("completion-complete", "dns-rebinding-protection", "json-schema-2020-12", "server-sse-multiple-streams"),
    *("prompts-get-embedded-resource", "prompts-get-simple", "prompts-get-with-args", "prompts-get-with-image"),
    *("prompts-list", "resources-list", "resources-read-binary", "resources-read-text", "resources-templates-read"),
    *("tools-call-audio", "tools-call-embedded-resource", "tools-call-error", "tools-call-image"),
    *("tools-call-mixed-content", "tools-call-simple-text", "tools-call-with-progress", "tools-list"),
]
SCENARIOS = {
    "2025-11-25": [
        *IN_BOTH,
        *("elicitation-sep1034-defaults", "elicitation-sep1330-enums", "logging-set-level", "ping"),
        *("resources-subscribe", "resources-unsubscribe", "server-initialize", "server-session-lifecycle"),
        *("server-sse-polling", "tools-call-elicitation", "tools-call-sampling", "tools-call-with-logging"),
    ],
    "2026-07-28": [
        *IN_BOTH,
        *("caching", "http-custom-header-server-validation", "http-header-validation"),
        *("sep-2164-resource-not-found", "server-stateless"),
        *("input-required-result-basic-elicitation", "input-required-result-basic-list-roots"),
        *("input-required-result-basic-sampling", "input-required-result-capability-check"),
        *("input-required-result-ignore-extra-params", "input-required-result-missing-input-response"),
        *("input-required-result-multi-round", "input-required-result-multiple-input-requests"),
        *("input-required-result-non-tool-request", "input-required-result-request-state"),
        *("input-required-result-result-type", "input-required-result-tampered-state"),
        *("input-required-result-unsupported-methods", "input-required-result-validate-input"),
        *("tasks-capability-negotiation", "tasks-dispatch-and-envelope", "tasks-lifecycle", "tasks-mrtr-composition"),
        *("tasks-mrtr-input", "tasks-request-headers", "tasks-request-state-removal", "tasks-required-task-error"),
        *("tasks-status-notifications", "tasks-wire-fields"),
    ],
}
"""By the revision of the protocol that they are run at: what it requires, and what the suite reports besides."""

EXCEPTIONS = {
    "server-sse-polling": (
        "Optional, and not scored. A stream that breaks is not resumed: its events would have to be kept, and no call "
        "is the only carrier of a result here, so that a client that calls again loses nothing."
    ),
    "tasks-status-notifications": (
        "The suite skips it until it can listen; tests/behaviour/test_notices.py listens for `notifications/tasks`."
    ),
}
"""Scenarios that do not pass, and why that is right."""

NOT_OURS = {
    "sep-2640-skills-directory": "Skills are an extension that we do not offer.",
    "sep-2640-skills-enumeration": "Skills are an extension that we do not offer.",
    "sep-2640-skills-manifest": "Skills are an extension that we do not offer.",
}
"""Scenarios that are not run at all, and why."""
