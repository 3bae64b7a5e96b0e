# SPDX-License-Identifier: Apache-2.0
"""The logic of the comparison, without a peer: ratios, verdicts, the table, contenders, shapes."""

import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import attention_cases  # noqa: E402
import compare_peers  # noqa: E402
import engines  # noqa: E402
import environment  # noqa: E402
import report  # noqa: E402
import results_file  # noqa: E402
import shapes  # noqa: E402
import startup  # noqa: E402


def measured(engine, metric, value, precision, setting="", unit="tokens/s", part="model", shape="gpt2-124m", round_=0):
    return {"engine": engine, "part": part, "shape": shape, "metric": metric, "precision": precision, "setting": setting,
            "value": value, "unit": unit, "round": round_}


def decode_b8(measurements):
    goal = [c for c in report.model_comparisons()
            if (c.shape, c.metric, c.precision) == ("gpt2-124m", "decode_b8", "bf16")]
    return report.rows_of(goal, measurements)


class Ratios(unittest.TestCase):
    def test_best_peer_may_run_any_wide_precision(self):
        row, = decode_b8([measured("dunlin", "decode_b8", 320.0, "bf16"), measured("torch", "decode_b8", 100.0, "bf16"),
                          measured("torch", "decode_b8", 200.0, "fp32", "eager"),
                          measured("llama_cpp", "decode_b8", 900.0, "q8_0")])
        self.assertEqual((row.ratio, row.goal, row.verdict), ("1.60x", ">= 1.6x", "pass"))
        self.assertEqual(row.peer, "200 tokens/s, torch fp32 eager")

    def test_just_under_the_goal_is_short(self):
        row, = decode_b8([measured("dunlin", "decode_b8", 319.0, "bf16"), measured("torch", "decode_b8", 200.0, "fp32")])
        self.assertEqual(row.verdict, "short")

    def test_peers_without_a_goal_have_their_own_row(self):
        named, other = decode_b8([measured("dunlin", "decode_b8", 300.0, "bf16"), measured("torch", "decode_b8", 100.0, "fp32"),
                                  measured("onnxruntime", "decode_b8", 200.0, "fp32")])
        self.assertEqual((named.ratio, named.verdict), ("3.00x", "pass"))
        self.assertEqual((other.ratio, other.goal, other.verdict), ("1.50x", "-", "-"))

    def test_rounds_are_summarised_by_their_median(self):
        rows = [measured("dunlin", "decode_b8", value, "bf16", round_=i) for i, value in enumerate((100.0, 400.0, 300.0))]
        row, = decode_b8(rows + [measured("torch", "decode_b8", 100.0, "fp32")])
        self.assertEqual(row.ratio, "3.00x")

    def test_fastest_calls_have_their_own_ratio(self):
        row, = decode_b8([dict(measured("dunlin", "decode_b8", 100.0, "bf16"), best=400.0),
                          dict(measured("torch", "decode_b8", 100.0, "fp32"), best=200.0)])
        self.assertEqual((row.ratio, row.fastest, row.verdict), ("1.00x", "2.00x", "short"))

    def test_a_shorter_time_is_faster(self):
        self.assertEqual(report.speed_ratio(2.0, 5.0, "ms"), 2.5)
        found = {("a",): (3.0, "ms"), ("b",): (2.0, "ms")}
        self.assertEqual(report.best(found)[0], ("b",))

    def test_one_side_without_measurement_has_no_ratio(self):
        row, = decode_b8([measured("torch", "decode_b8", 100.0, "fp32")])
        self.assertEqual((row.ours, row.ratio, row.verdict), ("-", "-", "not measured"))
        self.assertEqual(decode_b8([]), [])

    def test_math_is_compared_with_math_only(self):
        def sdpa(engine, setting, value):
            return measured(engine, "sdpa", value, "fp32", setting, "ms", "attention", "-")
        rows = report.rows_of(report.attention_comparisons(attention_cases.CASES), [
            sdpa("dunlin", "math", 90.0), sdpa("dunlin", "flash", 20.0), sdpa("torch", "math", 100.0),
            sdpa("torch", "flash", 30.0)])
        by_work = {row.work: row for row in rows}
        self.assertEqual(by_work["sdpa fp32 math"].ratio, "1.11x")
        self.assertEqual((by_work["sdpa fp32 flash"].ratio, by_work["sdpa fp32 flash"].verdict), ("1.50x", "short"))

    def test_fused_block_is_compared_with_the_compiled_one_and_with_the_best(self):
        def block(engine, setting, value):
            return measured(engine, "block", value, "bf16", setting, "ms", "block", "nanogpt")
        compiled, any_peer = report.rows_of(report.block_comparisons()[:2], [
            block("dunlin", "eager", 13.0), block("dunlin", "fused", 10.0), block("torch", "eager", 18.0),
            block("torch", "compile", 12.9), block("torch", "unfused compile", 12.0)])
        self.assertEqual((compiled.ratio, compiled.goal, compiled.verdict), ("1.29x", ">= 1.3x", "short"))
        self.assertEqual(compiled.peer, "12.9 ms, torch bf16 compile")
        self.assertEqual((any_peer.ratio, any_peer.peer, any_peer.verdict), ("1.20x", "12 ms, torch bf16 unfused compile", "-"))

    def test_errors_and_text_are_not_figures(self):
        self.assertEqual(report.medians([{"engine": "torch", "error": "no"}, measured("llama_cpp", "system", "AVX", "bf16")]), {})

    def test_the_table_is_markdown_with_equal_columns(self):
        lines = report.table(decode_b8([measured("dunlin", "decode_b8", 320.0, "bf16")])).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertEqual({line.count("|") for line in lines}, {8})


