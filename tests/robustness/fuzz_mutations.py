"""Damage to files: bytes, lines, values in JSON and other text, and safetensors headers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

_WORD = re.compile(rb'"[^"\n]*"|[^\s"<>=,:|\[\]{}]+')
_HEADER_BYTES = 8  # of a safetensors file; they contain the header's length
_MOST_DAMAGE = 4
_DEEP = 100_000
_LONG = 1000  # bytes in a line
_TEXTS = (b"", b"null", b"true", b"-1", b"0", b"1.5", b"1e400", b"NaN", b"Infinity", b"-0", b"[]",
          b"{}", b'""', b'"x"', b"[1]", b'{"a": 1}', b"9223372036854775808", b"1000000000000",
          b"7" * 5000, b'"\\ud800"', b"\xed\xa0\x80", b"\xff", b"\0", b"\xe2\x80\xae",
          b"[" * _DEEP, b'{"a":' * _DEEP, b"a." * 3000 + b"a", b"\r", b"\n", b"\t", b"'", b'"',
          b"&beta;", b"<", b"]]>", b"../../x", b"https://example.org/x")
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 0.5, 1e308, float("nan"), float("inf"), 2**31, 2**63, 10**12,
    "", "x", "\ud800", "\0", "a\nb", "0", "é", [], {}, [[]], [None], [0], ["x"], {"x": 0},
    {"0": "x"}, [1, 2, 3])

Mutation = Callable[[bytes, Random], bytes]


def mutate(content: bytes, rng: Random) -> bytes:
    """Damage a file once or a few times, in ways that suit its format."""
    ways = [_flip, _truncate, _cut_out, _repeat]
    if (length := _header_length(content)) is not None:
        ways = [*ways, _change_header, _change_header, _change_header]
    elif length is None and _is_text(content):
        ways = [*ways, _change_word, _change_word, _change_word, _change_lines, _change_lines]
        if content.lstrip().startswith((b"{", b"[")):
            ways += [_change_json] * 8
    for _ in range(rng.choice((1, 1, 1, 2, _MOST_DAMAGE))):
        content = rng.choice(ways)(content, rng)
    return b"" if rng.random() < 0.005 else content


def _is_text(content: bytes) -> bool:
    return b"\0" not in content[:4096] and content[:2] != b"\x1f\x8b"


def _header_length(content: bytes) -> int | None:
    length = int.from_bytes(content[:_HEADER_BYTES], "little")
    begins = content[_HEADER_BYTES:_HEADER_BYTES + 1] == b"{"
    return length if begins and length <= len(content) else None


def _place(content: bytes, rng: Random) -> int:
    return rng.randrange(len(content) + 1)


def _flip(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(min(len(content), rng.choice((1, 1, 4, 32)))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, rng: Random) -> bytes:
    return content[:_place(content, rng)]


def _cut_out(content: bytes, rng: Random) -> bytes:
    start, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:start] + content[end:]


def _repeat(content: bytes, rng: Random) -> bytes:
    start, end = sorted((_place(content, rng), _place(content, rng)))
    return content[:end] + content[start:end] + content[end:]


def _change_lines(content: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b"\n"]
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[one]
    elif way == 1:
        lines.insert(one, lines[other])
    elif way == 2:
        lines[one], lines[other] = lines[other], lines[one]
    else:
        lines[one] = lines[one] * (1000 if len(lines[one]) < _LONG and rng.random() < 0.5 else 2)
    return b"".join(lines)


def _change_word(content: bytes, rng: Random) -> bytes:
    found = list(_WORD.finditer(content))
    if not found:
        return content
    word = rng.choice(found)
    new = rng.choice((*_TEXTS, rng.choice(found)[0]))
    return content[:word.start()] + new + content[word.end():]


def _change_json(content: bytes, rng: Random) -> bytes:
    """Change a value in a JSON file or in a line of JSON Lines."""
    try:
        return _changed_object(content, rng)
    except (ValueError, RecursionError):
        lines = content.splitlines() or [b""]
        number = rng.randrange(len(lines))
        try:
            lines[number] = _changed_object(lines[number], rng)
        except (ValueError, RecursionError):
            return _change_word(content, rng)
        return b"\n".join(lines) + b"\n"


def _changed_object(content: bytes, rng: Random) -> bytes:
    whole = {"": json.loads(content)}
    holder, key = _descend(whole, rng)
    way = rng.randrange(5)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, dict):
        holder[rng.choice(("x", "", "\ud800", *holder))] = holder.pop(key)
    elif way == 2 and isinstance(holder, list):
        holder.append(holder[key])
    else:
        holder[key] = rng.choice(_VALUES)
    text = json.dumps(whole.get("", rng.choice(_VALUES)), ensure_ascii=rng.random() < 0.8)
    return text.encode("utf-8", "surrogatepass")


def _descend(whole: dict[str, Any], rng: Random) -> tuple[Any, Any]:
    """Choose a value by its container and key; long lists of similar values are rarely entered."""
    holder, key = whole, ""
    while isinstance(value := holder[key], dict | list) and value and rng.random() < 0.85:
        holder = value
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
    return holder, key


def _change_header(content: bytes, rng: Random) -> bytes:
    """Change the header of a safetensors file, and keep its length correct."""
    length = _header_length(content)
    if length is None:
        return _flip(content, rng)
    start, end = _HEADER_BYTES, _HEADER_BYTES + length
    header = rng.choice((_change_json, _change_word))(content[start:end], rng)
    return len(header).to_bytes(_HEADER_BYTES, "little") + header + content[end:]
