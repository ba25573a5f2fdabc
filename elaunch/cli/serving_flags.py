"""The options of what a job serves, and to whom: certificates and tokens, page and metrics."""

from __future__ import annotations

from elaunch.cli.flag import Flag

SECURITY = (
    Flag(
        "tls_cert",
        "this job's certificate, for DNS:elaunch",
        metavar="FILE",
        ours=True,
        own_variable="ELAUNCH_TLS_CERT",
    ),
    Flag("tls_key", "the key to it", metavar="FILE", ours=True, own_variable="ELAUNCH_TLS_KEY"),
    Flag(
        "tls_ca",
        "the authority that signed it, and must have signed those of all peers",
        metavar="FILE",
        ours=True,
        own_variable="ELAUNCH_TLS_CA",
    ),
    Flag(
        "token_file",
        "tokens and their roles: agent, operator, viewer",
        metavar="FILE",
        ours=True,
        own_variable="ELAUNCH_TOKEN_FILE",
    ),
)

WEB = (
    Flag(
        "web",
        "serve the job's page and /metrics while this node leads (loopback without HOST)",
        metavar="[HOST:]PORT",
        ours=True,
    ),
    Flag(
        "web_actions",
        "without a token file: whoever reaches the page may act (loopback only)",
        "flag",
        False,
        ours=True,
    ),
    Flag(
        "web_names",
        "host names by which the page is asked for",
        "list",
        (),
        metavar="NAME,...",
        ours=True,
        own_variable="ELAUNCH_WEB_NAMES",
    ),
    Flag("otel", "tell recoveries as OpenTelemetry traces while this node leads", "flag", False, ours=True),
)