class Lines(unittest.TestCase):
    def test_greedy_tokens_agree_up_to_the_first_difference(self):
        self.assertEqual(report.agreement([1, 2, 3, 4], [1, 2, 9, 4]), 2)
        rows = [{"engine": "dunlin", "part": "model", "shape": "s", "precision": "fp8", "metric": "tokens",
                 "setting": "serve", "tokens": [5, 6]},
                dict(measured("llama_cpp", "decode_b1", 1.0, "q8_0", "flash", shape="s"), tokens=[5, 6, 7])]
        line, = report.agreement_lines(rows)
        self.assertIn("the first 2 of 2 are those of Dunlin in fp8", line)

    def test_memory_is_the_largest_batch_in_the_leanest_setting(self):
        rows = [measured("torch", "rss", value, "fp32", setting, "bytes")
                for setting, value in (("static", 5e6), ("static", 9e6), ("dynamic", 7e6))]
        self.assertEqual(report.memory_lines(rows), ["RSS gpt2-124m torch fp32: 7 MB"])

    def test_start_is_compared_with_dd_and_memory_with_the_plan(self):
        rows = [measured("dunlin", "dd", 2.0, "bf16", "dd", "s", "startup"),
                measured("dunlin", "ready", 2.7, "bf16", "", "s", "startup"),
                dict(measured("dunlin", "rss", 3e8, "bf16", "serve", "bytes", "startup"), planned={"weights": 1e8, "plan": 1e8})]
        ready, memory = startup.lines(rows)
        self.assertTrue(ready.endswith("short"), ready)
        self.assertTrue(memory.endswith("pass"), memory)
        rows[0]["setting"] = "memory"  # the limit of files that need not come from a disk is wider
        ready, _ = startup.lines(rows)
        self.assertTrue(ready.endswith("limit 3.00 s (1.5x memory): pass"), ready)


class KeptResults(unittest.TestCase):
    def test_a_named_run_is_kept_and_read_back(self):
        run = {"part": "run", "processor": "P", "cpus": 2, "versions": {"torch": "2"}}
        failed = {"engine": "torch", "part": "install", "error": "no network"}
        row = measured("dunlin", "prefill", 1.0, "bf16")
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(results_file, "FOLDER", pathlib.Path(folder)):
            compare_peers.keep_results("m", [run, failed, row])
            compare_peers.keep_results("m", [run, dict(row, value=2.0)])
            head, kept = compare_peers.read_measurements(results_file.path_of("m"))
        self.assertEqual((head["part"], head["versions"], list(head["measured"])), ("run", {"torch": "2"}, ["model"]))
        self.assertEqual((kept["bench"], kept["value"]), ("peers", 2.0))


