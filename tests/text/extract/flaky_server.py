"""A real HTTP server that fails on request: truncates bodies, asks to wait, ignores ranges."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from penstock.text.download import http


class FlakyServer:
    """Serves ``files``; ``troubles`` are used up one per request, first come first served."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.troubles: list[str] = []
        # Path to where it has moved: a URL or a path.
        self.redirects: dict[str, str] = {}
        self.gives_parts = True
        self.has_etag = True
        # (path, Range header) of every request.
        self.requests: list[tuple[str, str | None]] = []
        # The headers of the last request.
        self.headers: dict[str, str] = {}
        self.url = ""


@contextmanager
def flaky_server() -> Iterator[FlakyServer]:
    state = FlakyServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.requests.append((self.path, asked))
            state.headers = dict(self.headers)
            if self.path in state.redirects:
                self.send_response(302)
                self.send_header("Location", state.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            trouble = state.troubles.pop(0) if state.troubles else ""
            if trouble == "hang up":
                self.close_connection = True
                return
            if trouble.isdigit():
                self.send_response(int(trouble))
                self.send_header("Retry-After", "0")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = state.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            etag = f'"{hashlib.md5(content).hexdigest()}"'
            begin, end = 0, len(content)
            unchanged = self.headers.get("If-Range", etag) == etag
            if asked and state.gives_parts and unchanged:
                first, _, last = asked.removeprefix("bytes=").partition("-")
                begin, end = int(first), min(int(last) + 1 if last else len(content), len(content))
                if begin >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
            else:
                self.send_response(200)
            if state.has_etag:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(end - begin))
            self.end_headers()
            if trouble == "break off":
                self.wfile.write(content[begin : begin + (end - begin) // 2])
                self.close_connection = True
            else:
                self.wfile.write(content[begin:end])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        http._connections.cache_clear()
