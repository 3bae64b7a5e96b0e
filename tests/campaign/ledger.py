# SPDX-License-Identifier: Apache-2.0
"""What a campaign has done so far: one JSON object a line, appended by each slice, so that a campaign goes on where it was
stopped, and so that sums are counted and not remembered."""
import datetime
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commit():
    """Of the tree, with a "+" where it has changes; "-" outside of a clone."""
    found = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty=+", "--exclude=*"], capture_output=True,
                           text=True, check=False)
    return found.stdout.strip() or "-"


class Ledger:
    def __init__(self, path):
        self.path = pathlib.Path(path)

    def add(self, kind, **figures):
        """The line that is written."""
        line = {"kind": kind, "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", "commit": commit(), **figures}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line

    def lines(self, *kinds):
        """Half a line, of a process that was killed as it wrote, is left out."""
        if not self.path.exists():
            return []
        found = []
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except json.JSONDecodeError:
                continue
            if line["kind"] in kinds:
                found.append(line)
        return found

    def untallied(self, *kinds):
        """The lines of these kinds that no table of the tree has: those after the last "tallied"."""
        found = self.lines(*kinds, "tallied")
        last = max((at for at, line in enumerate(found) if line["kind"] == "tallied"), default=-1)
        return found[last + 1:]