class Contenders(unittest.TestCase):
    def job(self, engine, precision, setting):
        return engines.Job(engine, "model", "gpt2-124m", precision, setting, (), ("prefill", "decode_b8"))

    def test_settings_without_a_best_figure_run_once(self):
        jobs = [self.job("dunlin", "bf16", ""), self.job("torch", "fp32", "eager"), self.job("torch", "bf16", "eager"),
                self.job("llama_cpp", "bf16", "flash")]
        rows = [measured("dunlin", "prefill", 1.0, "bf16"), measured("torch", "prefill", 9.0, "fp32", "eager"),
                measured("torch", "prefill", 3.0, "bf16", "eager"), measured("torch", "decode_b8", 4.0, "bf16", "eager"),
                measured("llama_cpp", "decode_b8", 5.0, "bf16", "flash"), measured("torch", "decode_b8", 3.0, "fp32", "eager")]
        kept = compare_peers.contenders(jobs, rows)
        self.assertEqual([(j.engine, j.precision) for j in kept], [("dunlin", "bf16"), ("torch", "fp32"), ("llama_cpp", "bf16")])


class Weights(unittest.TestCase):
    def test_parameters_are_those_of_the_named_shapes(self):
        def count(name):
            return sum(math.prod(shape) for _, shape, _ in shapes.tensors(shapes.CONFIGS[name]))
        self.assertEqual(count("gpt2-124m"), 124439808)
        self.assertEqual(count("llama-1b"), 1235814400)
        self.assertEqual(count("lfm2-1.2b"), 1170340608)

    def test_embeddings_of_layers_and_experts_are_most_of_a_large_shape(self):
        def parts(name):
            sizes = {tensor: math.prod(shape) for tensor, shape, _ in shapes.tensors(shapes.CONFIGS[name])}
            large = sum(size for tensor, size in sizes.items() if "per_layer.weight" in tensor or ".experts." in tensor)
            return large, sum(sizes.values()) - large
        embeddings, rest = parts("gemma4-e2b")  # 5.1 billion, 2.3 of them effective
        self.assertEqual((embeddings, round(rest / 1e9, 1)), (262144 * 35 * 256, 2.3))
        experts, rest = parts("qwen3.5-35b-a3b-8l")
        self.assertEqual((experts, round(rest / 1e9, 1)), (8 * 256 * 3 * 2048 * 512, 1.3))

    def test_a_narrow_shape_divides_the_published_one(self):
        for name, narrow in shapes.NARROW.items():
            for field, value in narrow.items():
                self.assertEqual(shapes.CONFIGS[name][field] % value, 0, (name, field))
                self.assertGreater(value, 8)  # llama.cpp mixes types otherwise for eight experts

    def test_a_header_lists_tensors_without_gaps(self):
        header = shapes.safetensors_header([("a", (2, 3)), ("b", (5,))])
        self.assertEqual(header["a"]["data_offsets"], [0, 12])
        self.assertEqual(header["b"], {"dtype": "BF16", "shape": [5], "data_offsets": [12, 22]})

    def test_frequency_factors_go_from_one_to_the_scaling_factor(self):
        factors = shapes.llama3_frequency_factors(shapes.CONFIGS["llama-1b"])
        self.assertEqual((len(factors), factors[0]), (32, 1.0))
        self.assertAlmostEqual(factors[-1], 32.0)
        self.assertEqual(factors, sorted(factors))

    def test_prompt_is_deterministic_and_within_the_vocabulary(self):
        tokens = shapes.prompt_tokens(1000, 512, 7)
        self.assertEqual(tokens, shapes.prompt_tokens(1000, 512, 7))
        self.assertNotEqual(tokens, shapes.prompt_tokens(1000, 512, 8))
        self.assertTrue(all(0 <= token < 998 for token in tokens))
        self.assertGreater(len(set(tokens)), 300)


class Jobs(unittest.TestCase):
    def test_every_package_is_pinned(self):
        pins = environment.pinned()
        for packages in environment.PACKAGES.values():
            for name in packages:
                self.assertIn(name, pins)

    def test_every_batch_of_every_shape_is_measured_by_every_peer(self):
        options = engines.Options(work=pathlib.Path("w"), python=pathlib.Path("p"), binary=pathlib.Path("d"), threads=1,
                                  new_tokens=4, seconds=1.0, decode_seconds=1.0)
        for name, jobs_of in engines.PEERS.items():
            for shape in shapes.CONFIGS:
                metrics = {metric for job in jobs_of(options, "model", shape) for metric in job.metrics}
                expected = {"prefill", "decode_b1", "decode_b8", "decode_b32"}
                alone = shape in shapes.NARROW and name != "llama_cpp"  # of these a file is all there is
                self.assertEqual(metrics, set() if alone else expected, name)


if __name__ == "__main__":
    unittest.main()
