"""Zip archives: named members in one file, read lazily and strictly.

    local header | name | extra | data [| descriptor]     for each member
    directory entry | name | extra | comment              for each member again
    [zip64 end | its locator |] end of the directory | comment

The directory at the end lists the members; the local headers repeat most of it. Both must agree,
members must not overlap, and the archive must fill its file from the first byte to the last: bytes
in front of it (as in self-extracting archives) and behind it are refused, because readers differ
in what they make of them. Members are stored (their bytes are handed out in place) or deflated,
with a CRC-32 each. Deflate and checksums run in isal, which releases the GIL.

The directory is read by `tensorferry.codecs.zip.directory`, and archives are written by
`tensorferry.codecs.zip.writer`. Where the bytes come from is `tensorferry.storage`, and what is in
a member is for the formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from isal import igzip_lib, isal_zlib

from tensorferry.budget import Budget
from tensorferry.codecs.compression import BLOCK, CHUNK
from tensorferry.codecs.zip.directory import (
    DESCRIPTOR,
    LOCAL,
    STORED,
    Member,
    Source,
    data_offset,
    find_directory,
    read_directory,
    take,
)
from tensorferry.errors import (
    ChecksumError,
    FerryError,
    FormatError,
    UnsupportedError,
)
from tensorferry.storage.source import Source as Stored

FETCH = 8 << 20
"""How many bytes of a deflated member are fetched at a time when it is streamed."""

START = 8 << 10
"""How much of a deflated member is asked for at a time when its first bytes are wanted."""

LOOK = 12 << 10
"""How much of a remote member is fetched with its local header: the headers of npy files, say."""

LONGEST_DESCRIPTOR = 24

GROUP = 256
"""The local headers of so many remote members are fetched by one plan."""

HIGHEST_RATIO = 1032
"""Deflate's shortest code is two bits, for 258 bytes."""

_INFLATE_ERROR: Any = igzip_lib.IsalError


