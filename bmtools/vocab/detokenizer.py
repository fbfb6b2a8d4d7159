"""Texts rebuilt from token ids, with the characters of each token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import numpy as np
from tokenizers import Tokenizer

from bmtools.vocab.tokenizer import token_bytes, unknown_ids

_FRAME = b"\0"
# WordPiece tells where words begin, not where spaces were. Most signs have them on one side.
_NO_SPACE = re.compile(r" (?=[.,;:!?%)\]}])|(?<=[(\[{]) | (?=[-/'\u2019])|(?<=[-/'\u2019]) "
                       r"|(?<=\d [.,]) (?=\d)")
_BYTES = re.compile("[\udc80-\udcff]")  # as Python decodes bytes that are no characters


class Detokenizer:
    """Rebuilds texts from ids; transformers' `decode` does not say which token made what.

    Byte-level BPE gives the text back, SentencePiece what its normalization left of it. WordPiece
    loses spaces: there are none before `.,;:!?%` and closing brackets, behind opening ones,
    around hyphens, slashes and apostrophes and inside of decimal numbers. An uncased vocabulary
    loses case and accents.

    Args:
        backend: made the ids.
        unknown: text of special, unused and unknown tokens.
        replaced: texts of some tokens, by id.
    """

    def __init__(self, backend: Tokenizer, unknown: str,
                 replaced: Mapping[int, str] | None = None) -> None:
        model = json.loads(backend.to_str())["model"]
        self._guesses_spaces = bool(model.get("continuing_subword_prefix"))
        gap = " " * self._guesses_spaces
        pieces = dict.fromkeys(backend.get_vocab().values(), f"{gap}{unknown}".encode())
        pieces |= token_bytes(backend)
        replaced = {**dict.fromkeys(unknown_ids(backend), unknown), **(replaced or {})}
        pieces |= {number: f"{gap}{text}".encode() for number, text in replaced.items()}
        self._pieces = pieces

    def __call__(self, ids: np.ndarray, is_frame: np.ndarray) -> tuple[str, np.ndarray]:
        """Rebuild texts that are framed by special tokens, each of which becomes a NUL.

        Args:
            ids: (tokens,) of all texts, end to end.
            is_frame: (tokens,) bool, the tokens that frame texts.

        Returns:
            the texts, end to end, and (tokens, 2) where each token begins and ends in them; a
            space before a word belongs to it, and a character in parts to each of them.
        """
        pieces = [_FRAME if frame else self._pieces[number]
                  for number, frame in zip(ids.tolist(), is_frame.tolist(), strict=True)]
        text = b"".join(pieces).decode("utf-8", "surrogateescape")
        borders = np.cumsum([0, *map(len, pieces)])
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        sizes = 1 + (codes[:, None] >= (0x80, 0x800, 0x10000)).sum(axis=1)
        sizes[(codes >= 0xDC80) & (codes <= 0xDCFF)] = 1
        characters = np.append(np.arange(len(codes)).repeat(sizes), len(codes))
        spans = np.stack([characters[borders[:-1]], characters[borders[1:] - 1] + 1], axis=1)
        spans[borders[:-1] == borders[1:], 1] = spans[borders[:-1] == borders[1:], 0]
        if self._guesses_spaces:
            gone = [found.start() for found in _NO_SPACE.finditer(text)]
            spans -= np.searchsorted(gone, spans)
            text = _NO_SPACE.sub("", text)
        return _BYTES.sub("\ufffd", text), spans
