"""Run an extractor in its own process, so that a record on which it hangs or crashes costs only that record.

Some pages keep a parser busy for hours, a few end it with a segmentation fault, and Python cannot interrupt a library's
C code. So the extractor runs in a separate process, which the kernel ends when one record has used up its CPU time. The
limit is on CPU time and not on elapsed time, so a busy machine does not change the result.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

import cloudpickle

from penstock.text.extract.outcome import Damaged, Skipped
from penstock.text.extract.records import DocumentExtractor

Outcome = dict[str, Any] | Skipped | Damaged | None
_LENGTH = struct.Struct("<Q")
# Parsers fragment the memory of their process; above this size it is replaced.
_MAX_RESIDENT_BYTES = 1 << 30
_SERVE = "from penstock.text.extract.guard import serve; serve()"


def extract_or_explain(extractor: DocumentExtractor, record: dict[str, Any]) -> Outcome:
    """Return the result of an extractor; an exception becomes ``Damaged`` with the reason."""
    try:
        return extractor.extract(record)
    except Exception as error:
        return Damaged(f"{type(extractor).__name__} failed: {type(error).__name__}: {error}"[:500])


class Guard:
    """An extractor in its own process, started on first use."""

    def __init__(self, extractor: DocumentExtractor, cpu_limit_s: float) -> None:
        self._extractor = extractor
        self._cpu_limit_s = cpu_limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def extract_all(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Return the outcome of each record."""
        outcomes: list[Outcome] = []
        while len(outcomes) < len(records):
            outcomes.extend(self._extract_some(records[len(outcomes) :]))
        return outcomes

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.kill()
            process.wait()

    def _extract_some(self, records: Sequence[dict[str, Any]]) -> list[Outcome]:
        """Return the outcomes of the records up to one that ended the process, or of all."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        outcomes: list[Outcome] = []
        try:
            _send(process.stdin, list(records))
            while len(outcomes) < len(records):
                outcome, resident = _receive(process.stdout)
                outcomes.append(outcome)
        except (EOFError, BrokenPipeError):
            outcomes.append(Damaged(self._reason_of_exit(process)))
            self.close()
            return outcomes
        if resident > _MAX_RESIDENT_BYTES:
            self.close()
        return outcomes

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        # Its own session: a signal to all processes of a run must not look like a record that crashes the extractor.
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _send(process.stdin, (cloudpickle.dumps(self._extractor), self._cpu_limit_s))
            _receive(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            self.close()
            raise RuntimeError(f"the process for {type(self._extractor).__name__} does not start") from error
        return process

    def _reason_of_exit(self, process: subprocess.Popen[bytes]) -> str:
        name = type(self._extractor).__name__
        code = process.wait()
        if code == -signal.SIGPROF:
            return f"{name} took more than {self._cpu_limit_s:g} s of CPU time"
        if code < 0:
            return f"{name} crashed ({signal.Signals(-code).name})"
        return f"{name} ended its process (exit status {code})"


def serve() -> None:
    """Extract the records received on standard input until it ends; runs in the process of a guard."""
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of a library must not mix with the replies
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # these are for the driver to handle
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    pickled, cpu_limit_s = _receive(requests)
    extractor = pickle.loads(pickled)
    _send(replies, None)
    while True:
        try:
            records = _receive(requests)
        except EOFError:
            return
        for record in records:
            signal.setitimer(signal.ITIMER_PROF, cpu_limit_s)
            outcome = extract_or_explain(extractor, record)
            signal.setitimer(signal.ITIMER_PROF, 0)
            _send(replies, (outcome, _resident_bytes()))


def _resident_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _send(pipe: IO[bytes], message: Any) -> None:  # noqa: ANN401 - whatever pickles
    data = pickle.dumps(message, protocol=5)
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:  # noqa: ANN401
    length = pipe.read(_LENGTH.size)
    if len(length) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(length)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)
