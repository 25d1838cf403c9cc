"""Counts the records of a crawl of partitions as they become final, for its dashboard."""

from __future__ import annotations

from pathlib import Path

from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.inspect.record_stream import Tail
from crawler.inspect.survey_reader import FinalRecords, SurveyReader
from crawler.job.survey import Survey


class CrawlSurveyReader:
    """``survey`` counts the records of all partitions of the crawl in ``directory``, a piece of one after a piece of
    the other. Belongs to one thread. What a partition has counted for itself is not used: the kept places of several
    surveys cannot be made into those of one."""

    def __init__(self, directory: Path) -> None:
        self.survey = Survey()
        self._directory = directory
        self._readers: dict[Path, SurveyReader] = {}

    @property
    def counted(self) -> None:
        """Nothing is stored of a crawl."""
        return None

    @property
    def is_known(self) -> bool:
        """Whether it is known how far the records of some partition are final."""
        return any(reader.is_known for reader in self._readers.values())

    @property
    def is_complete(self) -> bool:
        """As of a `SurveyReader`."""
        return bool(self._readers) and all(reader.is_complete for reader in self._readers.values())

    @property
    def part(self) -> float:
        """As of a `SurveyReader`."""
        ends = [reader.end or 0 for reader in self._readers.values()]
        if not self.is_known:
            return 0.0
        counted = sum(reader.part * end for reader, end in zip(self._readers.values(), ends, strict=True))
        return counted / sum(ends) if sum(ends) else 1.0

    def step(self) -> None:
        """Count some more records of each partition. Raises what a `SurveyReader` raises."""
        for directory in self._found():
            if directory not in self._readers:
                self._readers[directory] = SurveyReader(directory, Tail(directory).end, self.survey)
        for reader in self._readers.values():
            reader.step()
        if any(reader.survey is not self.survey for reader in self._readers.values()):
            # The records of a partition were replaced: what they told cannot be taken back.
            self.survey, self._readers = Survey(), {}

    def final(self) -> FinalRecords | None:
        """As of a `SurveyReader`; None until it is known of all partitions."""
        found: FinalRecords = []
        for directory in self._found():
            final = SurveyReader(directory, Tail(directory).end).final()
            if final is None:
                return None
            found += final
        return found

    def _found(self) -> list[Path]:
        return [partition.directory for partition in crawl_partitions(self._directory).found]
