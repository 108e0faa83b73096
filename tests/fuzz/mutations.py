"""What can go wrong with a message on its way: its values, its text, its bytes."""

import json
import random
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, cast

from tests.fuzz import corpus

_DEEP = re.compile(rb'"DEEP-(\d+)-(.)"')

ODD_VALUES: Sequence[Any] = (
    *(None, True, False, 0, -1, 1.5, 10**30, 2**63, -(2**31), 10**400, 1e308, "", " ", "0", [], {}, [None], {"": None}),
    *(float("nan"), float("inf"), float("-inf")),
    *(
        "\ud800",
        "\udfff\ud800",
        "\x00",
        "a\x00b",
        "\u202e",
        "\ufeff",
        "\u2028",
        "\x1b[31m",
        "__proto__",
        "%s%n",
        "x" * 5000,
    ),
    *("DEEP-30-[", "DEEP-300-[", "DEEP-3000-[", "DEEP-100-{", "DEEP-1000-{"),
)


def mutated(rng: random.Random, *, modern: bool) -> bytes:
    """A message as it may come in, without a line break at its end."""
    tree = deepcopy(corpus.message(rng, modern=modern))
    for _ in range(rng.choice((0, 0, 0, 0, 1, 1, 2, 4))):
        rng.choice(VALUE_MUTATIONS)(rng, tree)
    text = encoded(tree, rng)
    for _ in range(rng.choice((0, 0, 0, 0, 0, 0, 1, 1, 3))):
        text = rng.choice(TEXT_MUTATIONS)(rng, text)
    return text


def encoded(value: object, rng: random.Random) -> bytes:
    said = json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return _DEEP.sub(_nested, said)


def _nested(found: re.Match[bytes]) -> bytes:
    depth = int(found[1])
    return b"[" * depth + b"]" * depth if found[2] == b"[" else b'{"a":' * depth + b"1" + b"}" * depth


def _somewhere(rng: random.Random, tree: dict[str, Any]) -> tuple[Any, Any]:
    """A container in the tree that is not empty, and one of its keys."""
    found: list[tuple[Any, Any]] = []
    left: list[Any] = [tree]
    while left:
        at = left.pop()
        keys: list[Any] = list(cast("dict[str, Any]", at)) if isinstance(at, dict) else list(range(len(at)))
        found += [(at, key) for key in keys]
        left += [at[key] for key in keys if isinstance(at[key], dict | list)]
    return rng.choice(found) if found else ({"id": 0}, "id")


def drop(rng: random.Random, tree: dict[str, Any]) -> None:
    at, key = _somewhere(rng, tree)
    del at[key]


def retype(rng: random.Random, tree: dict[str, Any]) -> None:
    at, key = _somewhere(rng, tree)
    at[key] = deepcopy(rng.choice(ODD_VALUES))


def swap(rng: random.Random, tree: dict[str, Any]) -> None:
    at, key = _somewhere(rng, tree)
    other, its = _somewhere(rng, tree)
    at[key] = deepcopy(other[its])


def rename(rng: random.Random, tree: dict[str, Any]) -> None:
    at, key = _somewhere(rng, tree)
    if isinstance(key, str):
        at[rng.choice((key.upper(), f"{key} ", f"{key}\x00", "__class__", "x" * 2000))] = at[key]


def strange_id(rng: random.Random, tree: dict[str, Any]) -> None:
    tree["id"] = deepcopy(rng.choice(corpus.ODD_IDS))


def strange_meta(rng: random.Random, tree: dict[str, Any]) -> None:
    params = tree.get("params")
    if isinstance(params, dict):
        said = rng.choice((rng.choice(ODD_VALUES), {"progressToken": rng.choice(corpus.ODD_IDS)}, corpus.envelope(rng)))
        cast("dict[str, Any]", params)["_meta"] = deepcopy(said)


def long_text(rng: random.Random, tree: dict[str, Any]) -> None:
    at, key = _somewhere(rng, tree)
    at[key] = rng.choice("xé\x00") * rng.choice((10_000, 100_000) if rng.random() < 0.1 else (300, 3000))


VALUE_MUTATIONS = (drop, retype, retype, swap, rename, strange_id, strange_meta, long_text)


def flip_bits(rng: random.Random, text: bytes) -> bytes:
    flipped = bytearray(text)
    for _ in range(min(len(text), rng.choice((1, 1, 3, 20)))):
        flipped[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def truncate(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def insert_bytes(rng: random.Random, text: bytes) -> bytes:
    at = rng.randrange(len(text) + 1)
    odd = rng.choice(
        (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\n", b"\r", b"\x1a", b'"', b"{", b",", b"\\", b"\\ud800")
    )
    return text[:at] + odd + text[at:]


def repeat_key(rng: random.Random, text: bytes) -> bytes:
    pairs = list(re.finditer(rb'"\w+": ?(?:"[^"\\]*"|\d+)', text))
    if not pairs:
        return text
    pair = rng.choice(pairs)
    other = rng.choice((pair[0], pair[0].split(b":")[0] + b": 7", pair[0].split(b":")[0] + b": null"))
    return text[: pair.start()] + other + b", " + text[pair.start() :]


def concatenate(rng: random.Random, text: bytes) -> bytes:
    return text + rng.choice((b"", b" ", b"\r", b",")) + encoded(corpus.message(rng, modern=rng.random() < 0.5), rng)


def batch(rng: random.Random, text: bytes) -> bytes:
    return b"[" + b",".join([text] * rng.choice((1, 2, 40))) + b"]"


def wrap(rng: random.Random, text: bytes) -> bytes:
    return rng.choice((b"\xef\xbb\xbf%s", b"  %s  ", b"\t%s\r", b'"%s"', b"%s;", b"\x00%s")) % text


def replace_all(rng: random.Random, text: bytes) -> bytes:
    return rng.choice((b"", b"{}", b"[]", b"null", b"0", b'"x"', b"Content-Length: 5", b"\xff" * 20, rng.randbytes(50)))


TEXT_MUTATIONS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    *(flip_bits, flip_bits, truncate, insert_bytes, repeat_key, concatenate, batch, wrap, replace_all),
)
