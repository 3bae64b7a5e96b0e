#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu_check that need no server: its table of rows, PyTorch's ratios, the summary, the process of
PyTorch's worker. Usage: gpu_check_test.py
"""
import pathlib
import sys
import tarfile
import tempfile
import textwrap
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "gpu_check"))

import peer
import processes
import ratios
import results
import rows

RECORD = {"op": "attention", "case": "sdpa", "backend": "flash", "precision": "bf16", "shape": [1, 2, 3, 4],
          "median_us": 20.0, "roof": "dram_read", "roofline_ratio": 0.5, "workspace_bytes": 1 << 20,
          "resident_bytes": 2 << 20}
ANSWERS = ({"setting": "cudnn", "key": {"precision": "bf16"}, "median_us": 18.0},
           {"setting": "math", "key": {"precision": "bf16"}, "median_us": 60.0},
           {"setting": "math", "key": {"precision": "fp16"}, "median_us": 1.0},
           {"setting": "efficient", "key": {"precision": "bf16"}, "error": "no GQA"})

WORKER = """
    import json, sys, time
    print(json.dumps({"torch": "9.9"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if job["job"] == "hang":
            print(json.dumps({"setting": "first"}), flush=True)
            time.sleep(60)
        if job["job"] == "die":
            sys.exit(3)
        for i in range(job.get("count", 0)):
            print(json.dumps({"setting": i}), flush=True)
        print(json.dumps({"failed": "bad"} if job["job"] == "fail" else {"done": True}), flush=True)
"""


class Rows(unittest.TestCase):
    def test_each_part_fits_its_time(self):
        for part, seconds in rows.PART_SECONDS.items():
            expected = rows.DEVICE.expected + sum(row.expected for row in rows.of_parts([part]))
            self.assertLessEqual(expected, seconds, part)
        for row in rows.ROWS:
            self.assertLess(row.expected, row.limit, row.name)

    def test_layers_run_under_every_fp8_recipe(self):
        told = " ".join(row.gpu[0] for row in rows.ROWS if row.kind == "bench" and "layer --case te" in row.gpu[0]
                        and "fp8" in row.gpu[0])
        self.assertIn("--fp8-recipe static,current", told)
        self.assertIn("layer --case te --precision fp8 ", told)  # the case's own: per_token and delayed

    def test_names_are_unique_and_selectable(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([row.name for row in rows.named(["table_1", "operations"])], ["operations", "table_1"])
        with self.assertRaisesRegex(ValueError, "unknown row tabel"):
            rows.named(["tabel"])

    def test_headline_rows_come_first(self):
        self.assertEqual([row.name for row in rows.of_parts(["1"])][:5],
                         ["operations", "prefill_8k_pages", "prefill_8k_dense", "decode_32x4k", "table_1"])


class Ratios(unittest.TestCase):
    def test_pytorchs_best_and_every_setting_of_the_same_work(self):
        line, = ratios.compare([RECORD], ANSWERS)
        self.assertEqual((line["label"], line["best"], line["best_us"], line["ratio"]),
                         ("sdpa flash bf16", "cudnn", 18.0, 0.9))
        self.assertEqual(line["ratios"], {"cudnn": 0.9, "math": 3.0})
        self.assertEqual(ratios.refused(ANSWERS), ["efficient: no GQA"])

    def test_without_pytorch_there_is_no_ratio(self):
        line, = ratios.compare([RECORD], [])
        self.assertIsNone(line["ratio"])
        self.assertEqual(ratios.told(line), "sdpa flash bf16 20 us, 0.50 of roof")


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "gpu"

    def open(self, build="1"):
        made = results.Results(self.folder, build)
        self.addCleanup(made.stream.close)
        return made

    def test_a_record_is_on_disk_at_once(self):
        made = self.open()
        made.add("record", "table_2", **RECORD)
        self.assertIn('"median_us": 20.0', (self.folder / "results.jsonl").read_text())

    def test_a_page_has_verdicts_ratios_memory_and_the_end_of_a_failures_log(self):
        made = self.open()
        made.add("record", "table_2", **RECORD)
        made.add("peer", "table_2", **ANSWERS[0], workspace_bytes=3 << 20, resident_bytes=0)
        made.add("row", "table_2", verdict="pass", seconds=1.0, result="1 record", logs=[])
        (self.folder / "mixes.log").write_text("bits differ\n")
        made.add("row", "mixes", verdict="FAIL", seconds=2.0, result="exit status 1", logs=["mixes.log"])
        made.write_summary()
        page = (self.folder / "summary.md").read_text()
        for text in ("| table_2 | sdpa flash bf16 | 20 | 0.500 of dram_read | cudnn, 18 us | 0.90 | cudnn 0.90 |",
                     "| PyTorch, cudnn | 3.0 | 0.0 |", "### mixes", "bits differ"):
            self.assertIn(text, page)
        with tarfile.open(made.pack()) as archive:
            self.assertEqual(set(archive.getnames()), {"gpu", "gpu/summary.md", "gpu/results.jsonl", "gpu/mixes.log"})

    def test_the_next_part_of_the_same_build_adds_to_the_page_and_another_build_does_not(self):
        self.open().add("row", "first", verdict="pass", seconds=1.0, result="", logs=[])
        with open(self.folder / "results.jsonl", "a", encoding="utf-8") as file:
            file.write('{"cut off')
        again = self.open()
        again.add("row", "second", verdict="pass", seconds=1.0, result="", logs=[])
        self.assertEqual(list(again.rows(this_run=True)), ["first", "second"])  # one process, one run
        self.assertEqual(list(self.open().rows()), ["first", "second"])
        self.assertEqual(list(self.open("2").rows()), [])


class Worker(unittest.TestCase):
    def worker(self, script=WORKER):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        made = peer.Peer([sys.executable, "-c", textwrap.dedent(script)], None, pathlib.Path(folder.name) / "log")
        self.addCleanup(made.close)
        return made

    def test_answers_come_until_the_job_is_done(self):
        worker = self.worker()
        for count in (2, 0, 3):
            self.assertEqual([answer["setting"] for answer in worker.ask({"job": "", "count": count}, 20)],
                             list(range(count)))
        self.assertEqual(worker.version, "9.9")

    def test_a_job_that_hangs_is_ended_and_the_next_one_has_a_new_process(self):
        worker, start, answers = self.worker(), time.monotonic(), []
        with self.assertRaisesRegex(peer.Broken, "not done after"):
            for answer in worker.ask({"job": "hang"}, 2):
                answers.append(answer)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(answers, [{"setting": "first"}])
        self.assertEqual(list(worker.ask({"job": ""}, 20)), [])

    def test_a_failed_job_and_a_dead_worker_say_so(self):
        worker = self.worker()
        with self.assertRaisesRegex(peer.Broken, "bad"):
            list(worker.ask({"job": "fail"}, 20))
        with self.assertRaisesRegex(peer.Broken, "ended"):
            list(worker.ask({"job": "die"}, 20))

    def test_without_pytorch_every_job_says_why(self):
        worker = self.worker("print('{\"unavailable\": \"No module named torch\"}')")
        for _ in range(2):
            with self.assertRaisesRegex(peer.Missing, "No module named torch"):
                list(worker.ask({"job": ""}, 20))


class Processes(unittest.TestCase):
    def test_what_outlasts_its_limit_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            log, start = pathlib.Path(folder) / "log", time.monotonic()
            with self.assertRaisesRegex(processes.Failure, "not done after .* s: half way"):
                processes.run(["sh", "-c", "echo half way; sleep 60 & sleep 60"], None, log, 1)
            self.assertLess(time.monotonic() - start, 20)


if __name__ == "__main__":
    unittest.main()
