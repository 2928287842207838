"""The stages of a run with label, class and parameters; written once per run, as rules.json."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.core.stage import ProcessingStage
from penstock.plan.plan import Plan
from penstock.storage.atomic import atomic_write
from penstock.storage.filesystem import open_input

FOLDER_NAME = "ledger"
FILE_NAME = "rules.json"
# Storage options may hold passwords and have no influence on decisions.
_SECRET = ("storage_options",)
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class StageRule:
    """One stage of the pipeline, under the label that identifies it in the ledger."""

    label: str
    stage: str
    # Module and class of the object that decides (a filter, or the stage itself), and its parameters.
    decider: str
    parameters: dict[str, Any] = field(default_factory=dict)
    # Whether the filter's verdict is inverted.
    invert: bool = False
    # The column that holds the text, if the stage reads one column.
    text_field: str = ""


@dataclass(frozen=True)
class Rules:
    """The stages of a run, by pool and step."""

    pipeline: str
    # For each pool and each step of its workers, the labels of the stages in that step.
    steps: tuple[tuple[tuple[str, ...], ...], ...]
    stages: tuple[StageRule, ...]
    # Columns that may hold a document's id; the first one that a batch has is used.
    id_fields: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """Return the labels of all stages, in order."""
        return [stage.label for stage in self.stages]

    def labels_of(self, pool: int) -> list[str]:
        """Return the labels of the stages of one pool, in order."""
        return [label for step in self.steps[pool] for label in step]

    def __getitem__(self, label: str) -> StageRule:
        """Return the stage with a label."""
        return next(stage for stage in self.stages if stage.label == label)

    def __contains__(self, label: object) -> bool:
        """Return whether a stage has this label."""
        return any(stage.label == label for stage in self.stages)


def rules_of(plan: Plan, id_fields: Sequence[str]) -> Rules:
    """Assign a unique label to every stage of a plan: its name, and a number if an earlier stage has the same name."""
    parts = [[step.parts() for step in pool.steps] for pool in plan.pools]
    seen: Counter[str] = Counter()
    stages: list[StageRule] = []
    steps = []
    for pool in parts:
        labels = []
        for step in pool:
            for part in step:
                seen[part.name] += 1
                label = part.name if seen[part.name] == 1 else f"{part.name}#{seen[part.name]}"
                stages.append(_rule(part, label))
            labels.append(tuple(rule.label for rule in stages[-len(step) :]))
        steps.append(tuple(labels))
    given = [getattr(part, "id_field", None) for pool in parts for step in pool for part in step]
    ids = dict.fromkeys([*id_fields, *(name for name in given if isinstance(name, str))])
    return Rules(plan.pipeline, tuple(steps), tuple(stages), tuple(ids))


def _rule(part: ProcessingStage[Any, Any], label: str) -> StageRule:
    decider = part.decider()
    decides, invert = decider if decider is not None else (part, False)
    text_field = getattr(part, "text_field", "")
    return StageRule(
        label,
        part.name,
        f"{type(decides).__module__}:{type(decides).__qualname__}",
        # The paths that a stage reads or writes have no influence on its decisions.
        plain_parameters(vars(decides)) if part.writes_to() is None and not part.reads_from() else {},
        invert,
        text_field if isinstance(text_field, str) else "",
    )


def plain_parameters(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that can be stored as JSON, without private and secret ones."""
    shown = {key: _plain(value) for key, value in attributes.items() if not key.startswith("_") and key not in _SECRET}
    return {key: value for key, value in shown.items() if value is not ...}


def _plain(value: Any) -> Any:  # noqa: ANN401 - a parameter may be anything
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Mapping):
        return plain_parameters({str(key): part for key, part in value.items()})
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return ... if ... in parts else parts
    return ...


def write_rules(folder: str, rules: Rules, storage_options: dict[str, Any] | None = None) -> None:
    """Write the rules of a run into its ledger."""
    with atomic_write(f"{folder}/{FILE_NAME}", storage_options) as stream:
        stream.write(json.dumps(asdict(rules), indent=1).encode() + b"\n")


def read_rules(folder: str) -> Rules:
    """Read the rules of a run."""
    with open_input(f"{folder}/{FILE_NAME}") as stream:
        data = json.loads(stream.read())
    return Rules(
        data["pipeline"],
        tuple(tuple(tuple(labels) for labels in pool) for pool in data["steps"]),
        tuple(StageRule(**stage) for stage in data["stages"]),
        tuple(data["id_fields"]),
    )
