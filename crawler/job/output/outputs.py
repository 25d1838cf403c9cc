"""The outputs of a job: ``pages.jsonl``, and those that were asked for besides.

They are appended to, cut and carried on as one. A part is appended before the record of its page, and the record before
the journal that names both.
"""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from pathlib import Path

from crawler.base.disk import Disk
from crawler.base.settings.parts import OUTPUTS
from crawler.job.output.appended_file import OutputError
from crawler.job.output.body_files import DIRECTORY, BodyFiles
from crawler.job.output.page_files import PageFiles
from crawler.job.output.record_text import disk_size
from crawler.job.output.rotated_files import Form, Head, RotatedFiles, Size
from crawler.job.records import End, Part, Position, encode_ends, file_number, kind_of

FORMS = {
    form.kind: form
    for form in (
        Form(1, "warc", "crawl-", ".warc.gz"),
        Form(2, "links", "links-", ".jsonl"),
        Form(3, "text", "text-", ".jsonl"),
        Form(5, "structured", "structured-", ".jsonl"),
    )
}
assert all(OUTPUTS[form.kind - 1] == form.name for form in FORMS.values())


class Outputs:
    """All outputs, opened for appending. ``pages`` is ``pages.jsonl``."""

    def __init__(
        self, pages: Path, disk: Disk, file_size: int, job: Path | None = None, *, pages_size: int = 0
    ) -> None:
        """``file_size``: bytes from which a further output begins a new file, ``pages_size`` from which the records do,
        0: never. ``job`` is the job directory, if
        ``pages`` is not in it. Raises OSError."""
        self.pages = PageFiles(pages, disk, pages_size)
        self._job = job or pages.parent
        self._disk = disk
        self.bodies = BodyFiles(self._job, disk)
        self._file_size = file_size
        self._further: dict[int, RotatedFiles] = {}
        self.final_text: End | None = None  # of the rows of text that the last generation covers
        try:
            for kind, form in FORMS.items():
                if (self._job / form.name).is_dir():
                    self.of(kind)
        except BaseException:
            self.close()
            raise

    def of(self, kind: int) -> RotatedFiles:
        """The output of that kind, which is in use from now on. Raises OSError."""
        known = self._further.get(kind)
        if known is None:
            known = self._further[kind] = RotatedFiles(self._job, FORMS[kind], self._disk)
        return known

    def begin_with(self, kind: int, head: Head) -> None:
        """Let the files of an output begin with what ``head`` makes of their names."""
        self.of(kind).head = head

    def append(self, part: Part) -> tuple[Position, bytes]:
        """Append a part to its output. Returns its position, and the bytes there: the head of a new file comes first.
        Raises OSError; nothing of it is then written."""
        return self.of(part.kind).append(part.data, self._file_size)

    def append_at(self, file: int, start: int, data: bytes) -> None:
        """Append what another directory has at that place; nothing if it is there already. Raises OSError, OutputError
        if this one does not end there."""
        kind = kind_of(file)
        output: RotatedFiles | PageFiles = self.pages if kind == 0 else self.of(kind)
        end = output.end if isinstance(output, RotatedFiles) else End(file, output.end)
        if End(file, start) < end:
            position = Position(file, start + len(data), len(data), zlib.crc32(data))
            if not output.holds(position):
                raise OutputError(errno.EIO, f"{output} holds something else at {start}")
            return
        output.append_at(file, start, data)

    def holds(self, position: Position) -> bool:
        """Whether the output that the position names holds the record there, byte for byte, and its body."""
        kind = kind_of(position.file)
        if kind == 0:
            line = self.pages.read(position)
            return line is not None and self.bodies.holds(line)
        return kind in FORMS and self.of(kind).holds(position)

    def settle(self) -> None:
        """End what ``holds`` began."""
        for output in self._further.values():
            output.settle()

    @property
    def in_use(self) -> bool:
        """Whether there is an output besides ``pages.jsonl``."""
        return bool(self._further)

    def had(self, name: str) -> bool:
        """Whether the job has kept anything in the output of that name."""
        if name == DIRECTORY:
            return bool(self.bodies.size.files)
        return any(output.form.name == name for output in self.further)

    def end_of(self, name: str) -> End | None:
        """The end of the output of that name; None if the job has kept nothing in it."""
        return next((output.end for output in self.further if output.form.name == name), None)

    @property
    def further(self) -> Iterator[RotatedFiles]:
        """The outputs besides ``pages.jsonl``."""
        yield from self._further.values()

    def ends(self) -> bytes:
        """The ends of the outputs besides ``pages.jsonl``, as the store keeps them."""
        return encode_ends([output.end for output in self._further.values()])

    def sizes(self) -> dict[str, Size]:
        """How large each output is, by its name."""
        further = {output.form.name: output.size for output in self._further.values() if output.size.files}
        if self.bodies.size.files:
            further["bodies"] = self.bodies.size
        return {"pages": self.pages.size} | further

    def look(self) -> None:
        """Raise DisplacedError if a file that is appended to is no longer where it belongs. Raises OSError."""
        for file in self._files():
            file.look()

    def sync(self) -> None:
        """Make what was appended durable. May run in a thread while more is appended; the next call syncs that. Raises
        OSError."""
        for file in self._files():
            file.sync()
        self.bodies.sync()

    def _files(self) -> list[RotatedFiles | PageFiles]:
        # All at once: another output may begin while these are synced in a thread.
        return [*self._further.values(), self.pages]

    def close(self) -> None:
        """Release all files. Writes nothing."""
        for file in self._files():
            file.close()


def sizes_on_disk(pages: Path, bodies: Size) -> dict[str, Size]:
    """How large each output of a job is whose ``pages.jsonl`` this is, by its name. ``bodies``: those that the store
    counts, since nobody could look at all of them. Raises OSError."""
    sizes = {"pages": Size(*disk_size(pages))}
    for form in FORMS.values():
        paths = [form.path(pages.parent, number) for number in form.numbers(pages.parent)]
        if paths:
            sizes[form.name] = Size(len(paths), sum(path.stat().st_size for path in paths))
    return sizes | ({"bodies": bodies} if bodies.files else {})


def empty(kind: int) -> End:
    """The end of an output without files."""
    return End(file_number(kind, 0), 0)
