#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts of gpu_check that need no server: its table of rows, PyTorch's ratios, the summary, the process of
PyTorch's worker. Usage: gpu_check_test.py
"""
import argparse
import concurrent.futures
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import threading
import time
import unittest
from unittest import mock

FOLDER = pathlib.Path(__file__).resolve().parent / "gpu_check"
sys.path.insert(0, str(FOLDER))

import check
import peer
import processes
import ratios
import results
import rows
import tiles

spec = importlib.util.spec_from_file_location("gpu_check_main", FOLDER / "__main__.py")
main = importlib.util.module_from_spec(spec)
spec.loader.exec_module(main)

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
            expected = rows.DEVICE.expected + rows.expected_seconds(rows.of_parts([part]))
            self.assertLessEqual(expected, seconds, part)
            self.assertLessEqual(seconds, 300, part)  # two of them, and the machine's start, in a lease of 15 minutes
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

    def test_what_runs_together_comes_first_and_counts_as_long_as_its_longest(self):
        first = rows.of_parts(["1"])
        together = [row.together for row in first]
        self.assertEqual(together, sorted(together, reverse=True))
        self.assertEqual({row.kind for row in rows.ROWS if row.together}, {"gtest"})
        self.assertEqual(next(row.name for row in first if not row.together), "prefill_8k_pages")
        lone = rows.named(["prefill_8k_pages"])
        self.assertEqual(rows.expected_seconds(lone + rows.named(["operations", "attention_dense"])),
                         lone[0].expected + rows.named(["operations"])[0].expected)

    def test_the_shares_of_a_test_program_are_whole(self):
        shares = {}
        for row in rows.ROWS:
            if row.shard != (0, 1):
                shares.setdefault((row.gpu, row.shard[1]), set()).add(row.shard[0])
        self.assertEqual({program: len(found) for (program, _), found in shares.items()},
                         {program: count for program, count in shares})

    def test_sanitizers_are_the_last_rows_and_in_no_other_part(self):
        self.assertEqual([row.name for row in rows.ROWS if row.part == "sanitize"],
                         [row.name for row in rows.ROWS[-4:]])
        self.assertEqual({row.kind for row in rows.ROWS[-4:]}, {"sanitizer"})


class Planning(unittest.TestCase):
    """run_all over a device that always opens: what runs when, and beside what."""

    def setUp(self):
        self.events, self.active, self.most = [], 0, 0
        self.lock = threading.Lock()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        options = argparse.Namespace(folder=pathlib.Path(folder.name), module=None, rehearse=False, build="1",
                                     out=pathlib.Path(folder.name), python=sys.executable, caller_libraries="",
                                     part_seconds=None, selected=())
        self.check = check.Check(options)
        self.addCleanup(lambda: self.check.results.stream.close())
        self.check.gpu_gib = 80.0
        self.check.start_peer = lambda: self.events.append("PyTorch starts") or setattr(self.check, "peer", self)
        self.version, self.reason = "", None  # of the stand-in for PyTorch's process

    def close(self):
        self.events.append("PyTorch ends")

    def run_rows(self, selected, work):
        def begun(check, _start, _part):
            return True
        self.check.options.selected = selected
        kinds = dict.fromkeys(("gtest", "bench", "served", "sanitizer"), work)
        with mock.patch.object(main, "begin", begun), mock.patch.object(main, "KINDS", kinds), \
                contextlib.redirect_stderr(io.StringIO()):
            main.run_all(self.check)
        return {name: row["verdict"] for name, row in self.check.results.rows().items()}

    def work(self, _check, row):
        with self.lock:
            self.active += 1
            self.most = max(self.most, self.active)
            self.events.append(row.name)
        time.sleep(0.3 if row.together else 0.0)
        with self.lock:
            self.active -= 1
        if row.name == "attention_dense":
            raise processes.Failure("bits differ")
        return ""

    def test_rows_together_overlap_and_what_is_measured_is_alone(self):
        selected = rows.named(["operations", "attention_pages", "attention_dense", "table_1", "gemm_8192_bf16"])
        with mock.patch.object(os, "cpu_count", lambda: 16):
            verdicts = self.run_rows(selected, self.work)
        self.assertEqual(self.most, 3)
        self.assertEqual(verdicts["attention_dense"], "FAIL")
        self.assertEqual([verdicts[row.name] for row in selected].count("pass"), 4)
        self.assertEqual(self.events[-2:], ["gemm_8192_bf16", "table_1"])

    def test_a_rows_own_threads_have_its_clock(self):
        def work(started, row):
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                left = started.seconds_left() if row.together else pool.submit(started.seconds_left).result()
            if not 0 < left <= row.limit:
                raise processes.Failure(f"{left} s")
            return ""
        verdicts = self.run_rows(rows.named(["operations", "served_invariance"]), work)
        self.assertEqual(set(verdicts.values()), {"pass"})

    def test_little_gpu_memory_runs_fewer_at_once(self):
        self.check.gpu_gib = 4.0
        self.run_rows(rows.named(["operations", "attention_pages", "attention_dense"]), self.work)
        self.assertEqual(self.most, 1)

    def test_nothing_else_is_on_the_gpu_while_the_sanitizer_runs(self):
        self.run_rows(rows.named(["table_1", "sanitize_memcheck"]), self.work)
        self.assertEqual(self.events, ["PyTorch starts", "table_1", "PyTorch ends", "sanitize_memcheck"])

    def test_a_part_whose_time_is_over_begins_nothing_more(self):
        self.check.options.part_seconds = 0.2
        verdicts = self.run_rows(rows.named(["operations", "table_1"]), self.work)
        self.assertEqual(verdicts["table_1"], "not begun")


# As kernels/cuda/gemm/tile_choices.cc writes it: the shape, then two times to a word.
TILES = """dunlin cublaslt algorithms 1
some GPU
fp8 4096 x 14336 = 0000000000000001 0 0 0 0 0 0 0
tile wgmma bf16 28672 x 4096 rows 8 = 0000000000000007 0000000000000000 0000000000000000 0000000000000000 """ \
    """000135f200000000 0000000000016378 0000000000000000 0000000000000000