class Archive:
    """An open archive; `open_archive` makes it.

    Several threads may read it. Folders are left out: the name of a member tells its folder.

    Attributes:
        members: By name, in the order of the directory.
        sound: The names of stored members that were verified.
    """

    def __init__(self, source: Source, members: dict[str, Member], ends: dict[str, int]) -> None:
        self.members = members
        self._source = source
        self._ends = ends  # where the next thing in the file starts
        self._offsets: dict[str, int] = {}
        self.sound: set[str] = set()
        # Where reads are worth planning: bytes in memory or in a mapped file are at hand.
        self._remote = source if isinstance(source, Stored) and source.buffer is None else None
        self._expected: frozenset[str] = frozenset()
        self._budget = source.budget if isinstance(source, Stored) else Budget(source.size or 0)

    def __contains__(self, name: object) -> bool:
        return name in self.members

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def offset(self, name: str) -> int:
        """Where a member's data starts in the file; reads its local header the first time.

        Raises:
            FormatError: The local header does not say what the directory says.
        """
        offset = self._offsets.get(name)
        if offset is None:
            if self._remote is not None and name not in self._expected:
                self._expect_headers(self._remote, name)
            try:
                offset = data_offset(self._source, self.members[name], self._ends[name])
            except FerryError as error:
                raise error.located(path=self._source.path) from None
            self._offsets[name] = offset
        return offset

    def span(self, name: str) -> tuple[int, int]:
        """Where a member lies, from its local header to the start of whatever follows it."""
        return self.members[name].header_offset, self._ends[name]

    def expect(self, names: Iterable[str]) -> None:
        """Says which members will be read next: from a remote archive they come in few requests."""
        if self._remote is not None:
            self._expected = frozenset(names)
            self._remote.expect(self.span(name) for name in self._expected)

    def _expect_headers(self, remote: Stored, first: str) -> None:
        """Plans the reads of local headers, from that of `first` on, and of some data behind them.

        Whoever looks at one member usually looks at the next ones, too.
        """
        names = list(self.members)
        group = names[names.index(first) :][:GROUP]
        self._expected = frozenset(group)
        spans = []
        for name in group:
            start, limit = self.span(name)
            head = LOCAL.size + len(self.members[name].raw_name) + LOOK
            spans.append((start, min(start + head, limit)))
            if self.members[name].flags & DESCRIPTOR:  # which is compared with the header
                spans.append((max(start, limit - LONGEST_DESCRIPTOR), limit))
        remote.expect(spans)

    def read(self, name: str, *, verify: bool = True) -> memoryview:
        """All bytes of a member, and in place if the member is stored.

        They are read-only, unless the source lends its memory.

        Args:
            name: The member.
            verify: Compares the checksum; of bytes in place only once, because whoever has them may
                change them.

        Raises:
            KeyError: There is no such member.
            ChecksumError: It was changed since it was written.
            LimitError: The member, or all that were read, are far larger than what is stored.
            FormatError: Its bytes are not what the directory says.
        """
        member = self.members[name]
        offset = self.offset(name)
        if member.method == STORED:
            data = memoryview(take(self._source, offset, offset + member.size))
            if verify and name not in self.sound:
                if isinstance(self._source, Stored):
                    self._source.check(offset + member.size)
                self._check(member, isal_zlib.crc32(data))
                self.sound.add(name)
            return data
        self._check_budget(member)
        data, position = np.empty(member.size, np.uint8).data, 0
        for block in self._inflated(member, BLOCK, member.stored_size):
            data[position : position + len(block)] = block
            position += len(block)
        if verify:
            self._check(member, isal_zlib.crc32(data))
        return data.toreadonly()

    def blocks(
        self, name: str, *, size: int = BLOCK, verify: bool = True
    ) -> Iterator[bytes | memoryview]:
        """A member's bytes in blocks of at most `size`, in bounded memory.

        The checksum covers the whole member: if it does not fit, all blocks were given out before.

        Raises:
            KeyError, ChecksumError, LimitError, FormatError: As in `read`.
        """
        member = self.members[name]
        if member.method == STORED:
            blocks = self._stored(member, size)
        else:
            self._check_budget(member)
            blocks = self._inflated(member, size, FETCH)
        checksum = 0
        for block in blocks:
            if verify:
                checksum = isal_zlib.crc32(block, checksum)
            yield block
        if verify:
            self._check(member, checksum)

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member, not verified; fewer than `size` only if it has no more."""
        member = self.members[name]
        blocks: Iterator[bytes | memoryview]
        if member.method == STORED:
            blocks = self._stored(member, size)
        else:
            blocks = self._inflated(member, size, START)
        pieces, missing = [], min(size, member.size)
        while missing:
            pieces.append(next(blocks)[:missing])
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def _stored(self, member: Member, size: int) -> Iterator[bytes | memoryview]:
        start = self.offset(member.name)
        stop = start + member.size
        for position in range(start, stop, size):
            yield take(self._source, position, min(position + size, stop))

    def _inflated(self, member: Member, size: int, fetch: int) -> Iterator[bytes]:
        """Blocks of at most `size`; the source is asked for `fetch` bytes at a time."""
        position = self.offset(member.name)
        stop = position + member.stored_size
        fetched = memoryview(b"")
        inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE)
        missing = member.size
        while not inflater.eof:
            chunk: bytes | memoryview = b""
            if inflater.needs_input:
                if not fetched:
                    fetched = self._fetched(position, min(position + fetch, stop))
                chunk, fetched = fetched[:CHUNK], fetched[CHUNK:]
                position += len(chunk)
            try:
                # One byte more than is missing tells a stream that is too long.
                block = inflater.decompress(chunk, min(size, missing + 1))
            except _INFLATE_ERROR as error:
                raise self._wrong(member, f"corrupt deflate stream: {error}", position) from None
            missing -= len(block)
            if missing < 0:
                raise self._wrong(member, f"holds more than the {member.size} bytes it declares")
            if block:
                yield block
            elif position == stop and inflater.needs_input and not inflater.eof:
                # isal may hold output back when it has taken all input: only now there is no more.
                raise self._wrong(member, "its deflate stream does not end", position)
        if missing:
            raise self._wrong(
                member, f"holds {member.size - missing} bytes, declared are {member.size}"
            )
        rest = len(inflater.unused_data) + stop - position
        if rest:
            raise self._wrong(member, f"{rest} bytes follow its deflate stream", stop - rest)

    def _fetched(self, start: int, stop: int) -> memoryview:
        """Stored bytes that are used at once: copied from a mapped file, which may be cut."""
        if isinstance(self._source, Stored) and self._source.mapped is not None:
            return memoryview(self._source.copy(start, min(start + CHUNK, stop)))
        return memoryview(take(self._source, start, stop))

    def _check(self, member: Member, checksum: int) -> None:
        if checksum != member.checksum:
            raise ChecksumError(
                f"member {member.name!r} is corrupt: its checksum is {checksum:#010x}, "
                f"stored {member.checksum:#010x}",
                path=self._source.path,
                offset=self._offsets[member.name],
                hint="the file was damaged: copy or write it again",
            )

    def _check_budget(self, member: Member) -> None:
        """Refuses a member that takes more than it, or all members, may take in memory."""
        self._budget.take(
            member.size,
            what=f"member {member.name!r}",
            key=("member", member.name),
            offset=member.header_offset,
            path=self._source.path,
        )
        if member.size > HIGHEST_RATIO * member.stored_size:
            raise self._wrong(
                member,
                f"declares {member.size} bytes, which {member.stored_size} deflated ones cannot be",
            )

    def _wrong(self, member: Member, what: str, offset: int | None = None) -> FormatError:
        return FormatError(
            f"member {member.name!r}: {what}",
            path=self._source.path,
            offset=member.header_offset if offset is None else offset,
        )


def open_archive(source: Source, *, lazy: bool = False) -> Archive:
    """Reads an archive's directory.

    Args:
        source: The bytes; it must stay open as long as members are read.
        lazy: Reads a local header only when its member is used. In a mapped file the headers cost
            next to nothing; from a store, those of many members come in few requests.

    Raises:
        TruncatedError: The end is missing.
        UnsupportedError: Members are encrypted or compressed by other means than deflate, there
            are several disks, or the source has no size, even when it was asked for bytes.
        FormatError: It is no zip archive, or one that contradicts itself or has names that lead
            elsewhere.
    """
    try:
        if source.size is None:
            source.range(0, 0)  # brings a stream into memory, and then its size is known
        size = source.size
        if size is None:
            raise UnsupportedError(
                "a zip archive is read from its end, which a stream does not have at hand",
                hint="copy it to a file first",
            )
        directory, stop, count = find_directory(source, size)
        members, ends = read_directory(take(source, directory, stop), directory, count)
        archive = Archive(source, members, ends)
    except FerryError as error:
        raise error.located(path=source.path) from None
    if not lazy:
        for name in members:
            archive.offset(name)
    return archive
