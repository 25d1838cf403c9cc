"""The outputs of a job, appended to and made durable at the same time."""

from __future__ import annotations

from pathlib import Path

from crawler.base.disk import RealDisk
from crawler.job.output.outputs import Outputs
from crawler.job.records import Part


def test_an_output_may_begin_while_the_others_are_made_durable(tmp_path: Path) -> None:
    """Durability has a thread of its own. Here the other thread comes in at the worst moment."""
    synced: list[str] = []

    class Disk(RealDisk):
        def sync_directory(self, path: Path) -> None:
            super().sync_directory(path)
            if path.name == "warc":
                outputs.append(Part(2, b"an edge\n"))
            synced.append(path.name)

    outputs = Outputs(tmp_path / "pages.jsonl", Disk(), 100)
    outputs.append(Part(1, b"a capture"))
    outputs.sync()
    assert "links" not in synced
    outputs.sync()
    assert synced[-1] == "links"
    assert outputs.sizes()["links"] == (1, 8)
    outputs.close()
