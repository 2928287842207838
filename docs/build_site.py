"""Build the documentation site: `python docs/build_site.py [TARGET]`, or `make docs`.

The pages of docs/, the generated reference and the navigation are written into build/docs and build/mkdocs.yml. MkDocs
then makes the site from these plain files, without hooks, so that another generator could do the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from penstock.cli.main import cli
from penstock.compat.names import NAMES
from penstock.reference.catalogue import CATEGORIES, entries, in_category, see_also
from penstock.reference.commands import command_help
from penstock.reference.entry import Entry
from penstock.reference.facts import facts
from penstock.reference.recipes import RecipeEntry, recipe_entries

ROOT = Path(__file__).resolve().parents[1]
# Files outside docs/ that pages link to; they become part of the site.
LINKED_FOLDERS = ("examples",)

TITLES = {
    "core": "Pipelines, stages and executors",
    "bases": "Base classes",
    "testing": "Testing stages",
    "sources": "Downloads and extraction",
    "errors": "Errors",
}
# Where a category is explained.
GUIDES = {
    "core": "../how-to/running.md",
    "filters": "../how-to/filters.md",
    "modifiers": "../how-to/text.md",
    "classifiers": "../tutorials/stage-with-a-model.md",
    "readers": "../how-to/reading-and-writing.md",
    "writers": "../how-to/reading-and-writing.md",
    "stages": "../how-to/text.md",
    "sources": "../how-to/extract.md",
    "workflows": "../how-to/dedup.md",
    "bases": "../tutorials/stage-with-a-model.md",
    "testing": "../tutorials/stage-with-a-model.md",
    "errors": "../explanation/failures.md",
}
NEMO_TABLE = "<!-- generated: names of NeMo Curator -->"


def build(target: Path, work: Path) -> None:
    """Write the source of the site into ``work`` and the site itself into ``target``."""
    write_source(work, target)
    # The notice that Material ends in 2027 is not about our pages; docs/decisions/0018 says what then.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(work / "mkdocs.yml"),
    ]
    subprocess.run(command, check=True, env=environment)


def write_source(work: Path, target: Path) -> None:
    """Write all pages and the configuration."""
    source = work / "docs"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for folder in LINKED_FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for path in source.rglob("*.md"):
        path.write_text(_adapted(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name, text in {**reference_pages(), "decisions/index.md": decisions_page()}.items():
        page = source / name
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    decisions = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    _fill(settings["nav"], "Reference", list(reference_pages()))
    _fill(settings["nav"], "Decisions", ["decisions/index.md", *(f"decisions/{name}" for name in decisions)])
    settings |= {"docs_dir": "docs", "site_dir": os.path.relpath(target, work)}
    (work / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")


def _adapted(markdown: str) -> str:
    """Point links at the files that were copied, and insert the generated table."""
    for folder in LINKED_FOLDERS:
        markdown = markdown.replace(f"](../../{folder}/", f"](../{folder}/")
    return markdown.replace(NEMO_TABLE, nemo_table()) if NEMO_TABLE in markdown else markdown


def _fill(nav: Any, title: str, pages: list[str]) -> None:  # noqa: ANN401 - nested lists and dictionaries
    for item in nav if isinstance(nav, list) else []:
        for key, below in item.items() if isinstance(item, dict) else ():
            if key == title:
                item[key] = pages
            else:
                _fill(below, title, pages)


def reference_pages() -> dict[str, str]:
    """Return the pages of the reference by path."""
    pages = {"reference/index.md": _index()}
    for category in CATEGORIES:
        if found := in_category(category):
            pages[f"reference/{category}.md"] = _category_page(category, found)
    pages["reference/recipes.md"] = _recipes_page(list(recipe_entries().values()))
    pages["reference/cli.md"] = _cli_page()
    return pages


def decisions_page() -> str:
    """Return the list of decisions, from the first line of each."""
    lines = ["# Decisions", "", "Why things are as they are, half a page each.", ""]
    for path in sorted((ROOT / "docs/decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title.partition('. ')[2] or title}]({path.name})")
    return "\n".join(lines) + "\n"


def nemo_table() -> str:
    """Return every name of ``nemo_curator`` that Penstock serves, its modules, and the name it has here."""
    modules: dict[str, list[str]] = {}
    for module, names in NAMES.items():
        for name in names:
            modules.setdefault(name, []).append(module)
    lines = ["| NeMo Curator | import from | in Penstock |", "|---|---|---|"]
    for name in sorted(modules, key=str.lower):
        shortest = min(modules[name], key=len)
        home = NAMES[shortest][name].partition(":")[0]
        entry = entries().get(name)
        ours = f"[`{entry.module}`](../reference/{entry.category}.md#{name.lower()})" if entry else f"`{home}`"
        # A long path may break after its dots.
        path = shortest.replace(".", ".<wbr>")
        lines.append(f"| `{name}` | <code>{path}</code> | {ours} |")
    return "\n".join(lines)


def _title(category: str) -> str:
    return TITLES.get(category, category.capitalize())


def _index() -> str:
    lines = [
        "# Reference", "",
        "Every public name, generated from the code. `penstock list` prints the same in a terminal.", "",
        "| page | what it holds | names |", "|---|---|---|",
    ]  # fmt: skip
    for category, text in CATEGORIES.items():
        if found := in_category(category):
            lines.append(f"| [{_title(category)}]({category}.md) | {text} | {len(found)} |")
    lines.append(f"| [Recipes](recipes.md) | Pipelines and workflows as YAML files | {len(recipe_entries())} |")
    lines.append("| [Command line](cli.md) | Every command with its options | |")
    return "\n".join(lines) + "\n"


def _category_page(category: str, found: list[Entry]) -> str:
    lines = [
        f"# {_title(category)}",
        "",
        f"{CATEGORIES[category]}. Guide: [{_guide_title(category)}]({GUIDES[category]}).",
    ]
    lines += ["", "| name | what it does |", "|---|---|"]
    lines += [f"| [`{entry.name}`](#{entry.name.lower()}) | {_cell(entry.summary)} |" for entry in found]
    return "\n".join(lines) + "\n\n" + "\n\n".join("\n".join(_section(entry)) for entry in found) + "\n"


def _guide_title(category: str) -> str:
    path = (ROOT / "docs/reference" / GUIDES[category]).resolve()
    return path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def _section(entry: Entry) -> Iterator[str]:
    yield from (f"## {entry.name}", "", entry.summary, "")
    yield from ("```python", _wrapped(entry), "```", "")
    if entry.docstring.description:
        yield from (_prose(entry.docstring.description), "")
    yield from (f"- **{label}:** {_fact(label, text)}" for label, text in facts(entry))
    yield ""
    if entry.parameters:
        texts = any(one.text for one in entry.parameters)
        yield "| parameter | type | default |" + (" |" if texts else "")
        yield "|---|---|---|" + ("---|" if texts else "")
        for one in entry.parameters:
            row = f"| {_code(one.name)} | {_code(one.annotation or 'Any')} | {_default(one.default)} |"
            yield row + (f" {_cell(one.text)} |" if texts else "")
        yield ""
    if entry.methods and entry.category in ("core", "bases", "testing", "workflows"):
        yield from ("| method | what it does |", "|---|---|")
        yield from (f"| {_code(one.signature)} | {_cell(one.summary)} |" for one in entry.methods)
        yield ""
    if entry.errors:
        yield from ("**Errors**", "")
        yield from (f"- `{error}`: {_cell(text)}" for error, text in entry.errors)
        yield ""
    if entry.example:
        yield from ("**Example**", "", "```pycon", entry.example, "```", "")
    if others := see_also(entry):
        yield "See also: " + ", ".join(_link(entry, other) for other in others)


def _wrapped(entry: Entry) -> str:
    if len(entry.signature) <= 90 or not entry.parameters:
        return entry.signature
    arguments = [one.name if one.default is None else f"{one.name}={one.default}" for one in entry.parameters]
    return f"{entry.name}(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")"


def _link(entry: Entry, other: Entry) -> str:
    page = "" if other.category == entry.category else f"{other.category}.md"
    return f"[`{other.name}`]({page}#{other.name.lower()})"


def _fact(label: str, text: str) -> str:
    return f"`{text}`" if label == "Import" else text


def _prose(text: str) -> str:
    """Turn the two marks of docstrings that Markdown does not know into its own."""
    return re.sub(r"^::\n", "", text, flags=re.MULTILINE)


def _code(text: str) -> str:
    """Return code for a cell of a table, where a vertical bar needs no escape."""
    return f"`{text}`"


def _default(text: str | None) -> str:
    return "required" if text is None else _code(text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _recipes_page(found: list[RecipeEntry]) -> str:
    lines = ["# Recipes", "", "Run one with `penstock run NAME`, or use it in `penstock curate --recipe NAME`.", ""]
    lines += ["| name | what it does |", "|---|---|"]
    lines += [f"| [`{entry.name}`](#{entry.name}) | {_cell(entry.summary)} |" for entry in found]
    for entry in found:
        lines += ["", f"## {entry.name}", "", entry.description, "", "```text", *entry.commands, "```", ""]
        lines += ["| variable | default | |", "|---|---|---|"]
        for one in entry.variables:
            lines.append(f"| {_code(one.name)} | {_default(one.default)} | {_cell(one.text)} |")
        lines += ["", "Stages:", "", *(f"{number}. `{stage}`" for number, stage in enumerate(entry.stages, 1))]
    return "\n".join(lines) + "\n"


def _cli_page() -> str:
    lines = ["# Command line", "", "What `penstock COMMAND --help` prints.", ""]
    for name, text in command_help(cli, "penstock"):
        lines += [f"## {name}", "", "```text", text.strip(), "```", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve(), ROOT / "build")
