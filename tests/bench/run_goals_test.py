# SPDX-License-Identifier: Apache-2.0
"""The verdicts of run_goals.py on synthetic records; nothing is timed."""

import io
import json
import subprocess
import sys
import tempfile
import unittest

import goals
import run_goals


def record(**fields):
    base = {"op": "gemm", "case": "gpt2", "backend": None, "precision": "bf16", "shape": [256, 768, 768],
            "threads": 1, "median_us": 100.0, "min_us": 80.0, "roofline_ratio": 0.95, "gflops": 1.0, "gbytes_per_s": 1.0,
            "roof": "bf16_flops", "layer": "out"}
    return {**base, **fields}


GOAL = {"name": "g", "where": {"op": "gemm", "precision": "bf16"}, "metric": "roofline_ratio", "least": 0.9,
        "threads": "one"}


class ParseTest(unittest.TestCase):
    def test_lines_become_records(self):
        text = json.dumps(record()) + "\n\n" + json.dumps(record(precision="fp8")) + "\n"
        self.assertEqual([r["precision"] for r in run_goals.parse_lines(text)], ["bf16", "fp8"])

    def test_kept_lines_of_other_benches_are_skipped(self):
        text = "\n".join(json.dumps(line) for line in ({"bench": "machine"}, {**record(), "bench": "goals"}, {"bench": "peers"}))
        self.assertEqual(len(run_goals.parse_lines(text)), 1)

    def test_an_error_object_is_not_a_record(self):
        with self.assertRaisesRegex(ValueError, "no memory"):
            run_goals.parse_lines('{"error": {"code": "X", "message": "no memory"}}')

    def test_a_line_without_the_pinned_fields_is_refused(self):
        with self.assertRaisesRegex(ValueError, "roofline_ratio"):
            run_goals.parse_lines('{"op": "gemm", "median_us": 1}')
        with self.assertRaises(ValueError):
            run_goals.parse_lines("not json")


