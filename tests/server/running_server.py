"""Starts the server for a test, talks to it, stops it. Standard library only."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time


class RunningServer:
    """`sprat serve` on a free port of the loopback interface, until close()."""

    def __init__(self, program, model, *options, wait=True, environment=None, prefix=()):
        models = [] if "--model" in options else ["--model", f"m={model}"]
        self.process = subprocess.Popen(
            [*prefix, program, "serve", *models, "--port", "0", *map(str, options)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        self.log = []
        self.output = []
        self._threads = [
            threading.Thread(target=self._collect, args=(self.process.stderr, self.log)),
            threading.Thread(target=self._collect, args=(self.process.stdout, self.output)),
        ]
        for thread in self._threads:
            thread.start()
        self.port = self._await_port()
        if wait:
            self.await_ready()

    def _collect(self, stream, lines):
        for line in stream:
            lines.append(line.rstrip("\n"))

    def _await_port(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for line in list(self.log):
                if found := re.search(r"listening on https?://.*:(\d+)$", line):
                    return int(found[1])
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.close()
        raise RuntimeError("the server does not listen:\n" + "\n".join(self.log))

    def await_ready(self):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.request("GET", "/health").status == 200:
                return
            time.sleep(0.02)
        self.close()
        raise RuntimeError("the server does not become ready:\n" + "\n".join(self.log))

    def connection(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, connection=None):
        """One request; the answer has .status, .headers, .body (bytes) and .json()."""
        own = connection or self.connection()
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        head = {"Content-Type": "application/json"} if body is not None else {}
        own.request(method, path, body=body, headers={**head, **(headers or {})})
        answer = Answer(own.getresponse())
        if connection is None:
            own.close()
        return answer

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def raw(self, data, timeout=20):
        """Sends bytes as they are and returns all that comes back until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as sock:
            sock.sendall(data)
            return read_all(sock)

    def metric(self, name):
        text = self.request("GET", "/metrics").body.decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        """Stops the server, by force if it does not end by itself; returns its exit status."""
        if self.process.poll() is None:
            self.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "killed: it did not end"
        for thread in self._threads:
            thread.join()
        self.process.stderr.close()
        self.process.stdout.close()
        return status


def write_keys(folder, *keys):
    """A file of API keys, one a line; its path."""
    path = os.path.join(folder, "keys")
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(f"{key}\n" for key in keys))
    return path


def cpu_seconds(pid):
    """The time that the threads of a process have had."""
    tasks = f"/proc/{pid}/task"
    total = 0
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat", encoding="ascii") as schedstat:
            total += int(schedstat.read().split()[0])  # ns on a CPU
    return total / 1e9


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


def read_all(sock):
    received = b""
    while True:
        try:
            part = sock.recv(65536)
        except ConnectionResetError:
            break
        if not part:
            break
        received += part
    return received
