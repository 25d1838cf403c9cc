"""The files for containers, as far as they can be tried without an engine: what they name is there, and what they run
is run here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from crawler.cli import command_parser
from tests.asked import asked, free_port
from tests.base.carrier.redis_server import redis_server
from tests.cluster.chain import Chain
from tests.documents import ROOT
from tests.needs import need
from tests.program import crawler, running, wait_until
from tests.site import Site, tree

FOLDER = ROOT / "config" / "container"
TOKEN = "a-token-of-24-characters"
OWN = {"./seeds.txt", "./dashboard-token"}  # what the user writes


def compose(name: str = "compose.yaml") -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Containerfile, each with its words on one line."""
    text = (FOLDER / "Containerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined)]


def last(word: str) -> str:
    return [rest for name, rest in instructions() if name == word][-1]


@pytest.mark.parametrize("file", ["compose.yaml", "workers.yaml"])
def test_what_compose_mounts_is_there(file: str) -> None:
    services = compose(file)["services"]
    named = set(compose(file)["volumes"])
    for name, service in services.items():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            assert target.startswith("/"), name
            assert source in named or source in OWN or (FOLDER / source).exists(), source
        assert set(service.get("secrets", ())) <= set(compose(file).get("secrets", ()))
        assert set(service.get("depends_on", ())) <= set(services)
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), "nobody else reaches it unless the user says so"