class JudgeTest(unittest.TestCase):
    def test_the_worst_case_decides(self):
        records = [record(), record(shape=[2048, 768, 768], roofline_ratio=0.89)]
        row = run_goals.judge(GOAL, records)
        self.assertEqual((row["verdict"], row["cases"], row["met"]), ("short", 2, 1))
        self.assertIn("2048x768x768", row["worst_case"])
        self.assertEqual(run_goals.judge(GOAL, records[:1])["verdict"], "pass")

    def test_a_recipe_of_fp8_is_a_case_of_its_own(self):
        delayed, per_token = record(fp8_recipe="delayed"), record(fp8_recipe="per_token")
        self.assertNotEqual(run_goals.identity(delayed), run_goals.identity(per_token))
        self.assertIn("delayed", run_goals.label(delayed))

    def test_implausible_paired_ratio_falls_back_to_roofline_ratio(self):
        goal = {**GOAL, "metric": "paired_ratio"}
        row = run_goals.judge(goal, [record(roofline_ratio=0.5, paired_ratio=26.9), record(roofline_ratio=0.99, paired_ratio=1.2)])
        self.assertEqual((row["worst"], row["verdict"]), (0.5, "short"))

    def test_a_case_beyond_every_roof_is_broken_and_fails(self):
        goal = {**GOAL, "metric": "paired_ratio"}
        for record_of_case in (record(roofline_ratio=1.3, paired_ratio=1.4), record(roofline_ratio=1.26, paired_ratio=None)):
            self.assertTrue(run_goals.broken(record_of_case))
            row = run_goals.judge(goal, [record(), record_of_case])
            self.assertEqual(row["verdict"], "BROKEN")
            self.assertIn("256x768x768", row["worst_case"])
            out = io.StringIO()
            run_goals.print_cases([record(), record_of_case], out)
            self.assertEqual(out.getvalue().count("BROKEN"), 1)
            failures = run_goals.failures_of([record(), record_of_case])
            self.assertEqual(len(failures), 1)
            self.assertIn("of bf16_flops is not possible", failures[0][1][0])

    def test_one_roof_that_allows_a_case_is_enough(self):
        for plausible in (record(roofline_ratio=1.3, paired_ratio=1.2), record(roofline_ratio=1.2, paired_ratio=26.9),
                          record(roofline_ratio=1.25, paired_ratio=None)):
            self.assertFalse(run_goals.broken(plausible))
            self.assertEqual(run_goals.failures_of([plausible]), [])

    def test_the_exit_status_of_a_file_with_a_broken_case_is_1(self):
        for ratio, status in ((1.3, 1), (0.9, 0)):
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
                file.write(json.dumps(record(roofline_ratio=ratio)) + "\n")
                file.flush()
                done = subprocess.run([sys.executable, run_goals.__file__, "--read", file.name], capture_output=True,
                                      text=True, check=False)
                self.assertEqual(done.returncode, status)
                self.assertEqual("FAILED: gpt2 out bf16" in done.stdout, status == 1)

    def test_missing_paired_ratio_falls_back_to_roofline_ratio(self):
        goal = {**GOAL, "metric": "paired_ratio"}
        records = [record(roofline_ratio=0.5, paired_ratio=0.91), record(paired_ratio=None), record()]
        row = run_goals.judge(goal, records)
        self.assertEqual((row["verdict"], row["worst"], row["median"]), ("pass", 0.91, 0.95))

    def test_records_of_other_threads_and_fields_are_ignored(self):
        records = [record(), record(threads=2, roofline_ratio=0.1), record(precision="fp8", roofline_ratio=0.1)]
        self.assertEqual(run_goals.judge(GOAL, records)["verdict"], "pass")

    def test_goal_without_records_is_not_measured(self):
        self.assertEqual(run_goals.judge(GOAL, [])["verdict"], "not measured")

    def test_scaling_pairs_the_same_case(self):
        goal = {**GOAL, "metric": "scaling", "least": 1.85, "threads": "all"}
        records = [record(), record(layer="up", median_us=400.0), record(threads=2, median_us=50.0)]
        self.assertAlmostEqual(run_goals.judge(goal, records)["worst"], 2.0)
        self.assertEqual(run_goals.judge(goal, records[1:])["verdict"], "not measured")

    def test_against_divides_by_the_other_record(self):
        goal = {"name": "g", "where": {"backend": "flash"}, "metric": "against", "field": "workspace_bytes",
                "other": {"backend": "math"}, "most": 0.02, "threads": "all"}
        records = [record(backend="flash", workspace_bytes=1), record(backend="math", workspace_bytes=100)]
        self.assertEqual(run_goals.judge(goal, records)["verdict"], "pass")
        records[1]["workspace_bytes"] = 10
        self.assertEqual(run_goals.judge(goal, records)["verdict"], "short")

    def test_against_at_the_same_speed_of_memory(self):
        goal = {"name": "g", "where": {"precision": "fp8"}, "metric": "against", "field": "tokens_per_s",
                "other": {"precision": "bf16"}, "same_memory": True, "least": 1.7, "threads": "all"}
        # FP8 read at 40 GB/s, BF16 at 60: 1.2 times the tokens are 1.8 times at one speed.
        fp8 = record(precision="fp8", tokens_per_s=120.0, roof="dram_read", gbytes_per_s=38.0, paired_ratio=0.95)
        bf16 = record(precision="bf16", tokens_per_s=100.0, roof="dram_read", gbytes_per_s=60.0, paired_ratio=1.0)
        self.assertAlmostEqual(run_goals.judge(goal, [fp8, bf16])["worst"], 1.8)
        for field, value in (("paired_ratio", None), ("paired_ratio", 26.9), ("paired_ratio", 0.5), ("roof", "fp32_flops")):
            self.assertAlmostEqual(run_goals.judge(goal, [fp8, {**bf16, field: value}])["worst"], 1.2)
        del goal["same_memory"]
        self.assertAlmostEqual(run_goals.judge(goal, [fp8, bf16])["worst"], 1.2)

    def test_nested_fields_and_upper_limits(self):
        goal = {"name": "g", "where": {"op": "model"}, "metric": "memory.rss_over_plan_ratio", "most": 1.0,
                "threads": "all"}
        records = [record(op="model", memory={"rss_over_plan_ratio": 1.2})]
        self.assertEqual(run_goals.judge(goal, records)["verdict"], "short")

    def test_roofs_far_apart_are_reported_as_disturbed(self):
        def roofs(rate):
            return {side: {"fp32_gflops": rate / (1 + (side == "after"))} for side in ("before", "after")}
        out = io.StringIO()
        run_goals.print_roofs([record(roofs=roofs(100.0)), record(roofs=roofs(90.0))], out)
        self.assertNotIn("DISTURBED", out.getvalue())
        self.assertIn("90 to 100", out.getvalue())
        run_goals.print_roofs([record(roofs=roofs(100.0)), record(roofs=roofs(50.0))], out)
        self.assertIn("DISTURBED", out.getvalue())

    def test_every_goal_can_be_printed(self):
        out = io.StringIO()
        run_goals.print_goals([record()], out)
        run_goals.print_cases([record()], out)
        self.assertEqual(out.getvalue().count("not measured"),
                         sum(run_goals.judge(goal, [record()])["verdict"] == "not measured" for goal in goals.GOALS))
        for goal in goals.GOALS:
            self.assertEqual(("least" in goal) + ("most" in goal), 1, goal["name"])


if __name__ == "__main__":
    unittest.main()
