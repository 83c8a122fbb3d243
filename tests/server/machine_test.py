#!/usr/bin/env python3
"""What the server makes of its machine: CPUs it may use, GPUs that are not there, older processors.

    machine_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import concurrent.futures
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import GOOD, Arguments, main
from running_server import RunningServer

# A fake /sys/fs/cgroup, seen by the command alone.
IN_CGROUP = "mount --bind \"$0\" /sys/fs/cgroup && exec \"$@\""


def may_mount(folder):
    command = ["unshare", "-m", "sh", "-c", IN_CGROUP, folder, "true"]
    return shutil.which("unshare") and subprocess.run(command, capture_output=True).returncode == 0


def count_threads(server):
    """Once their number stays: those that opened the model may still be ending."""
    tasks = f"/proc/{server.process.pid}/task"
    counts = [len(os.listdir(tasks))]
    while len(counts) < 4 or len(set(counts[-4:])) > 1:
        if len(counts) == 100:
            raise AssertionError(f"the number of threads does not stay: {counts}")
        time.sleep(0.1)
        counts.append(len(os.listdir(tasks)))
    return counts[-1]


class Cpus(unittest.TestCase):
    def check_threads(self, threads, *options, prefix=()):
        server = RunningServer(Arguments.program, Arguments.tiny, *options, prefix=prefix)
        try:
            serving = [line for line in server.log if "serving 'm'" in line]
            self.assertTrue(serving[0].endswith(f" {threads} threads"), serving)
            server.post("/v1/embeddings", GOOD)  # the batcher's thread comes with the first
            before = count_threads(server)
            with concurrent.futures.ThreadPoolExecutor(32) as pool:
                answers = pool.map(lambda _: server.post("/v1/embeddings", GOOD), range(64))
                self.assertEqual({answer.status for answer in answers}, {200})
            self.assertEqual(count_threads(server), before)
        finally:
            self.assertEqual(server.close(), 0)

    def test_b107_threads_follow_affinity_or_the_option(self):
        self.check_threads(1, prefix=("taskset", "-c", "0"))
        self.check_threads(3, "--threads", "3")
        self.check_threads(3, "--threads", "3", prefix=("taskset", "-c", "0"))

    def test_b107_threads_follow_the_quota(self):
        with tempfile.TemporaryDirectory() as folder:
            if not may_mount(folder):
                self.skipTest("a mount namespace is not allowed here")
            prefix = ("unshare", "-m", "sh", "-c", IN_CGROUP, folder)
            cpus = len(os.sched_getaffinity(0))
            for quota, threads in (("100000 100000", 1), ("50000 100000", 1),
                                   (f"{cpus}50000 100000", cpus), ("max 100000", cpus)):
                with open(os.path.join(folder, "cpu.max"), "w", encoding="ascii") as file:
                    file.write(quota + "\n")
                self.check_threads(threads, prefix=prefix)


class Gpus(unittest.TestCase):
    hidden = {"CUDA_VISIBLE_DEVICES": ""}

    def test_b111_without_one_the_cpu_serves(self):
        for device in ("auto", "cpu"):
            server = RunningServer(
                Arguments.program, Arguments.tiny, "--device", device, environment=self.hidden
            )
            try:
                self.assertEqual(server.post("/v1/embeddings", GOOD).status, 200)
                serving = [line for line in server.log if "serving 'm'" in line]
                self.assertEqual(len(serving), 1, server.log)
                self.assertIn(" on cpu, ", serving[0])
            finally:
                self.assertEqual(server.close(), 0)

    def test_b111_one_that_is_asked_for_and_not_there_is_an_error(self):
        command = [Arguments.program, "serve", "--model", Arguments.tiny, "--port", "0"]
        ended = subprocess.run(
            [*command, "--device", "cuda"], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, **self.hidden},
        )  # fmt: skip
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stderr, r"device 'cuda': .*(CUDA|driver)")


@unittest.skipUnless(shutil.which("qemu-x86_64"), "there is no qemu-x86_64")
@unittest.skipIf("SPRAT_TEST_SANITIZED" in os.environ, "a sanitizer's memory does not fit qemu's")
class Processors(unittest.TestCase):
    def test_b113_older_ones_serve_the_same_vectors(self):
        os.environ.pop("SPRAT_FORCE_ISA", None)
        server = RunningServer(Arguments.program, Arguments.tiny)
        body = {"input": ["good morning", "a longer text, of some words " * 6, ""]}
        try:
            expected = server.post("/v1/embeddings", body).json()["data"]
        finally:
            self.assertEqual(server.close(), 0)
        # Without any vectors but SSE2, with SSE4.2, with AVX2.
        for cpu in ("qemu64", "Westmere", "Haswell"):
            prefix = ("qemu-x86_64", "-cpu", cpu)
            old = RunningServer(Arguments.program, Arguments.tiny, "--threads", "2", prefix=prefix)
            try:
                rows = old.post("/v1/embeddings", body).json()["data"]
                for row, want in zip(rows, expected):
                    for a, b in zip(row["embedding"], want["embedding"]):
                        self.assertAlmostEqual(a, b, delta=1e-5)
            finally:
                self.assertEqual(old.close(), 0, cpu)


if __name__ == "__main__":
    main()
