"""Lines of a TOML file: held against files that were put together with the lines known."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from crawler.cli.toml_lines import Place, locate
from tests.program import crawler

TRICKY = '''# [no.table]
[a]   # ["no"]
b = [ "x]",   # ]
  """y
] #""", 'z#'
  , [1, 2], {}
]
"q.\\u0062" = 1
c.d = { e = 1, f = [1, 2] }
'lit"' = '# no comment'

[[rules]]
class = 1

  [[ rules ]]
[rules.sub]
x = 1979-05-27 07:32:00 # a date
y = """a"""""
z = \'\'\'
[no]
\'\'\'
w = \'\'\'\'\'quoted\'\'\'\'\'
last = "end"'''


def test_a_file_with_everything_that_could_mislead() -> None:
    tomllib.loads(TRICKY)
    assert locate(TRICKY) == {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "b", 0): 3,
        ("a", "b", 1): 4,
        ("a", "b", 2): 5,
        ("a", "b", 3): 6,
        ("a", "b", 3, 0): 6,
        ("a", "b", 3, 1): 6,
        ("a", "b", 4): 6,
        ("a", "q.b"): 8,
        ("a", "c"): 9,
        ("a", "c", "d"): 9,
        ("a", "c", "d", "e"): 9,
        ("a", "c", "d", "f"): 9,
        ("a", "c", "d", "f", 0): 9,
        ("a", "c", "d", "f", 1): 9,
        ("a", 'lit"'): 10,
        ("rules",): 12,
        ("rules", 0): 12,
        ("rules", 0, "class"): 13,
        ("rules", 1): 15,
        ("rules", 1, "sub"): 16,
        ("rules", 1, "sub", "x"): 17,
        ("rules", 1, "sub", "y"): 18,
        ("rules", 1, "sub", "z"): 19,
        ("rules", 1, "sub", "w"): 22,
        ("rules", 1, "sub", "last"): 23,
    }


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8)
fillers = st.sampled_from(["", "# [a] = 'b'", "   ", '# """', "\t# ]"])
values = st.one_of(
    st.sampled_from(["1", "true", "1e3", "[]", "{}", "[[], [ ] ]", '"#"', "'\"'", '"""\n\n#]"""', "'''\n\"\"\"'''"]),
    texts.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    texts.map(lambda text: "[\n'" + text.replace("'", "") + "', # one\n\n{ a = ']' }\n]"),
)


@given(st.lists(st.tuples(st.sampled_from(["table", "rule", "key", "filler"]), fillers, values), max_size=20))
def test_whatever_stands_between_them_tables_and_keys_are_found(parts: list[tuple[str, str, str]]) -> None:
    lines: list[str] = []
    known: dict[Place, int] = {}
    table: Place = ()
    rules = 0
    for number, (part, filler, value) in enumerate(parts):
        at = len(lines) + 1
        if part == "table":
            table = (f"t{number}",)
            lines.append(f"[t{number}] {filler}")
            known[table] = at
        elif part == "rule":
            table = ("rule", rules)
            rules += 1
            lines.append(f"[[rule]] {filler}")
            known[table] = at
        elif part == "key":
            lines += f"  k{number} = {value} {filler}".split("\n")
            known[(*table, f"k{number}")] = at
        else:
            lines.append(filler)
    text = "\n".join(lines)
    tomllib.loads(text)
    found = locate(text)
    assert {place: found[place] for place in known} == known


def test_what_is_wrong_in_a_file_is_named_with_its_line_and_a_flag_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "seeds").write_text("http://127.0.0.1:1/\n")
    config = tmp_path / "crawl.toml"

    def refused(text: str, *flags: str) -> str:
        config.write_text(text)
        ran = crawler("crawl", tmp_path / "seeds", "--job", tmp_path / "job", "--config", config, *flags)
        assert ran.code == 2
        assert ran.err.count("\n") == 1
        assert not (tmp_path / "job").exists()
        return ran.err

    for text, line, words in [
        ("\n[crawl]\n# one\nconcurency = 3\n", 4, "unknown key crawl.concurency"),
        ("[craw]\n", 1, "unknown table [craw]"),
        ("[crawl]\n\nconcurrency = 'x'\n", 3, "crawl.concurrency must be a whole number"),
        ("[scope]\nexclude = [\n  '*.gif', # ok\n  'ftp://*',\n]\n", 4, "starts with http://"),
        ("[crawl]\nconcurrency = 2\n[politeness]\nper_host = 3\n", 4, "larger than crawl.concurrency"),
        ("[retry]\nmax_wait = 9\n\nfirst_wait = 10\n", 4, "retry.first_wait (10) is larger than retry.max_wait (9)"),
        ("[recrawl]\n\nmin_interval = 1e8\n", 3, "min_interval (1e+08) is larger than recrawl.max_interval"),
        ("[politeness]\n\nsnooze_after = 3\n", 3, "politeness.patience"),
        ("[links]\nmax_url_length = 3\n", 2, "must be at least 16"),
        ("\n[site.x]\nrate = 1\n", 2, "separate [[site]]"),
        ("\n[priority]\nclass = 1\n", 2, "separate [[priority]]"),
    ]:
        err = refused(text)
        assert f"{config}, line {line}: " in err
        assert words in err
    assert "command line, --exclude: scope.exclude 'a b'" in refused("[scope]\nexclude = ['*']\n", "--exclude", "a b")
    assert "command line, --per-host: politeness.per_host" in refused("", "--per-host", "100")
