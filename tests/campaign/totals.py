# SPDX-License-Identifier: Apache-2.0
"""The sums of campaigns over all builds, a table of README.md. What a build's ledger has beyond them is added by write()."""
import pathlib
import re

README = pathlib.Path(__file__).resolve().parent / "README.md"
ROW = re.compile(r"^\| (\w+) \| ([\d,]+) (\w+) \| ([\d,]+) \| (\d+) \| ([\d-]+) \|$", re.M)


class Totals:
    """Of each campaign: what was done, in the unit of its row, and the slices in which something did not hold."""

    def __init__(self, path=README):
        self.path, self.text = pathlib.Path(path), pathlib.Path(path).read_text(encoding="utf-8")
        self.rows = {row[1]: row for row in ROW.finditer(self.text)}

    def done(self, name):
        return int(self.rows[name][2].replace(",", "")) if name in self.rows else 0

    def faults(self, name):
        return int(self.rows[name][5]) if name in self.rows else 0

    def write(self, sums, date):
        """sums: (done, faults) by name, of those that have grown; every name needs its row."""
        def row_of(row):
            if row[1] not in sums:
                return row[0]
            done, faults = sums.pop(row[1])
            return f"| {row[1]} | {done:,} {row[3]} | {row[4]} | {faults} | {date} |"

        text = ROW.sub(row_of, self.text)
        if sums:
            raise KeyError(f"{self.path} has no row of {', '.join(sums)}")
        self.path.write_text(text, encoding="utf-8")
