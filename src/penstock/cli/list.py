"""``penstock list``: print the reference in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.options import debug_option
from penstock.errors import suggestion
from penstock.monitor.console import stdout_console

if TYPE_CHECKING:
    from penstock.reference.entry import Entry
    from penstock.reference.recipes import RecipeEntry

CATEGORIES = ("filters", "modifiers", "classifiers", "readers", "writers", "stages", "workflows", "recipes")
_NO_CLASSIFIERS = (
    "Penstock has no classifiers yet. To label documents with a model of your own, write a stage: "
    "see 'Write a stage with a model' in the tutorials."
)


@click.command("list")
@click.argument("category", required=False, metavar="[CATEGORY]")
@click.argument("name", required=False, metavar="[NAME]")
@debug_option
def command(category: str | None, name: str | None) -> None:
    """List the filters, readers, recipes and other parts of Penstock, or describe one.

    CATEGORY is filters, modifiers, classifiers, readers, writers, stages, workflows or recipes. NAME is a name from
    that list, or the name shown in tables (word_count).

    \b
    Examples:
      penstock list                           the categories
      penstock list filters                   every filter, one line each
      penstock list filters WordCountFilter   signature, parameters and example
      penstock list recipes fineweb           variables and stages of a recipe
    """
    if category is None:
        _print_categories()
        return
    if category not in CATEGORIES:
        raise click.UsageError(
            f"there is no category '{category}'; there are {', '.join(CATEGORIES)}.{suggestion(category, CATEGORIES)}"
        )
    if category == "recipes":
        _recipes(name)
    elif name is None:
        _print_table(category)
    else:
        _print_entry(_find(category, name))


def _print_categories() -> None:
    from penstock.reference.catalogue import CATEGORIES as TEXTS
    from penstock.reference.catalogue import in_category
    from penstock.reference.recipes import recipe_entries

    rows = [(name, len(in_category(name)), TEXTS[name]) for name in CATEGORIES if name != "recipes"]
    rows.append(("recipes", len(recipe_entries()), "Pipelines as YAML files, for penstock run and penstock curate"))
    for name, count, text in rows:
        click.echo(f"{name:<12} {count:>3}  {text}")
    click.echo("\nType: penstock list CATEGORY [NAME]")


def _print_table(category: str) -> None:
    from penstock.reference.catalogue import in_category

    found = in_category(category)
    if not found and category == "classifiers":
        click.echo(_NO_CLASSIFIERS)
        return
    _print_lines([(entry.name, entry.summary) for entry in found])


def _print_lines(lines: list[tuple[str, str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for name, summary in lines:
        table.add_row(Text(name, "bold"), Text(_plain(summary)))
    stdout_console().print(table)


def _plain(text: str) -> str:
    """Return text without reStructuredText code marks."""
    return text.replace("``", "")


def _find(category: str, name: str) -> Entry:
    from penstock.reference.catalogue import LISTED, entries, in_category

    here = {alias: entry for entry in in_category(category) for alias in (entry.reported_as, entry.name) if alias}
    found = here.get(name) or {alias.lower(): entry for alias, entry in here.items()}.get(name.lower())
    if found is not None:
        return found
    elsewhere = entries().get(name)
    if elsewhere is not None and elsewhere.category in LISTED:
        raise click.UsageError(f"'{name}' is not among the {category}. Type: penstock list {elsewhere.category} {name}")
    raise click.UsageError(
        f"there is no '{name}' among the {category}.{suggestion(name, here)} Type: penstock list {category}"
    )


def _print_entry(entry: Entry) -> None:
    from rich.text import Text

    from penstock.reference.catalogue import see_also
    from penstock.reference.facts import facts

    console = stdout_console()
    console.print(Text(entry.signature, "bold"))
    console.print(Text(f"\n{_plain(entry.summary)}"))
    if entry.docstring.description:
        console.print(Text(f"\n{_plain(entry.docstring.description)}"))
    console.print()
    _print_lines([(label, text) for label, text in facts(entry)])
    if entry.parameters:
        _print_heading("Parameters")
        _print_lines([(_shown_name(one.name, one.annotation, one.default), one.text) for one in entry.parameters])
    if entry.errors:
        _print_heading("Errors")
        _print_lines(entry.errors)
    if entry.example:
        _print_heading("Example")
        click.echo(entry.example)
    others = see_also(entry)
    if others:
        _print_heading("See also")
        console.print(Text(", ".join(other.name for other in others)))


def _shown_name(name: str, annotation: str, default: str | None) -> str:
    return f"{name}: {annotation or 'any'}" + ("" if default is None else f" = {default}")


def _print_heading(title: str) -> None:
    click.echo(f"\n{title}")


def _recipes(name: str | None) -> None:
    from penstock.reference.recipes import recipe_entries

    known = recipe_entries()
    if name is None:
        _print_lines([(entry.name, entry.summary) for entry in known.values()])
    elif name not in known:
        raise click.UsageError(f"there is no recipe '{name}'.{suggestion(name, known)} Type: penstock list recipes")
    else:
        _print_recipe(known[name])


def _print_recipe(entry: RecipeEntry) -> None:
    click.echo(f"{entry.name}: {entry.summary}\n\n{entry.description}\n")
    for line in entry.commands:
        click.echo(f"  {line}")
    _print_heading("Variables")
    _print_lines([(f"{one.name} = {one.default or '(must be set)'}", one.text) for one in entry.variables])
    _print_heading("Stages, in order")
    for number, stage in enumerate(entry.stages, 1):
        click.echo(f"{number:>3}. {stage}")
