#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates texts against schemas.json by Python's jsonschema, which knows nothing of our compiler.

Usage: validate_outputs.py SCHEMAS OUTPUTS. A line of OUTPUTS is {"schema": index, "text": what was generated}. The valid and
invalid texts of SCHEMAS are checked too. Prints the number of valid outputs; exits with 1 if any text is not as it should be.
"""
import json
import sys

import jsonschema


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)
    # Older releases keep it in the module.
    checker = getattr(jsonschema.Draft202012Validator, "FORMAT_CHECKER", None) or jsonschema.draft202012_format_checker
    validators = [jsonschema.Draft202012Validator(case["schema"], format_checker=checker) for case in cases]
    problems = []

    def check(index, text, expected):
        try:
            valid = validators[index].is_valid(json.loads(text))
        except ValueError:
            valid = False
        if valid != expected:
            problems.append(f"schema {index} {json.dumps(cases[index]['schema'])}: {text}")

    for index, case in enumerate(cases):
        for text in case["valid"]:
            check(index, text, True)
        for text in case["invalid"]:
            check(index, text, False)
    count = 0
    with open(sys.argv[2], encoding="utf-8") as file:
        for line in file:
            output = json.loads(line)
            check(output["schema"], output["text"], True)
            count += 1
    print("\n".join(problems[:20]), file=sys.stderr)
    print(count)
    return 1 if problems or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
