#!/usr/bin/env python3
"""A server's life: loading, keys, TLS, sockets, several models, the end.

    life_test.py PROGRAM MODEL TINY_MODEL [unittest arguments]
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

from harness import GOOD, Arguments, decoded, main
from running_server import RunningServer, read_all, write_keys

GOLDEN = os.path.join(os.path.dirname(__file__), "../../testdata/golden")


class Keys(unittest.TestCase):
    def test_b95_forms_of_the_header(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = write_keys(folder, "k-1")
            server = RunningServer(
                Arguments.program, Arguments.model, "--api-keys", keys, "--access-log"
            )
            try:
                self.check_forms(server)
                write_keys(folder, "k-2", "k-3")
                server.process.send_signal(signal.SIGHUP)
                self.await_key(server, "k-2", 200)
                self.await_key(server, "k-1", 401)
                write_keys(folder, "")  # a mistake: the keys stay
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.2)
                self.await_key(server, "k-3", 200)
            finally:
                self.assertEqual(server.close(), 0)
            self.assertFalse([line for line in server.log + server.output if "k-1" in line])
            self.assertEqual(json.loads(server.output[-1])["path"], "/v1/embeddings")

    def check_forms(self, server):
        for header, status in (
            ({"Authorization": "Bearer k-1"}, 200),
            ({"authorization": "bearer k-1"}, 200),
            ({"Authorization": "BEARER  k-1"}, 200),
            ({"Authorization": "Bearer K-1"}, 401),
            ({"Authorization": "Bearer k-1x"}, 401),
            ({"Authorization": "Bearer "}, 401),
            ({"Authorization": "k-1"}, 401),
            ({}, 401),
        ):
            answer = server.post("/v1/embeddings", GOOD, headers=header)
            self.assertEqual(answer.status, status, header)
            if status == 401:
                self.assertIn("error", answer.json())
        for path in ("/health", "/ready", "/metrics"):
            self.assertEqual(server.request("GET", path).status, 200)
        info = server.request("GET", "/info")
        self.assertEqual(info.status, 401)
        self.assertEqual(set(info.json()), {"error", "error_type"})  # B89

    def await_key(self, server, key, status):
        for _ in range(100):
            header = {"Authorization": f"Bearer {key}"}
            answer = server.post("/v1/embeddings", GOOD, headers=header)
            if answer.status == status:
                return
            time.sleep(0.02)
        self.assertEqual(answer.status, status)

    def test_b95_an_empty_key_file_is_refused(self):
        with tempfile.NamedTemporaryFile("w") as keys:
            command = [Arguments.program, "serve", "--model", Arguments.model, "--port", "0"]
            command += ["--api-keys", keys.name]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(b"no key", ended.stderr)


class Life(unittest.TestCase):
    def test_b97_health_tells_when_models_are_ready(self):
        server = RunningServer(Arguments.program, Arguments.model, wait=False)
        try:
            seen = []
            for _ in range(2000):
                health = server.request("GET", "/health").status
                posted = server.post("/v1/embeddings", GOOD)
                answer = posted.status
                if answer == 503:
                    self.assertEqual(set(posted.json()), {"error"})
                    self.assertIn("Retry-After", posted.headers)
                seen.append((health, answer))
                if health == 200:
                    self.assertEqual(answer, 200)
                    break
                self.assertEqual(health, 503)
                self.assertIn(answer, (200, 503))
            self.assertEqual(seen[-1], (200, 200))
        finally:
            self.assertEqual(server.close(), 0)

    def test_b97_a_model_that_fails_to_load_ends_the_process(self):
        with tempfile.TemporaryDirectory() as empty:
            command = [Arguments.program, "serve", "--model", empty, "--port", "0"]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            command = [Arguments.program, "serve", "--model", Arguments.model, "--port", port]
            ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
            self.assertEqual(ended.returncode, 1)
            self.assertIn(port.encode(), ended.stderr)
            self.assertIn(b"Address already in use", ended.stderr)

    def test_terminate_under_load_answers_what_was_accepted(self):
        server = RunningServer(Arguments.program, Arguments.model)
        results = []
        stop = threading.Event()

        def client():
            while not stop.is_set():
                connection = server.connection(timeout=30)
                try:
                    connection.connect()
                except OSError:
                    return  # no longer listening
                try:
                    answer = server.post("/v1/embeddings", GOOD, connection=connection)
                    results.append(answer.status)
                except OSError as error:
                    results.append(repr(error))
                finally:
                    connection.close()

        threads = [threading.Thread(target=client) for _ in range(16)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 60
        while len(results) <= 50 and time.monotonic() < deadline:  # in full swing
            time.sleep(0.02)
        server.terminate()
        status = server.process.wait(timeout=60)
        stop.set()
        for thread in threads:
            thread.join()
        server.close()
        self.assertEqual(status, 0, server.log)
        # Connections that the kernel had taken but the server had not may be reset.
        answered = [result for result in results if isinstance(result, int)]
        self.assertGreater(answered.count(200), 50)
        self.assertLessEqual(set(answered), {200, 503})
        self.assertLessEqual(len(results) - len(answered), 16)

    def test_unix_socket_and_tcp_together(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s")
            server = RunningServer(Arguments.program, Arguments.model, "--uds", path)
            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(path)
                    sock.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    self.assertTrue(read_all(sock).startswith(b"HTTP/1.1 200 "))
                self.assertEqual(server.request("GET", "/health").status, 200)
            finally:
                self.assertEqual(server.close(), 0)
            self.assertFalse(os.path.exists(path))

    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
            command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt"]
            command += ["ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert]
            command += ["-days", "1", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"]
            subprocess.run(command, check=True, capture_output=True)
            tls = ("--tls-cert", cert, "--tls-key", key)
            server = RunningServer(Arguments.program, Arguments.model, *tls, wait=False)
            try:
                context = ssl.create_default_context(cafile=cert)
                address = ("127.0.0.1", server.port)
                body = json.dumps(GOOD).encode()
                request = (
                    b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                    b"Content-Type: application/json\r\nConnection: close\r\n\r\n%s"
                    % (len(body), body)
                )
                for _ in range(500):
                    with socket.create_connection(address, timeout=20) as raw:
                        with context.wrap_socket(raw, server_hostname="localhost") as sock:
                            sock.sendall(request)
                            received = read_all(sock)
                    if not received.startswith(b"HTTP/1.1 503"):
                        break
                    time.sleep(0.02)
                self.assertTrue(received.startswith(b"HTTP/1.1 200 "), received[:80])
            finally:
                self.assertEqual(server.close(), 0)

    def test_b91_two_models(self):
        models = (f"one={Arguments.model}", f"two={Arguments.tiny}")
        server = RunningServer(
            Arguments.program, Arguments.model, "--model", models[0], "--model", models[1]
        )
        try:
            for name, dimensions in (("one", 384), ("two", 32)):
                answer = server.post("/v1/embeddings", {"input": "a", "model": name}).json()
                self.assertEqual(answer["model"], name)
                self.assertEqual(len(answer["data"][0]["embedding"]), dimensions)
            self.assertEqual(server.post("/v1/embeddings", {"input": "a"}).status, 400)
            typo = server.post("/v1/embeddings", {"input": "a", "model": "tow"})
            self.assertEqual(typo.status, 404)
            self.assertIn("'one', 'two'", typo.json()["error"]["message"])
        finally:
            self.assertEqual(server.close(), 0)

    def test_encoders_and_static_models_have_the_reference_vectors(self):
        static = os.path.join(os.environ.get("SPRAT_TEST_MODELS", ""), "tokenlearn-static")
        golden = {"minilm": Arguments.model, "static_tokenlearn": static}
        for name, model in golden.items():
            if not os.path.isdir(model):
                self.skipTest(f"{model} is not there")
            server = RunningServer(Arguments.program, model)
            try:
                with open(f"{GOLDEN}/{name}.jsonl", encoding="utf-8") as lines:
                    rows = [json.loads(next(lines)) for _ in range(40)]
                body = {"input": [row["text"] for row in rows], "encoding_format": "base64"}
                answer = server.post("/v1/embeddings", body).json()
                for got, row in zip(answer["data"], rows):
                    vectors = [decoded(got["embedding"]), decoded(row["vector_f32le"])]
                    self.assertEqual(len(vectors[0]), len(vectors[1]))
                    for a, b in zip(*vectors):
                        self.assertAlmostEqual(a, b, delta=1e-5)
            finally:
                self.assertEqual(server.close(), 0)

    def test_similarity_is_the_cosine_where_vectors_are_not_of_unit_length(self):
        static = os.path.join(os.environ.get("SPRAT_TEST_MODELS", ""), "tokenlearn-static")
        if not os.path.isdir(static):
            self.skipTest(f"{static} is not there")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "raw")
            shutil.copytree(static, model)
            with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
                json.dump({**config, "normalize": False}, file)
            server = RunningServer(Arguments.program, model)
            try:
                (row,) = server.post("/embed", {"inputs": "good morning", "normalize": False}).json()
                self.assertGreater(abs(sum(x * x for x in row) - 1), 0.01)
                answer = server.post("/v1/embeddings", {"input": "good morning"}).json()
                self.assertEqual(answer["data"][0]["embedding"], row)  # as its files say
                texts = {"source_sentence": "good morning", "sentences": ["good morning", "tax law"]}
                same, other = server.post("/similarity", {"inputs": texts}).json()
                self.assertAlmostEqual(same, 1.0, delta=1e-6)
                rows = server.post("/embed", {"inputs": ["good morning", "tax law"]}).json()
                self.assertAlmostEqual(other, sum(a * b for a, b in zip(*rows)), delta=1e-6)
            finally:
                self.assertEqual(server.close(), 0)

    def test_systemd_is_told(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(
            socket.AF_UNIX, socket.SOCK_DGRAM
        ) as manager:
            path = os.path.join(folder, "notify")
            manager.bind(path)
            manager.settimeout(20)
            server = RunningServer(
                Arguments.program, Arguments.tiny, environment={"NOTIFY_SOCKET": path}
            )
            self.assertEqual(manager.recv(100), b"READY=1")
            self.assertEqual(server.close(), 0)
            self.assertEqual(manager.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    main()
