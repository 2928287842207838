"""Documents, ids, file names and errors cannot control the terminal that shows them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.printable import printable, printable_lines

# Clears the screen, a link, a title, the clipboard; carriage return, backspace, 8-bit CSI, DEL; reversed text.
ATTACKS = {
    "clear": "\x1b[2J",
    "link": "\x1b]8;;http://evil\x1b\\",
    "title": "\x1b]0;evil\x07",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "overwrite": "\rkept",
    "backspace": "\x08\x08\x08",
    "csi": "\x9b31m",
    "delete": "\x7f",
    "override": "\u202eevil",
    "isolate": "\u2066evil\u2069",
    "line": "\u2028evil",
    "hidden": "a\u200bb\ufeffc",
}
HOSTILE = "".join(ATTACKS.values())
MARKUP = "[bold red]text[/bold red] [link=http://evil]x[/link] :smile:"
# In file names: no slash, and short.
NAME = "a\x1b[2J\u202e\r\x9b[bold]b.jsonl"
UNSAFE = [*"\x00\x07\x08\r\x7f\x9b\u202e\u2066\u2069\u2028\u200b\ufeff", "\x1b[2J", "\x1b]", "\x1b\\"]


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *arguments]
    # Universal newlines would hide carriage returns.
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    out, err = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
    return subprocess.CompletedProcess(command, done.returncode, out, err)


def assert_harmless(text: str) -> None:
    assert text
    assert [bad for bad in UNSAFE if bad in text] == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("escapes")
    (root / "crawl").mkdir()
    documents = [{"id": f"id-{HOSTILE}", "text": f"{HOSTILE} {MARKUP} short"}, {"id": MARKUP, "text": f"{MARKUP} x"}]
    documents += [{"id": f"d{n}", "text": f"{HOSTILE} {MARKUP} text {n}"} for n in range(20)]
    lines = [json.dumps(document) for document in documents]
    (root / "crawl" / NAME).write_text("\n".join([*lines, "{broken " + HOSTILE]) + "\n")
    done = penstock(root, "curate", "crawl", "clean", "--recipe", "gopher")
    assert done.returncode == 0, done.stderr
    assert_harmless(done.stderr)
    return root


@pytest.mark.parametrize("attack", [*ATTACKS.values(), "\ud800 \udc9b"], ids=[*ATTACKS.keys(), "surrogates"])
def test_control_characters_are_escaped(attack: str) -> None:
    assert_harmless(printable(attack))
    assert printable(attack).encode("utf-8")
    assert "\\" in printable(attack)


def test_ordinary_text_of_any_language_is_unchanged() -> None:
    text = "Grüße, 你好, سلام, שלום, می‌خواهم, 👩‍👩‍👧, é, \\n"  # with joiners, which these need
    assert printable(text) == text
    assert printable_lines("a\n\tb\r") == "a\n\tb\\r"
    assert printable("\udcff") == "\udcff"  # a byte of a file name that is not UTF-8


@pytest.mark.parametrize(
    "arguments",
    [
        ["why", "clean"],
        ["why", "clean", f"id-{HOSTILE}"],
        ["why", "clean", f"{NAME}:0"],
        ["why", "clean", "--dropped-by", "word_count", "--chars", "2000"],
        ["why", "clean", "d1", "--json"],
        ["why", "clean", "--dropped-by", "word_count", "--json"],
        ["whatif", "clean", "word_count.min_words=1"],
        ["whatif", "clean", "word_count.min_words=1", "--json"],
        ["preview", "crawl", "--recipe", "gopher"],
        ["plan", "gopher", f"input_path='crawl/{NAME}'", "output_path=x"],
        ["curate", f"absent-{NAME}", "x"],
        ["why", f"absent-{NAME}"],
        [f"command-{NAME}"],
        ["why", "clean", f"--option-{NAME}"],
        ["run", f"absent-{NAME}", "--debug"],
    ],
    ids=lambda words: " ".join(words)[:24].encode("ascii", "replace").decode().replace("\x1b", "?").replace("\r", "?"),
)  # fmt: skip
def test_no_command_prints_control_characters(folder: Path, arguments: list[str]) -> None:
    done = penstock(folder, *arguments)
    assert_harmless(done.stdout + done.stderr)
    refused = any(NAME in word for word in arguments) and arguments[:2] != ["why", "clean"]
    assert refused or done.returncode in (0, 2), done.stderr


def test_markup_in_texts_and_ids_is_printed_literally(folder: Path) -> None:
    shown = penstock(folder, "why", "clean", MARKUP, "--chars", "500").stdout
    assert f"{MARKUP}: dropped by" in shown
    assert f"{MARKUP} x" in shown
    assert "[bold]b.jsonl" in shown


def test_control_characters_of_a_bad_line_are_escaped(folder: Path) -> None:
    shown = penstock(folder, "why", "clean", f"{NAME}:23").stdout
    assert "was set aside by 'jsonl_reader_stage'" in shown
    assert r"{broken \x1b[2J\x1b]8;;http://evil" in shown


def test_json_output_contains_the_exact_text(folder: Path) -> None:
    receipt = json.loads(penstock(folder, "why", "clean", "d1", "--json").stdout)
    assert "\x1b[2J" in receipt["text"]
    assert "\u202eevil" in receipt["text"]


def test_output_to_a_terminal_has_no_more_control_characters_than_to_a_file(tmp_path: Path) -> None:
    """On a real terminal, where progress is drawn in place and texts have colours."""
    (tmp_path / "job.yaml").write_text(
        f"name: {json.dumps(f'job {HOSTILE[:60]}')}\n"
        "executor: {_target_: StreamingExecutor}\n"
        "stages:\n"
        "  - {_target_: JsonlReader, file_paths: crawl}\n"
        f"  - {{_target_: AddId, id_field: id, overwrite: true, name: {json.dumps(f'[b]s[/b] {HOSTILE[:60]}')}}}\n"
        "  - {_target_: JsonlWriter, path: clean}\n"
    )
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / NAME).write_text(json.dumps({"text": HOSTILE}) + "\n")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", "job.yaml"], cwd=tmp_path, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side was closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert process.wait(60) == 0, seen
    text = seen.decode("utf-8", "replace")
    assert "\x1b[" in text, "no terminal"
    for attack in ("\x1b[2J", "\x1b]", "evil\x07", "\u202e", "\x9b", "\u2066"):
        assert attack not in text
    assert "[b]s[/b]" in text
