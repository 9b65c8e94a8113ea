"""The door: other web sites in the same browser may not use the page, under whatever name they call this computer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, final

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
_REFUSAL = b"this page is for the computer it runs on: open it by its own address"


@final
class OwnPageOnly:
    """Lets requests through that were sent to this server by name and, where a page sent them, by its own page.

    A browser sends forms from any site to any address, and a site may give its own name this computer's address; both
    show in the headers Origin and Host.
    """

    def __init__(self, app: App, *, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] in ("http", "websocket") and not self._ours(dict(scope["headers"])):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": _REFUSAL})
            return
        await self.app(scope, receive, send)

    def _ours(self, headers: dict[bytes, bytes]) -> bool:
        host, origin = (headers.get(name, b"").decode("latin-1").lower() for name in (b"host", b"origin"))
        return host in self.hosts and (not origin or origin.partition("://")[2] in self.hosts)
