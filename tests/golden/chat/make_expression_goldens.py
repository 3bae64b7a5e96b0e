#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the goldens of Jinja2's semantics: what its Python implementation, set up as transformers does for chat templates,
writes for each expression.

Run with a Python that has transformers == 5.24.0 and jinja2 == 3.1.6:
    python3 tests/golden/chat/make_expression_goldens.py
It reads expressions.txt, one template a line, where a line that has neither "{{" nor "{%" is an expression and "\\n" is a line
break; the lines of one section stand below "# section". It writes expressions.json next to itself.
"""

import json
import pathlib

import jinja2
import transformers
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).resolve().parent
REQUIRED_VERSIONS = {"transformers": "5.24.0", "jinja2": "3.1.6"}

VARIABLES = {
    "s": "Hello World", "lower": "abc def", "upper": "ABC", "empty": "", "padded": "  pad \t\n", "digits": "42", "html": "<a href=\"x\">B & 'b'</a>",
    "multi": "one\ntwo\n\nthree", "accents": "Éàß ñ 東京", "long": "The quick brown fox jumps over the lazy dog and runs away from it.",
    "i": 7, "n": -3, "zero": 0, "big": 12345678901234567890, "f": 2.5, "g": -0.1, "whole": 3.0, "yes": True, "no": False, "nothing": None,
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "mixed": [1, "a", None, 2.5, True], "nested": [[1, 2], [3], []], "none_list": [],
    "d": {"b": 1, "a": 2, "C": 3}, "deep": {"x": {"y": {"z": 5}}, "items": "own", "l": [1, 2]}, "none_dict": {},
    "people": [{"name": "Ann", "age": 30, "town": "Kiel"}, {"name": "bob", "age": 25, "town": "Bonn"}, {"name": "Cy", "age": 30, "town": "Kiel"}],
    "gaps": [{"name": "x", "v": 1}, {"name": "y"}, {"name": None, "v": 0}],
}


def template_of(line):
    line = line.replace("\\n", "\n")
    return line if "{{" in line or "{%" in line else "{{ " + line + " }}"


def outcome(template):
    try:
        return {"text": chat_template_utils._compile_jinja_template(template).render(**VARIABLES)}
    except Exception as error:  # whatever Python raises is a failure of the template
        return {"fails": type(error).__name__}


def main():
    found = {"transformers": transformers.__version__, "jinja2": jinja2.__version__}
    if found != REQUIRED_VERSIONS:
        raise SystemExit(f"these goldens are of {REQUIRED_VERSIONS}; this Python has {found}")
    sections = {}
    for line in (HERE / "expressions.txt").read_text().splitlines():
        if line.startswith("# "):
            cases = sections.setdefault(line[2:], [])
        elif line:
            template = template_of(line)
            cases.append({"template": template, **outcome(template)})
    golden = {"variables": VARIABLES, "sections": sections}
    (HERE / "expressions.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
