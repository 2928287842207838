"""A composite stage: one object for the user, several stages for the planner."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from typing import Any

from penstock.core.stage import ProcessingStage, Spec, X, Y
from penstock.errors import suggestion


class CompositeStage(ProcessingStage[X, Y]):
    """A stage that is replaced by others before the run, such as a reader that lists files and then reads them.

    >>> from penstock.text import GopherQuality
    >>> [stage.name for stage in GopherQuality().decompose()][:2]
    ['word_count', 'mean_word_length']
    """

    _settings: dict[str, dict[str, Any]] | None = None

    def decompose(self) -> Sequence[ProcessingStage[Any, Any]]:
        """Return the stages that replace this one, in order. They may be composites too."""
        raise NotImplementedError(f"composite '{self.name}' ({type(self).__name__}) defines no decompose(self).")

    def decompose_and_apply_with(self) -> list[ProcessingStage[Any, Any]]:
        """Return the stages with the settings of ``with_`` applied by stage name."""
        stages = list(self.decompose())
        settings = self._settings or {}
        names = Counter(stage.name for stage in stages)
        for name in settings:
            if name not in names:
                raise ValueError(
                    f"composite '{self.name}' has no stage '{name}' to change; it has "
                    f"{', '.join(repr(known) for known in names)}.{suggestion(name, names)}"
                )
            if names[name] > 1:
                raise ValueError(f"composite '{self.name}' has {names[name]} stages '{name}'; with_() needs one.")
        return [stage.with_(**settings[stage.name]) if stage.name in settings else stage for stage in stages]

    def with_(  # type: ignore[override] # a composite is set by the names of its stages
        self,
        stage_with_dict: dict[str, dict[str, Any]] | None = None,
        **settings: Any,  # noqa: ANN401 - only to be refused
    ) -> CompositeStage[X, Y]:
        """Return a copy with other settings for the stages inside: ``{"stage name": {"resources": …}}``.

        The composite itself is not changed. Settings of an earlier call are kept unless they are set again.
        """
        if settings or stage_with_dict is None:
            names = ", ".join(repr(stage.name) for stage in self.decompose())
            raise TypeError(
                f"composite '{self.name}' stands for the stages {names}; say which one to change: "
                "with_({'stage name': {'resources': Resources(…)}})."
            )
        merged = copy.deepcopy(self._settings or {})
        for name, values in stage_with_dict.items():
            merged.setdefault(name, {}).update(values)
        changed = copy.deepcopy(self)
        changed._settings = merged
        return changed

    def inputs(self) -> Spec | dict[type[Any], Spec]:
        """Return the attributes and columns that the first stage needs."""
        return self.decompose()[0].inputs()

    def outputs(self) -> Spec:
        """Return the attributes and columns that the last stage adds."""
        return self.decompose()[-1].outputs()

    def process(self, task: X) -> Y | list[Y] | None:
        """Refuse: a composite never runs itself."""
        raise RuntimeError(f"composite '{self.name}' does not process tasks; the stages it decomposes into do.")


def expand(stages: Sequence[ProcessingStage[Any, Any]]) -> list[ProcessingStage[Any, Any]]:
    """Return the stages that run: each composite is replaced by the stages it decomposes into."""
    expanded: list[ProcessingStage[Any, Any]] = []
    for stage in stages:
        if isinstance(stage, CompositeStage):
            expanded.extend(expand(stage.decompose_and_apply_with()))
        else:
            expanded.append(stage)
    return expanded
