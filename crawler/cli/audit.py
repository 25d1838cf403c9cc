"""``crawler audit DIR ACCESS_LOG...``: finds rule violations by a crawl's requests in access logs."""

from __future__ import annotations

import argparse
import json
import zlib
from pathlib import Path

from crawler.base.printable import printable
from crawler.cli.damaged_job import guarded
from crawler.cli.exit_codes import Exit, UsageError
from crawler.cli.subject import add_subject
from crawler.inspect.audit import audit, read_logs
from crawler.inspect.crawl_partitions import crawl_partitions
from crawler.job.run_settings import read_run


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.description = "Find rule violations by a job's requests in access logs. Exit with 1 if there are any."
    add_subject(parser)
    parser.add_argument("logs", nargs="+", type=Path, metavar="ACCESS_LOG", help="plain, or gzip if named .gz")
    parser.add_argument("--host", metavar="HOST", default="", help="host of lines that name none")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(run=guarded(run))


def run(arguments: argparse.Namespace) -> int:
    jobs = crawl_partitions(arguments.job).jobs
    agent = read_run(jobs[0]).settings.fetch.user_agent
    try:
        logged, unread = read_logs(arguments.logs, agent, arguments.host)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UsageError(f"cannot read the log: {error}") from error
    if unread and not logged:
        # An audit that could read nothing must not pass as clean.
        raise UsageError(f"{unread} lines are in no known format, and no other line has a request by {agent}")
    hosts = list(audit(jobs, logged))
    if arguments.json:
        print(json.dumps({"unread_lines": unread, "hosts": hosts}, indent=2))
    else:
        print(f"{unread} lines in no known format")
        for host in hosts:
            print(", ".join(f"{key} {value}" for key, value in host.items() if key not in ("robots", "violations")))
            for each in host["violations"]:
                line = "no record" if each["record"] is None else f"record {each['record']['line']}"
                print(printable(f"  {each['log']}: {each['rule']}: {each['target']}: {each['why']} ({line})"))
    return Exit.FAILED if any(host["violations"] for host in hosts) else Exit.OK
