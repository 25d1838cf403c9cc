"""The settings of the last run: ``DIR/run.json``.

Commands that inspect a job, or add URLs to it, apply the same scope, user agent and limits as the crawl. The file is
written when a run starts. If it is missing or damaged, the commands use the defaults.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawler.base.disk import Disk, replace_file
from crawler.base.settings.load import SettingsError, as_tables, settings_from
from crawler.base.settings.parts import Settings
from crawler.job.checkpoint.envelope import EnvelopeError, encode_envelope, read_envelope
from crawler.job.identity import read_identity

RUN = "run.json"
MAGIC = "crawler-run"
VERSION = 1
_SECRETS = (("dashboard", "token"), ("notify", "url"))


class LastRun(Struct, frozen=True):
    """``settings`` are those of the last run. If the file is damaged, ``fault`` describes why, and they are the
    defaults with the shaping settings of the job."""

    settings: Settings
    fault: str | None = None


def write_run(disk: Disk, directory: Path, settings: Settings) -> None:
    """Write the settings, without the dashboard's token, the webhook's URL and the headers of sites. Raises OSError."""
    tables = as_tables(settings)
    for table, key in _SECRETS:
        tables[table][key] = None  # other people may read the file
    for site in tables["site"]["tables"]:
        # Headers may contain secrets, and no command needs them.
        site["headers"] = site["headers"] and [f"{line.partition(':')[0]}: (not stored)" for line in site["headers"]]
    places = [[*place, text] for place, text in settings.places.items()]
    stored = encode_envelope(MAGIC, VERSION, {"settings": tables, "places": places})
    replace_file(disk, directory / RUN, stored)


def read_run(directory: Path) -> LastRun:
    """Read the settings of the last run. Raises JobError if the directory contains no job, SettingsError if its shaping
    settings are invalid."""
    shaping = read_identity(directory).shaping
    path = directory / RUN
    try:
        stored = read_envelope(path, MAGIC, VERSION, RUN)
        tables = stored["settings"]
        for table, keys in shaping.items():
            tables[table].update(keys)
        places = {tuple(place): text for *place, text in stored.get("places", ())}
        return LastRun(replace(settings_from(tables, RUN), places=places))
    except FileNotFoundError:
        fault = None
    except (EnvelopeError, SettingsError, OSError) as error:
        fault = str(error)
    except (KeyError, TypeError, AttributeError):
        fault = f"{RUN}: the settings are missing"
    return LastRun(settings_from(shaping, str(directory)), fault)
