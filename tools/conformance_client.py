"""The client that the MCP conformance suite runs: `treadle.mcp.MCP`, and an agent that calls tools.

The suite says in the environment which scenario it plays, and gives its server's address last.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, urlopen

from mcp.client.auth.extensions.client_credentials import SignedJWTParameters

from treadle import Agent
from treadle.mcp import MCP, ClientCredentials, IdentityAssertion, OAuth
from treadle.mcp.auth import Auth
from treadle.testing import ScriptedModel, calls

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
REDIRECT = "http://localhost:3030/callback"
PUBLISHED = "https://conformance-test.local/client-metadata.json"


class _NoRedirect(HTTPRedirectHandler):
    """Shows a redirect in place of following it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""


async def sign_in(address: str) -> str:
    """Be a person whose browser is sent back at once."""

    def visit() -> str:
        try:
            answer = build_opener(_NoRedirect).open(Request(address), timeout=10)  # noqa: S310 the suite's own
        except OSError as redirected:
            headers: Any = getattr(redirected, "headers", None) or {}
            return headers.get("Location") or ""
        return answer.geturl()

    return await asyncio.to_thread(visit)


def fetched(address: str, **form: str) -> dict[str, Any]:
    """Return the JSON at an address; a form is posted."""
    body = urlencode(form).encode() if form else None
    with urlopen(Request(address, body), timeout=10) as answer:  # noqa: S310 the suite's own
        return json.load(answer)


def issuer_of(url: str) -> str:
    """Return the authorization server of a scenario; who has credentials knows it beforehand."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    return fetched(place)["authorization_servers"][0]


def employee(url: str, context: dict[str, Any]) -> IdentityAssertion:
    """Be somebody whom an identity provider knows."""

    async def assertion(audience: str, resource: str) -> str:
        kinds = "urn:ietf:params:oauth:token-type"
        answer = await asyncio.to_thread(
            fetched,
            context["idp_token_endpoint"],
            grant_type="urn:ietf:params:oauth:grant-type:token-exchange",
            requested_token_type=f"{kinds}:id-jag",
            subject_token=context["idp_id_token"],
            subject_token_type=f"{kinds}:id_token",
            client_id=context["idp_client_id"],
            audience=audience,
            resource=resource,
        )
        return answer["access_token"]

    return IdentityAssertion(
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        issuer=issuer_of(url),
        assertion=assertion,
    )


def credentials(scenario: str, url: str, context: dict[str, Any]) -> Auth | None:
    """Return what a scenario wants the client to show."""
    if not scenario.startswith("auth/"):
        return None
    if scenario == "auth/client-credentials-basic":
        return ClientCredentials(
            client_id=context["client_id"],
            client_secret=context["client_secret"],
            issuer=issuer_of(url),
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=context["client_id"],
            subject=context["client_id"],
            signing_key=context["private_key_pem"],
            signing_algorithm=context["signing_algorithm"],
        )
        return ClientCredentials(
            client_id=context["client_id"],
            assertion=signed.create_assertion_provider(),
            issuer=issuer_of(url),
        )
    if scenario == "auth/cross-app-access-complete-flow":
        return employee(url, context)
    return OAuth(
        redirect_uri=REDIRECT,
        sign_in=sign_in,
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=PUBLISHED,
    )


async def play(url: str) -> None:
    """Connect, and let an agent call every tool."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    auth = credentials(scenario, url, context)
    async with MCP.http(url, auth=auth, elicit=lambda _: {}, prefix=False) as server:
        turns = [
            calls((f"c{index}", tool.name, ARGUMENTS.get(tool.name, {})))
            for index, tool in enumerate(server.tools)
        ]
        agent = Agent("conformance", ScriptedModel([*turns, "done"]), tools=server.tools)
        result = await agent.run("Use every tool.")
        for each in result.tool_results:
            print(f"{each.name}: {each.text}")
        if any(each.is_error for each in result.tool_results):
            sys.exit(1)


if __name__ == "__main__":
    asyncio.run(play(sys.argv[-1]))
