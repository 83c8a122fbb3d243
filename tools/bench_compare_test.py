"""Tests what bench_compare.py reads and when it calls a change real."""

import json
import unittest

import bench_compare


class ParseTest(unittest.TestCase):
    def test_google_benchmark(self):
        entries = [
            {"name": "Dot/8", "run_type": "iteration", "real_time": 1500.0, "time_unit": "ns"},
            {"name": "Dot/8_mean", "run_type": "aggregate", "real_time": 9.0, "time_unit": "ns"},
            {"name": "Layer", "run_type": "iteration", "real_time": 2.0, "time_unit": "ms"},
        ]
        output = json.dumps({"context": {}, "benchmarks": entries}, indent=1)
        self.assertEqual(bench_compare.parse(output), {"Dot/8": 1.5, "Layer": 2000.0})

    def test_sprat_bench(self):
        line = {"tokens": 8, "batch": 1, "threads": 2, "min_us": 900, "p50_us": 1000}
        other = line | {"tokens": 32, "p50_us": 3000.5}
        output = json.dumps(line) + "\n" + json.dumps(other) + "\n"
        self.assertEqual(
            bench_compare.parse(output),
            {"tokens=8 batch=1 threads=2": 1000.0, "tokens=32 batch=1 threads=2": 3000.5},
        )
        self.assertEqual(
            bench_compare.parse(json.dumps(line)), {"tokens=8 batch=1 threads=2": 1000.0}
        )


class CompareTest(unittest.TestCase):
    def answer(self, old, new):
        runs = [[{"x": time} for time in times] for times in (old, new)]
        (verdict,) = bench_compare.compare(*runs)
        return verdict.answer

    def test_ranges_that_do_not_overlap(self):
        self.assertEqual(self.answer([10, 12], [8, 9.9]), "faster")
        self.assertEqual(self.answer([10, 12], [12.1, 13]), "slower")

    def test_ranges_that_overlap_are_the_same(self):
        self.assertEqual(self.answer([10, 12], [8, 10]), "same")
        self.assertEqual(self.answer([10, 12], [12, 20]), "same")
        self.assertEqual(self.answer([10, 12], [11, 11]), "same")

    def test_only_what_every_run_has(self):
        verdicts = bench_compare.compare([{"a": 1, "b": 2}, {"a": 1}], [{"a": 1, "b": 2}])
        self.assertEqual([verdict.name for verdict in verdicts], ["a"])


if __name__ == "__main__":
    unittest.main()
