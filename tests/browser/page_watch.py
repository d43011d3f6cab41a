"""What pages did that they should not: complain, or ask for something elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Error, Page, Request


@dataclass
class PageWatch:
    """Of any number of pages. allowed: parts of complaints that the test provokes."""

    allowed: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, page: Page, origin: str) -> None:
        """From now on."""

        def console(said: ConsoleMessage) -> None:
            if said.type in ("error", "warning"):
                self.complain(said.text)

        def failed(error: Error) -> None:
            self.complain(str(error))

        def asked(request: Request) -> None:
            if not request.url.startswith(f"{origin}/"):
                self.elsewhere.append(request.url)

        page.on("console", console)
        page.on("pageerror", failed)
        page.on("request", asked)

    def complain(self, text: str) -> None:
        if not any(part in text for part in self.allowed):
            self.complaints.append(text)
