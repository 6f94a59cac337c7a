"""Checking a dataset through the real command, and reading what it reports."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cases.harness import KEYS, Ran, Workspace, uploaded
from cases.scripted_server import ScriptedServer, sft


@dataclass(frozen=True)
class Checked:
    """What was said about a file, by `data check` or before an upload."""

    ran: Ran
    errors: dict[int, list[str]] = field(default_factory=dict)
    """Line to what was reported of it, as `path: what`."""
    warnings: dict[int, list[str]] = field(default_factory=dict)
    in_order: list[int] = field(default_factory=list)

    @property
    def paths(self) -> dict[int, set[str]]:
        """Line to the row paths that its errors name."""
        return {line: {said.split(":", 1)[0] for said in all_said} for line, all_said in self.errors.items()}


def read_report(ran: Ran, file: str) -> Checked:
    checked = Checked(ran)
    for said in ran.both.splitlines():
        if found := re.search(rf"(?:^|[\s/]){re.escape(file)}:(\d+): (.*)", said):
            line, what = int(found[1]), found[2]
            into = checked.warnings if re.search(r"\bwarning\b", said, re.IGNORECASE) else checked.errors
            into.setdefault(line, []).append(what)
            checked.in_order.append(line)
    return checked


def check(workspace: Workspace, name: str) -> Checked:
    """Both ways to have a file checked; they must agree, and a file with errors must not be uploaded."""
    path = workspace.put(name)
    workspace.put("common/sft.toml")
    alone = read_report(workspace.run("data", "check", path.name), path.name)
    with ScriptedServer(sft()) as server:
        train = workspace.run(
            "train", "--config", "sft.toml", "--dataset", path.name, "--backend", server.base, "--no-poll", env=KEYS
        )
    reported = read_report(train, path.name)
    assert (reported.errors, reported.warnings) == (alone.errors, alone.warnings)
    assert train.code == alone.ran.code
    if train.code == 0:
        assert uploaded(server.seen("POST /api/files")[0]).content == path.read_bytes(), "changed on its way"
    else:
        assert train.code == 3
        assert server.log == []
    return alone
