#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One HTML page of all load tests: a table with a row for each result, and under it the page of each.

Usage: report.py FOLDER [OUTPUT]. FOLDER is what the profiles call OUT, with the results NAME.json and NAME.html of `dunlin load`
there, in the order of their ends; OUTPUT is FOLDER/report.html by default. The page needs nothing else: it can be sent.
Exit status 1 if the folder has no result.
"""
import html
import json
import pathlib
import re
import sys

# Title, key of the result (a.b: of its member), digits after the point.
COLUMNS = (("requests/s", "request_throughput", 1), ("output tokens/s", "output_throughput", 0),
           ("TTFT p50 ms", "median_ttft_ms", 1), ("TTFT p99 ms", "p99_ttft_ms", 1), ("ITL p50 ms", "median_itl_ms", 2),
           ("ITL p99 ms", "p99_itl_ms", 1), ("completed", "completed", 0), ("refused", "refused", 0),
           ("late", "deadline", 0), ("failed", "failed", 0), ("unfinished", "unfinished", 0),
           ("memory grew, MB", "server.growth.rss_bytes", 1), ("KV pages left", "server.after.kv_pages_used", 0))
MEGA = {"server.growth.rss_bytes"}
FAULTS = {"failed", "unfinished", "server.after.kv_pages_used"}  # red where they are not zero
STYLE = """body{font:15px sans-serif;margin:2em auto;max-width:1340px;color:#222}
table{border-collapse:collapse}th,td{border:1px solid #ddd;padding:4px 8px;text-align:right}
th:first-child,td:first-child,td:nth-child(2){text-align:left}td.fault{color:#fff;background:#b00020}
pre{background:#f6f6f6;padding:1em;overflow:auto}svg{border:1px solid #ddd;margin:4px}"""


def value_of(result, key):
    """None where the result has no number there."""
    for part in key.split("."):
        result = result.get(part) if isinstance(result, dict) else None
    return result if isinstance(result, (int, float)) and not isinstance(result, bool) else None


def cell(result, key, digits):
    value = value_of(result, key)
    if value is None:
        return "<td></td>"
    fault = ' class="fault"' if key in FAULTS and value != 0 else ""
    return f"<td{fault}>{value / 1e6 if key in MEGA else value:.{digits}f}</td>"


def offered(result):
    """What the load generator sent, in words."""
    if result.get("max_concurrency") is not None:
        return f"{result['max_concurrency']} at a time"
    rate = value_of(result, "request_rate")
    return "" if rate is None else f"{rate:.1f} requests/s, {result.get('arrivals', '')}"


def results(folder):
    """(name, result) of each result file, the one that ended first first. Other JSON files are left out."""
    found = []
    for path in folder.glob("*.json"):
        try:
            result = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(result, dict) and "request_throughput" in result:
            found.append((path.stat().st_mtime_ns, path.stem, result))
    return [(name, result) for _, name, result in sorted(found, key=lambda row: row[:2])]


def body_of(path):
    """What `dunlin load --report` wrote between <body> and </body>, its heading a level lower; empty without the file."""
    if not path.exists():
        return ""
    match = re.search(r"<body>(.*)</body>", path.read_text(encoding="utf-8"), re.S)
    return re.sub(r"<(/?)h1>", r"<\1h2>", match[1]) if match else ""


def page(folder, rows):
    titles = "".join(f"<th>{html.escape(title)}</th>" for title in ("result", "offered", *(c[0] for c in COLUMNS)))
    table = "".join(
        f'<tr><td><a href="#{html.escape(name)}">{html.escape(name)}</a></td><td>{html.escape(offered(result))}</td>'
        + "".join(cell(result, key, digits) for _, key, digits in COLUMNS) + "</tr>\n" for name, result in rows)
    sections = "".join(f'<section id="{html.escape(name)}">{body_of(folder / (name + ".html"))}</section>\n' for name, _ in rows)
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Load tests</title>\n<style>{STYLE}</style></head>\n'
            f"<body><h1>Load tests</h1>\n<p>Results: {len(rows)}. What each figure means: <code>dunlin load --help</code>.</p>\n"
            f"<table><thead><tr>{titles}</tr></thead><tbody>\n{table}</tbody></table>\n{sections}</body></html>\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    output = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else folder / "report.html"
    rows = results(folder)
    if not rows:
        print(f"report: {folder} has no result of dunlin load", file=sys.stderr)
        return 1
    output.write_text(page(folder, rows), encoding="utf-8")
    print(f"{output}: results: {len(rows)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
