"""Texts, bytes and JSON that are almost right."""

from __future__ import annotations

import re
from random import Random

_WORD = re.compile(r'"[^"\n]*"|[A-Za-z_0-9.]+|\s+|.', re.DOTALL)

ODD = (
    "", "0", "-1", "1", "00", "0x10", "1e999", "-1e999", "nan", "inf", "1_0", str(10**20),
    "9" * 400, "x", "ä", "\u202e", "\x00", "\ufffe", "\U0001f4a9", "a" * 5000, "--", "=", "[]",
    "{}", "[", "}", "'", '"', "\\", "\n", "%", "1%", "1KiB", "-1KiB", "1MiB,1", "true", "null",
    "../..", "/dev/null", "*", "h0", "leaf0", "leaf0-spine0", "h0>leaf0:lose=3",
    "spine0:fail,at=1ms",
)  # fmt: skip
"""Values for any place."""


def mutate_text(random: Random, text: str) -> str:
    """A text with some words changed, or cut short."""
    words = _WORD.findall(text)
    for _ in range(random.choice([1, 1, 2, 4, 10])):
        if not words:
            break
        place, other = random.randrange(len(words)), random.randrange(len(words))
        match random.randrange(9):
            case 0:
                del words[place]
            case 1:
                words[place] = random.choice(ODD)
            case 2:
                words.insert(place, random.choice(ODD))
            case 3 | 4:
                words[place] = words[other]
            case 5:
                words.insert(place, words[other])
            case 6:
                begin, end = sorted((place, other))
                words[begin:begin] = words[begin : min(end, begin + 50)]
            case 7:
                number = [index for index, word in enumerate(words) if word.strip().isdigit()]
                if number:
                    place = random.choice(number)
                    value = int(words[place]) + random.choice([-1, 1, 1000, 1 << 31, 1 << 64])
                    words[place] = str(value)
            case 8 if random.random() < 0.3:
                del words[place:]
    return "".join(words)


def mutate_bytes(random: Random, data: bytes) -> bytes:
    """Bytes with some changed, added or missing."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 5, 20])):
        place = random.randrange(len(changed) + 1)
        match random.randrange(5):
            case 0 if place < len(changed):
                changed[place] ^= 1 << random.randrange(8)
            case 1:
                changed[place:place] = random.randbytes(random.choice([1, 2, 8]))
            case 2:
                del changed[place : place + random.choice([1, 1, 2, 50])]
            case 3:
                changed[place : place + 1] = random.choice([b"\x00", b"\xff", b"\x80", b"\x7f"])
            case 4 if random.random() < 0.2:
                del changed[place:]
    return bytes(changed)
