"""The real app behind a real server, and the browser that visits it; for the benchmarks and for the tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""The program of the browser; None where none is installed."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
"""A browser without a screen that finds no other machine."""
START = 60.0
"""Most seconds until a server answers."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run the app on a fresh server and give its address.

    Args:
        folder: working directory, whose ``checkpoints/`` and ``.streamlit/`` the app finds; the log is written there.

    Raises:
        RuntimeError: the server ended or did not answer; the message is its log.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.port", str(port)]
    command += ["--server.headless", "true", "--server.address", "127.0.0.1"]
    log = folder / "server.log"
    with log.open("wb") as output:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, process, log)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a screen.

    Raises:
        ImportError: playwright is not installed.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"The server does not answer. Its log:\n{log.read_text(encoding='utf-8', errors='replace')}")
