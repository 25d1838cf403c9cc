"""The outputs of a job: ``pages.jsonl``, and any others that are configured.

All outputs are appended to, truncated and resumed together. A page's part in another output is appended before the
page's record, and the record before the journal entry that refers to both.
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
        """Open the outputs. ``file_size``: bytes at which outputs other than the records start a new file;
        ``pages_size``: bytes at which the records do, 0: never. ``job`` is the job directory, if it is not the parent
        of ``pages``. Raises OSError."""
        self.pages = PageFiles(pages, disk, pages_size)
        self._job = job or pages.parent
        self._disk = disk
        self.bodies = BodyFiles(self._job, disk)
        self._file_size = file_size
        self._further: dict[int, RotatedFiles] = {}
        self.final_text: End | None = None  # end of the extracted texts that the last generation covers
        try:
            for kind, form in FORMS.items():
                if (self._job / form.name).is_dir():
                    self.of(kind)
        except BaseException:
            self.close()
            raise

    def of(self, kind: int) -> RotatedFiles:
        """Return the output of that kind, opening it if necessary. Raises OSError."""
        known = self._further.get(kind)
        if known is None:
            known = self._further[kind] = RotatedFiles(self._job, FORMS[kind], self._disk)
        return known

    def begin_with(self, kind: int, head: Head) -> None:
        """Start each new file of an output with the bytes that ``head`` returns for the file's name."""
        self.of(kind).head = head

    def append(self, part: Part) -> tuple[Position, bytes]:
        """Append a part to its output. Returns the part's position and the bytes written, which include the head of a
        new file.

        Raises OSError; nothing is written then."""
        return self.of(part.kind).append(part.data, self._file_size)

    def append_at(self, file: int, start: int, data: bytes) -> None:
        """Append data copied from the same place in another directory; do nothing if this output already holds it.

        Raises OSError, and OutputError if this output does not end at that place."""
        kind = kind_of(file)
        output: RotatedFiles | PageFiles = self.pages if kind == 0 else self.of(kind)
        end = output.end if isinstance(output, RotatedFiles) else End(file, output.end)
        if End(file, start) < end:
            position = Position(file, start + len(data), len(data), zlib.crc32(data))
            if not output.holds(position):
                raise OutputError(errno.EIO, f"{output} holds other data at {start}")
            return
        output.append_at(file, start, data)

    def holds(self, position: Position) -> bool:
        """True if the output holds exactly the bytes of the record at this position, and the record's body."""
        kind = kind_of(position.file)
        if kind == 0:
            line = self.pages.read(position)
            return line is not None and self.bodies.holds(line)
        return kind in FORMS and self.of(kind).holds(position)

    def settle(self) -> None:
        """Release the files that ``holds`` opened."""
        for output in self._further.values():
            output.settle()

    @property
    def in_use(self) -> bool:
        """True if there is an output in addition to ``pages.jsonl``."""
        return bool(self._further)

    def had(self, name: str) -> bool:
        """True if the job has stored anything in the output of that name."""
        if name == DIRECTORY:
            return bool(self.bodies.size.files)
        return any(output.form.name == name for output in self.further)

    def end_of(self, name: str) -> End | None:
        """Return the end of the output of that name; None if the job has stored nothing in it."""
        return next((output.end for output in self.further if output.form.name == name), None)

    @property
    def further(self) -> Iterator[RotatedFiles]:
        """The outputs in addition to ``pages.jsonl``."""
        yield from self._further.values()

    def ends(self) -> bytes:
        """Return the ends of the outputs in addition to ``pages.jsonl``, encoded for the store."""
        return encode_ends([output.end for output in self._further.values()])

    def sizes(self) -> dict[str, Size]:
        """Return the size of each output by name."""
        further = {output.form.name: output.size for output in self._further.values() if output.size.files}
        if self.bodies.size.files:
            further["bodies"] = self.bodies.size
        return {"pages": self.pages.size} | further

    def look(self) -> None:
        """Check that the files appended to were neither moved nor cut. Raises DisplacedError, OSError."""
        for file in self._files():
            file.look()

    def sync(self) -> None:
        """Make the appended data durable. May run in a thread during further appends, which the next call syncs.

        Raises OSError."""
        for file in self._files():
            file.sync()
        self.bodies.sync()

    def _files(self) -> list[RotatedFiles | PageFiles]:
        # Return a new list: another output may be opened while these files are synced in a thread.
        return [*self._further.values(), self.pages]

    def close(self) -> None:
        """Release all files. Writes nothing."""
        for file in self._files():
            file.close()


def sizes_on_disk(pages: Path, bodies: Size) -> dict[str, Size]:
    """Return the size of each output of the job with this ``pages.jsonl``, by name.

    ``bodies``: the size of the bodies as counted by the store, because scanning them would take too long. Raises
    OSError."""
    sizes = {"pages": Size(*disk_size(pages))}
    for form in FORMS.values():
        paths = [form.path(pages.parent, number) for number in form.numbers(pages.parent)]
        if paths:
            sizes[form.name] = Size(len(paths), sum(path.stat().st_size for path in paths))
    return sizes | ({"bodies": bodies} if bodies.files else {})


def empty(kind: int) -> End:
    """Return the end of an output without files."""
    return End(file_number(kind, 0), 0)
