"""Requests of other web sites are refused, the page's own go through."""

import asyncio

import pytest

from emrdm.serve.guard import OwnPageOnly

HOSTS = frozenset(("127.0.0.1:7860", "localhost:7860"))


def answer(kind="http", **headers):
    """What a request with these headers gets: the application's "welcome", or the messages of a refusal."""
    sent = []

    async def app(scope, receive, send):
        sent.append("welcome")

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    asyncio.run(OwnPageOnly(app, hosts=HOSTS)(scope, None, send))
    return sent


@pytest.mark.parametrize("host", ["127.0.0.1:7860", "localhost:7860", "LOCALHOST:7860"])
def test_the_page_itself_comes_in(host):
    assert answer(host=host) == ["welcome"]
    assert answer(host=host, origin=f"http://{host}") == ["welcome"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "evil.example:7860"},  # a name that was given this computer's address
        {"host": "127.0.0.1:7860", "origin": "http://evil.example"},
        {"host": "127.0.0.1:7860", "origin": "http://127.0.0.1:8000"},
        {"host": "127.0.0.1:7860", "origin": "null"},
        {"host": "127.0.0.1:7860", "origin": "http://evil.example/127.0.0.1:7860"},
    ],
)
def test_others_stay_outside(headers):
    start, body = answer(**headers)
    assert start["status"] == 403
    assert b"open it by its own address" in body["body"]
    (closed,) = answer("websocket", **headers)
    assert closed["type"] == "websocket.close"


def test_what_is_no_request_goes_through():
    assert answer("lifespan") == ["welcome"]