tile grouped wgmma fp8 28672 x 4096 groups 8 rows 4 = 0000000000000007 0000000000000000 0000000000000000 """ \
    """0000c35000000000 000000000000ea60 0000000000000000 0000000000000000 0000000000000000
tile grouped wgmma fp8 28672 x 4096 groups 8 rows 8 = 0000000000000006 0000000000000000 0000000000000000 """ \
    """0000ea6000000000 000000000000ea61 0000000000000000 0000000000000000 0000000000000000
tile grouped wgmma fp8 4096 x 14336 groups 8 rows 8 = 0000000000000007 0000000000000000 0000000000000000 """ \
    """0000ea6000000000 0000000000007530 0000000000000000 0000000000000000 0000000000000000
tile wgmma codes 16384 x 2048 rows 64 = 0000000000000004 0000000000000000 0000a09600000000 0000000000000000 """ \
    """0000000000000000 0000000000000000 0000000000000000 0000000000000000
end 0123456789abcdef
"""


class Tiles(unittest.TestCase):
    def test_choices_and_times_of_the_file(self):
        found = tiles.choices(TILES)
        self.assertEqual(found[0], ("grouped wgmma fp8", 4096, 14336, 8, 8, "8x64", {"16x64": 60.0, "8x64": 30.0}))
        self.assertEqual(found[3:], [
            ("wgmma bf16", 28672, 4096, 0, 8, "8x64", {"16x16": 79.346, "8x16": 91.0}),
            ("wgmma codes", 16384, 2048, 0, 64, "Wide64x64", {"Wide64x64": 41.11})])
        self.assertEqual(tiles.table("the fake's algorithms"), [])

    def test_the_shapes_are_those_of_the_module(self):
        for kernel, header, enum in (("wgmma bf16", "wgmma_plan.h", "WgmmaTileShape"),
                                     ("grouped gates fp16", "wgmma_plan.h", "GroupedTileShape"),
                                     ("wgmma codes", "coded_shapes.h", "CodedShape"),
                                     ("grouped wgmma codes", "coded_shapes.h", "GroupedCodedShape")):
            text = (FOLDER.parents[1] / "kernels/cuda/gemm/sm90" / header).read_text()
            names = re.search(rf"enum class {enum} [^{{]*{{(.*?)}}", text, re.S)[1].replace(",", "").split()
            self.assertEqual(tuple(name.removeprefix("kSwapped").removeprefix("k") for name in names),
                             tiles.shapes_of(kernel), enum)

    def test_a_line_names_the_fastest_and_what_the_others_took(self):
        text = TILES.replace("0000000000000007", "0000000000000008")
        self.assertEqual(tiles.table(text)[-2],
                         "wgmma bf16          28672 x 4096       8 rows: 16x16 79.3 us; 8x16 91.0")
        self.assertEqual(tiles.table(TILES)[1],
                         "grouped wgmma fp8   28672 x 4096      8 groups of     4 rows: 8x64 60.0 us; 16x64 50.0")

    def test_the_kernel_beside_cublaslt(self):
        zeros = " 0000000000000000" * 6
        text = f"tile wgmma fp8 or cublaslt 4096 x 14336 rows 512 = 0000000000000002 0000ea600000c350{zeros}\n"
        self.assertEqual(tiles.table(text), ["wgmma fp8 or cublaslt   4096 x 14336    512 rows: cublaslt 60.0 us; own 50.0"])

    def test_bounds_of_a_table_are_those_that_cost_least_over_all_products(self):
        # At 8 rows 8x64 is the best of one product and 1 ns behind with the other, where 16x64 takes twice its time.
        self.assertEqual(tiles.bounds(TILES)[0],
                         "grouped wgmma fp8, 2 products: up to 4 rows 16x64 (+0.0 %), more 8x64 (+0.0 %)")
        self.assertEqual(tiles.bounds(TILES)[1], "wgmma bf16, 1 products: more 16x16 (+0.0 %)")


class Ratios(unittest.TestCase):
    def test_pytorchs_best_and_every_setting_of_the_same_work(self):
        line, = ratios.compare([RECORD], ANSWERS)
        self.assertEqual((line["label"], line["best"], line["best_us"], line["ratio"]),
                         ("sdpa flash bf16", "cudnn", 18.0, 0.9))
        self.assertEqual(line["ratios"], {"cudnn": 0.9, "math": 3.0})
        self.assertEqual(ratios.refused(ANSWERS), ["efficient: no GQA"])

    def test_records_of_a_case_with_several_shapes_are_told_apart(self):
        record = {"op": "paged_attention", "case": "latent", "backend": "flash", "precision": "bf16",
                  "shape": [4, 128, 32768, 576]}
        self.assertEqual(ratios.label(record), "latent flash bf16 4x128x32768x576")
        self.assertEqual(ratios.label({**record, "selected": 2048}),
                         "latent flash bf16 4x128x32768x576 2048 keys chosen")
        self.assertEqual(ratios.label({**record, "softcap": 50.0}), "latent flash bf16 4x128x32768x576 cap 50")
        self.assertEqual(ratios.label({**record, "alibi": True}), "latent flash bf16 4x128x32768x576 ALiBi")
        self.assertEqual(ratios.label({"op": "experts", "case": "qwen3-30b", "layer": "up", "precision": "int4",
                                       "shape": [32, 128, 8, 1536, 2048]}),
                         "qwen3-30b up int4 32x128x8x1536x2048")

    def test_without_pytorch_there_is_no_ratio(self):
        line, = ratios.compare([RECORD], [])
        self.assertIsNone(line["ratio"])
        self.assertEqual(ratios.told(line), "sdpa flash bf16 20 us, 0.50 of roof")


    def test_what_misses_its_goal_is_named(self):
        lines = ratios.compare([RECORD], [])
        self.assertEqual(ratios.under(lines, 0), [])
        self.assertEqual(ratios.under(lines, 0.5), [])
        self.assertEqual(ratios.under(lines, 0.9), ["under the goal of 0.90 of roof: sdpa flash bf16 0.50"])

    def test_efficient_is_held_to_twice_flashs_time(self):
        other = {**RECORD, "backend": "efficient", "median_us": 41.0}
        self.assertEqual(ratios.slower_than_flash([RECORD, other]), ["over 2 times FLASH's time: sdpa efficient bf16 2.05"])
        self.assertEqual(ratios.slower_than_flash([RECORD, {**other, "median_us": 40.0}]), [])
        self.assertEqual(ratios.slower_than_flash([{**RECORD, "precision": "fp16"}, other]), [], "other work")


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

    def test_a_digest_has_the_machine_what_failed_and_a_line_for_each_measurement(self):
        made = self.open()
        made.add("machine", name="device", value="cuda (H100)")
        made.add("record", "table_2", **RECORD)
        made.add("peer", "table_2", **ANSWERS[0])
        made.add("row", "table_2", verdict="pass", seconds=1.0, result="1 record", logs=[])
        made.add("row", "mixes_1", verdict="FAIL", seconds=2.0, result="bits | differ", logs=[])
        text = "\n".join(results.digest(made))
        for line in ("### cuda (H100)", "1 of 2 rows passed.", "- mixes_1 FAIL: bits \\| differ",
                     "| sdpa flash bf16 | 20 | 0.50 | 18 (cudnn) | 0.90 |"):
            self.assertIn(line, text)

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

    def test_end_all_ends_what_other_threads_wait_for(self):
        script = "import sys; sys.path.insert(0, sys.argv[1])\n" + textwrap.dedent("""
            import pathlib, processes, threading, time
            def wait():
                try:
                    processes.run(["sleep", "60"], None, pathlib.Path(sys.argv[2]), 50)
                except processes.Failure as failure:
                    print(failure)
            thread = threading.Thread(target=wait)
            thread.start()
            while not processes.running:
                time.sleep(0.01)
            processes.end_all()
            thread.join()
            wait()
        """)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", script, str(FOLDER), f"{folder}/log"], capture_output=True,
                                  text=True, timeout=40, check=True)
        self.assertRegex(done.stdout, r"(?s)signal 9.*(signal 9|not done)")


if __name__ == "__main__":
    unittest.main()