def test_the_image_is_what_compose_and_prometheus_take_it_for() -> None:
    service = compose()["services"]["crawler"]
    (job,) = (volume.split(":")[1] for volume in service["volumes"] if volume.startswith("job:"))
    assert last("VOLUME") == job == last("WORKDIR")
    assert last("USER") == "10001:10001"
    assert last("STOPSIGNAL") == "SIGTERM"
    port = last("EXPOSE")
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    scrape = yaml.safe_load((FOLDER / "prometheus.yml").read_text("utf-8"))["scrape_configs"][0]
    assert scrape["static_configs"] == [{"targets": [f"crawler:{port}"]}]
    own = yaml.safe_load((ROOT / "config" / "prometheus" / "prometheus.yml").read_text("utf-8"))
    assert scrape["job_name"] == own["scrape_configs"][0]["job_name"], "the alerts select it"


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_bytes((FOLDER / "prometheus.yml").read_bytes())
    (tmp_path / "alerts.yml").write_bytes((ROOT / "config" / "prometheus" / "alerts.yml").read_bytes())
    words = [need("promtool", "prometheus"), "check", "config", "--syntax-only", tmp_path / "prometheus.yml"]
    checked = subprocess.run(words, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    assert "1 rule files found" in checked.stdout or "SUCCESS" in checked.stdout


def test_grafana_finds_its_dashboard() -> None:
    provider = yaml.safe_load((FOLDER / "grafana-dashboards.yaml").read_text("utf-8"))["providers"][0]
    mounts = dict(volume.split(":")[:2] for volume in compose()["services"]["grafana"]["volumes"])
    (source,) = (source for source, target in mounts.items() if target == provider["options"]["path"])
    assert json.loads((FOLDER / source / "crawler.json").read_text("utf-8"))["uid"] == "crawler"
    (origin,) = yaml.safe_load((FOLDER / "grafana-datasource.yaml").read_text("utf-8"))["datasources"]
    assert origin["url"] == "http://prometheus:9090"
    assert "prometheus" in compose()["services"]


def _moved(words: list[str], folder: Path, instead: Mapping[str, str]) -> list[str]:
    """The words of a command, with the paths of the container below ``folder`` and other addresses."""
    words = [re.sub(r"\$\{CONTACT:\?[^}]*\}", "you@example.org", word) for word in words]
    words = [re.sub(r"(?<![\w./])/(?=etc|job|run)", f"{folder}/", word) for word in words]
    for address, other in instead.items():
        words = [word.replace(address, other) for word in words]
    return words


def command(folder: Path, port: int) -> list[str]:
    """The command of the crawl, on another port."""
    return _moved(compose()["services"]["crawler"]["command"], folder, {"0.0.0.0:8080": f"127.0.0.1:{port}"})


def test_the_crawl_of_compose_runs_and_the_health_check_tells(tmp_path: Path) -> None:
    (tmp_path / "etc" / "crawler").mkdir(parents=True)
    (tmp_path / "run" / "secrets").mkdir(parents=True)
    (tmp_path / "run" / "secrets" / "dashboard-token").write_text(f"{TOKEN}\n")
    (tmp_path / "etc" / "crawler" / "crawl.toml").write_bytes((ROOT / "config" / "default.toml").read_bytes())
    port = free_port()
    check = json.loads(last("HEALTHCHECK").partition("CMD ")[2])
    check = [sys.executable, *(word.replace(":8080", f":{port}") for word in check[1:])]
    with Site(tree(500), latency=0.05) as site:
        (tmp_path / "etc" / "crawler" / "seeds.txt").write_text(site.url("/") + "\n")
        with running(*command(tmp_path, port), "--allow-private") as process:
            wait_until(lambda: asked(f"http://127.0.0.1:{port}/healthz")[0] == 200, "the crawl is up")
            assert subprocess.run(check, check=False, capture_output=True).returncode == 0
            assert asked(f"http://127.0.0.1:{port}/api/stats")[0] == 401
            status, metrics = asked(f"http://127.0.0.1:{port}/metrics", Host="crawler:8080")
            assert status == 200
            assert b"crawler_state" in metrics
            process.terminate()
            assert process.wait(60) == 130
    assert subprocess.run(check, check=False, capture_output=True).returncode != 0


def test_the_crawl_of_the_workers_of_compose_runs_to_its_end(tmp_path: Path) -> None:
    services = compose("workers.yaml")["services"]
    config = services["redis"]["command"][1]
    assert f"../redis/crawler.conf:{config}:ro" in services["redis"]["volumes"]
    homes = {name: tmp_path / name for name in services if name != "redis"}
    crawl = homes["first"] / "etc" / "crawler"
    crawl.mkdir(parents=True)
    (crawl / "crawl.toml").write_bytes((ROOT / "config" / "default.toml").read_bytes())
    with redis_server(tmp_path / "redis") as server, Chain(9, 20, 0.1) as chain, ExitStack() as stack:
        (crawl / "seeds.txt").write_text("\n".join(chain.seeds) + "\n")
        processes = {}
        for name, home in homes.items():
            store = {"/store": str(tmp_path / "store")}
            words = _moved(services[name]["command"], home, {"redis://redis:6379": server.url, **store})
            more = [] if words[0] == "work" else ["--allow-private", "--delay=0", "--scope=any", "--ignore-robots"]
            processes[name] = stack.enter_context(running(*words, *more))
            wait_until(lambda: server.say("HEXISTS", "crawler:{news:crawl}:values", "settings"), "it has begun")
        check = services["worker-1"]["healthcheck"]["test"][1].replace("/job", f"{homes['worker-1']}/job")
        status = homes["worker-1"] / "job" / "partitions"
        wait_until(lambda: any(status.glob("*/live.json")), "a worker has a partition")
        assert subprocess.run(["sh", "-c", check], check=False).returncode == 0
        for name, process in processes.items():
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, (name, out, err)
    # In the store, because a partition that moved has left its files on the machine where it was.
    shown = crawler("tail", "--all", next(word for word in words if word.startswith("--store=")).partition("=")[2])
    found = Counter(json.loads(line)["url"] for line in shown.out.splitlines())
    assert found == Counter(dict.fromkeys(chain.pages, 1))
    assert all(any((home / "job").glob("partitions/*/pages.jsonl")) for home in homes.values())


def test_the_demo_of_the_image_is_a_command() -> None:
    assert json.loads(last("ENTRYPOINT")) == ["crawler"]
    words = json.loads(last("CMD"))
    arguments = command_parser("demo").parse_args(words)
    assert (arguments.job, arguments.dashboard) == (Path("/job"), "0.0.0.0:8080")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A directory that any user may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_it_runs_as_a_user_of_its_own_who_may_write_to_the_job_alone(open_folder: Path) -> None:
    job = open_folder / "job"
    subprocess.run(["install", "-d", "-o", "10001", "-g", "10001", "-m", "0750", job], check=True)
    user = ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--no-new-privs"]
    words = [sys.executable, "-m", "crawler", "demo", "--once", "--max-pages=3", f"--job={job}", "--dashboard=0"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/job"}
    done = subprocess.run([*user, *words], cwd=job, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path.stat().st_uid for path in job.rglob("*")} == {10001}
