"""Takes secrets out of text that leaves us: error messages, logs, transcripts.

The same text also carries a subagent's prose and code, so a word like `token` alone masks nothing: a value
is masked for its own shape, or for the key in front of it.

Every search is bounded, or ends in what it consumes: the time is linear in the text, whoever wrote it.
"""

import re
from base64 import b64decode
from collections.abc import Sequence
from functools import cache

MASK = "[redacted]"

_KEY = r"""(?i:
      (?:api|access|account|auth|encryption|master|private|secret|signing|subscription)[ _-]?key(?:[ ]provided)?
    | authorization | passphrase | passw(?:or)?d | pwd | secret
    | token(?!["']?[ \t]*[:=][ \t]*\d{1,7}[.]?(?![^\s"'&,;}\])]))   # max_token: 4096 is a count
    | (?<=[?&])(?:key|sig|signature)
    )\\{0,3}["']?"""
_BETWEEN = r"[ \t]*(?:=>|:=|[:=])[ \t]*"
_SCHEME = r"(?i:basic|bearer|digest|key|token)[ ]+"
_VALUE = r"""(?:[^\s"'&,;}\])\\]|\\(?!["']))"""
_OTHER = r"""(?!
      <[^<>]{0,60}> | \{[\w.]{0,60}\} | \[\w{1,60}\]                # a placeholder, or masked already
    | \{\{ | \$\{ | \$[A-Z_][A-Z0-9_]{1,60}+(?!\w) | %[(s]
    | (?:None|null|True|true|False|false|undefined)(?![\w-])
    )"""
_CODE = r"""(?!
      [A-Za-z_][\w.]{0,99}[(\[][^\r\n)\]]{0,99}[)\]]                 # token=get_token()
    | (?:[A-Za-z_]{1,40}[.]){1,6}[A-Za-z_]{1,40}(?![^\s"'&,;}\])])  # token=self.token
    )"""
_RANDOM = rf"(?={_VALUE}{{20}}|{_VALUE}{{0,19}}?\d)"

_SECRETS = (
    # A private key in PEM form, whole
    (
        r"(?s)-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----.*?"
        r"(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|\Z)",
        MASK,
    ),
    # https://user:password@host, https://token@host
    (r"""(?<=://)(?!git@)(?:[^\s/?\#"'<>]+|[^\s/:@?\#]*:[^\s/"'<>]+)@""", f"{MASK}@"),
    # (b'x-api-key', b'…'): headers as clients log them
    (rf"""(\(b?["'][\w-]{{0,40}}?{_KEY},[ ]*b?["'](?:{_SCHEME})?){_OTHER}{_RANDOM}{_VALUE}{{4,}}""", rf"\1{MASK}"),
    # "api_key": "…", password = '…', {\"token\": \"…\"}
    (
        rf"""({_KEY}{_BETWEEN}b?\\{{0,3}}(?P<quote>["'])(?:{_SCHEME})?){_OTHER}(?=[^\s,;)\]}}])"""
        rf"(?:(?:(?!(?P=quote))[^\\\r\n]){{4,}}+(?=\\{{0,3}}(?P=quote))|{_VALUE}{{4,}})",
        rf"\1{MASK}",
    ),
    # OPENAI_API_KEY=…, ?key=…
    (rf"({_KEY}=){_OTHER}{_CODE}(?!{_SCHEME}){_VALUE}{{4,}}", rf"\1{MASK}"),
    # Authorization: Bearer …
    (rf"((?i:authorization){_BETWEEN}{_SCHEME}){_OTHER}{_VALUE}{{4,}}", rf"\1{MASK}"),
    # password: hunter2, x-api-key: …; but "password: required" is prose
    (rf"({_KEY}{_BETWEEN}){_OTHER}{_CODE}{_RANDOM}{_VALUE}{{4,}}", rf"\1{MASK}"),
    # Bearer …
    (rf"\b((?i:bearer)[ ]+){_RANDOM}[A-Za-z0-9._~+/=-]{{8,}}", rf"\1{MASK}"),
    # The shapes of well-known keys
    (
        r"""
        \b(?: sk-(?:[A-Za-z0-9_*-]{20,} | (?=[a-z_-]{0,19}[A-Z0-9*])[A-Za-z0-9_*-]{8,})   # OpenAI, Anthropic, ...
        | (?:gsk_|hf_|pplx-|r8_|xai-)[A-Za-z0-9]{20,} | nvapi-[A-Za-z0-9_-]{20,}
        | AIza[A-Za-z0-9_-]{20,} | ya29\.[A-Za-z0-9_-]{20,} | GOCSPX-[A-Za-z0-9_-]{20,}   # Google
        | (?:AKIA|ASIA)[A-Z0-9]{16}\b                                                     # AWS
        | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | glpat-[A-Za-z0-9_-]{16,}
        | (?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}                                         # Slack
        | (?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?          # JSON web tokens
        )""",
        MASK,
    ),
)
_BASIC = re.compile(r"\b((?i:basic)[ ]+)([A-Za-z0-9+/]{6,}={0,2})")


@cache
def _secrets() -> Sequence[tuple[re.Pattern[str], str]]:
    # Compiled when first needed: a server has something to say before that.
    return [(re.compile(pattern, re.VERBOSE), replacement) for pattern, replacement in _SECRETS]


def redact(text: str) -> str:
    """`text` with keys, tokens, passwords and credentials in URLs masked."""
    for pattern, replacement in _secrets():
        text = pattern.sub(replacement, text)
    return _BASIC.sub(_without_credentials, text)


def _without_credentials(match: re.Match[str]) -> str:
    """`Basic` is a common word: what follows is masked if it is the base64 of `user:password`."""
    scheme, word = match.groups()
    digits = word.rstrip("=")
    decoded = b64decode(digits + "A" * (-len(digits) % 4)).rstrip(b"\0")
    return f"{scheme}{MASK}" if b":" in decoded and decoded.isascii() else match[0]
