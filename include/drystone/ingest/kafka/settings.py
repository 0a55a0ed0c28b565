"""Settings of Kafka's clients whose values the environment gives, so that no secret stands in the file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from drystone.errors import UsageError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled(settings: Mapping[str, str], place: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings with each `${NAME}` in a value replaced by that environment variable.

    What a variable holds is taken as it is: nothing in it is replaced again. `place`: where the settings stand in the
    file, for people. Raises UsageError for a variable that is not set; no message ever shows a value.
    """

    def value(name: str, text: str) -> str:
        for variable in _VARIABLE.findall(text):
            if variable not in environment:
                what = f"{place}.{name} takes ${{{variable}}} from the environment, which does not have it."
                raise UsageError(what, "Set it where the job runs: Airflow's workers, or your shell.")
        return _VARIABLE.sub(lambda found: environment[found[1]], text)

    return {name: value(name, text) for name, text in settings.items()}
