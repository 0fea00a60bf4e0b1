"""Sounds: encoded audio among the bytes of records, recognised by its first bytes.

    recognise(row["audio"])         # Sound("wav", 16000, 1, 2.5, 80044)

Nothing is decoded. Rate, channels and length are at the start of WAV and FLAC files.
"""

from __future__ import annotations

from tensorferry.classes import dataclass


@dataclass(frozen=True)
class Sound:
    """Facts about encoded audio.

    Attributes:
        type: "wav", "flac", "ogg" or "mp3".
        rate: Samples a second; None where that is not at its start.
        channels: The same.
        seconds: How long it lasts; the same.
        nbytes: Number of bytes of the encoded audio.
    """

    type: str
    rate: int | None
    channels: int | None
    seconds: float | None
    nbytes: int


def recognise(data: bytes) -> Sound | None:
    """Facts about audio; None if the bytes are not audio."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _wav(data)
    if data[:4] == b"fLaC" and len(data) >= 26:
        bits = int.from_bytes(data[18:26], "big")  # of the block that always comes first
        rate, channels, samples = bits >> 44, (bits >> 41 & 7) + 1, bits & (1 << 36) - 1
        return Sound("flac", rate, channels, samples / rate if rate else None, len(data))
    if data[:4] == b"OggS":
        return Sound("ogg", None, None, None, len(data))
    # A frame of layer III; two bytes alone would fit too much else.
    is_frame = len(data) > 4 and data[0] == 0xFF and data[1] in (0xFB, 0xFA, 0xF3, 0xF2)
    if data[:3] == b"ID3" or (is_frame and data[2] & 0xF0 not in (0, 0xF0)):
        return Sound("mp3", None, None, None, len(data))
    return None


def _wav(data: bytes) -> Sound:
    if data[12:16] != b"fmt " or len(data) < 36:
        return Sound("wav", None, None, None, len(data))
    channels = int.from_bytes(data[22:24], "little")
    rate = int.from_bytes(data[24:28], "little")
    speed = int.from_bytes(data[28:32], "little")
    seconds = max(len(data) - 44, 0) / speed if speed else None
    return Sound("wav", rate, channels, seconds, len(data))
