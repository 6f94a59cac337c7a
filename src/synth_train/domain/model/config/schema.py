"""JSON Schema of the two kinds of TOML, for editors."""

from __future__ import annotations

from typing import Any

import msgspec

from synth_train.domain.model.config.check import view_of
from synth_train.domain.model.jobs import Kind

_ONE_MODEL = {"not": {"required": ["base", "source"]}}


def json_schema(kind: Kind) -> dict[str, Any]:
    """The schema of configs of `kind`, draft 2020-12, made from the same types as `check`.

    It knows types, bounds and meanings. Like `check`, it requires no key and allows unknown ones.
    """
    (reference,), definitions = msgspec.json.schema_components((view_of(kind),), ref_template="#/$defs/{name}")
    root = definitions.pop(reference["$ref"].rpartition("/")[2])
    if kind is Kind.RL:
        definitions["Model"] |= _ONE_MODEL
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": f"synth-ai {kind.value.upper()} config",
        "$defs": definitions,
    }
