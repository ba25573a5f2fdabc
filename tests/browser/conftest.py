"""A real Chromium for the page's tests, and a server of the page. Whatever the browser complains of fails a test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Error, expect, sync_playwright

from tests.browser.serving import OPERATOR, Serving

PHONE = {"width": 375, "height": 740}
PATIENCE = 60_000.0  # milliseconds for what is waited for, on a machine that is busy
expect.set_options(timeout=PATIENCE)
_DROPPED = "ERR_NETWORK_CHANGED"
_REPORT = "addEventListener('securitypolicyviolation', (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Ends with the package: while it lives no other test of the process could run an event loop."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("there is no chromium (tools/system-packages.sh installs it)")
    with sync_playwright() as driver:
        launched = driver.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=PATIENCE
        )
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def _server() -> Iterator[Serving]:
    server = Serving()
    yield server
    server.stop()


@pytest.fixture
def serving(_server: Serving) -> Serving:
    """The server, without jobs."""
    _server.reset()
    return _server


class Tabs:
    """Opens pages in contexts of their own; ``complaints`` is what the browser had to say of them."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self._expected: list[str] = []
        self.complaints: list[str] = []

    def open(self, address: str, *, token: str | None = None, **options: Any) -> Any:
        """A page at ``address``; with ``token`` in the tab's storage."""
        context = self._browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.add_init_script(_REPORT)
        if token is not None:
            page.add_init_script(f"sessionStorage.setItem('elaunch-token', '{token}')")
        self._load(page, lambda: page.goto(address))
        return page

    def reload(self, page: Any) -> None:
        self._load(page, page.reload)

    def _load(self, page: Any, load: Callable[[], Any]) -> None:
        """As often as it takes: Chromium drops requests when any interface of the machine comes or goes."""
        while True:
            try:
                load()
            except Error as error:
                if _DROPPED not in str(error):
                    raise
                continue
            if self._begun(page):
                return
            load = page.reload

    def _begun(self, page: Any) -> bool:
        """Whether the page's modules came."""
        page.wait_for_load_state()
        dropped = [text for text in self.complaints if _DROPPED in text]
        self.complaints = [text for text in self.complaints if _DROPPED not in text]
        return not dropped or page.locator("h1").count() > 0

    def open_as_operator(self, address: str, **options: Any) -> Any:
        return self.open(address, token=OPERATOR, **options)

    def expect(self, pattern: str) -> None:
        """Complaints in which ``pattern`` is found are what the test is about."""
        self._expected.append(pattern)

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    @property
    def surprises(self) -> list[str]:
        return [
            text
            for text in self.complaints
            if _DROPPED not in text and not any(re.search(one, text) for one in self._expected)
        ]

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")


@pytest.fixture
def tabs(browser: Any) -> Iterator[Tabs]:
    made = Tabs(browser)
    yield made
    made.close()
    assert made.surprises == []
