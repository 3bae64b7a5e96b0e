# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md is what the kept results give; a new measurement replaces the kept ones of the same work."""

import json
import pathlib
import tempfile
import unittest
from unittest import mock

import goals
import make_benchmarks_page
import results_file
import run_goals
import shortfalls


class PageTest(unittest.TestCase):
    def test_page_and_results_are_current_and_within_their_limits(self):
        self.assertEqual(make_benchmarks_page.problems(make_benchmarks_page.page()), [])

    def test_every_shortfall_has_a_reason(self):
        self.assertNotIn("no reason recorded", make_benchmarks_page.page())

    def test_every_reason_names_a_row(self):
        rows = {goal.get("page_row", goal["name"]) for goal in goals.GOALS}
        rows |= {work for work, _, _ in make_benchmarks_page.peer_works()}
        for path in results_file.FOLDER.glob("*.jsonl"):
            rows |= {figure["script"] for figure in results_file.of(results_file.read(path), "load")}
        self.assertEqual(set(shortfalls.REASONS) - rows, set())

    def test_too_many_lines_and_a_stale_page_are_problems(self):
        found = make_benchmarks_page.problems("x\n" * (make_benchmarks_page.MAX_LINES + 1))
        self.assertEqual(len(found), 2)
        self.assertIn("151 lines; limit is 150", found[0])

    def test_every_kept_line_has_a_known_bench_and_the_machine_comes_first(self):
        for path in results_file.FOLDER.glob("*.jsonl"):
            benches = [record["bench"] for record in results_file.read(path)]
            self.assertEqual((benches[0], benches.count("machine")), ("machine", 1), path)
            self.assertLessEqual(set(benches), {"machine", "goals", "peers", "load"}, path)


class ResultsFileTest(unittest.TestCase):
    def test_a_reduced_record_is_judged_alike(self):
        record = {"op": "gemm", "case": "gemv", "backend": None, "precision": "bf16", "shape": [1, 768, 768], "threads": 1,
                  "median_us": 10.0, "roofline_ratio": 0.9, "paired_ratio": 0.95, "output_sha256": "0", "roof": "dram_read",
                  "roofs": {"before": {"fp32_gflops": 5.0, "fp32_unit": "fma"}, "after": {"fp32_gflops": 4.0}}}
        kept = results_file.reduced(record)
        self.assertNotIn("output_sha256", kept)
        self.assertEqual(kept["roofs"]["before"], {"fp32_gflops": 5.0})
        for goal in goals.GOALS:
            self.assertEqual(run_goals.judge(goal, [record]), run_goals.judge(goal, [kept]))
        self.assertEqual(run_goals.roof_spreads([record]), run_goals.roof_spreads([kept]))

    def test_a_measurement_replaces_its_own_work_alone(self):
        def peer(engine, value, metric="prefill"):
            return {"bench": "peers", "engine": engine, "part": "model", "shape": "s", "precision": "bf16", "setting": "",
                    "metric": metric, "value": value}
        kept = [{"bench": "machine"}, {"bench": "goals", "op": "gemm"}, peer("dunlin", 1), peer("torch", 2),
                peer("dunlin", 3, "decode_b1")]
        merged = results_file.merged(kept, [peer("dunlin", 4)], results_file.peers_key)
        self.assertEqual([record.get("value") for record in merged], [None, None, 2, 3, 4])
        merged = results_file.merged(kept, [{"bench": "goals", "op": "gemm", "case": "new"}], results_file.goals_key)
        self.assertEqual([record["bench"] for record in merged], ["machine", "peers", "peers", "peers", "goals"])

    def test_the_machines_line_keeps_its_title_and_gets_the_date(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(results_file, "FOLDER", pathlib.Path(folder)):
            path = results_file.path_of("m")
            path.write_text(json.dumps({"bench": "machine", "title": "M", "measured": {}, "versions": {"a": "1"}}) + "\n")
            results_file.write("m", {"title": "other", "cpus": 2, "versions": {"b": "2"}}, [{"bench": "goals", "op": "gemm"}],
                               results_file.goals_key, ["goals"])
            head, record = results_file.read(path)
        self.assertEqual((head["title"], head["cpus"], head["versions"]), ("M", 2, {"a": "1", "b": "2"}))
        self.assertIn("goals", head["measured"])
        self.assertEqual(record["op"], "gemm")


if __name__ == "__main__":
    unittest.main()
