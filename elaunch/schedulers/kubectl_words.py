"""What kubectl's complaints mean. Values only: its text in, exit code and one line out."""

from __future__ import annotations

import re
from dataclasses import dataclass

BAD_INPUT, NOT_FOUND, REFUSED, UNREACHABLE, SLOW, NO_PERMISSION = 2, 66, 68, 69, 74, 77
_FROM_SERVER = re.compile(r"[Ee]rror from server(?: \((\w+)\))?: (.*)")
_REASONS = {
    "NotFound": NOT_FOUND,
    "AlreadyExists": REFUSED,
    "Conflict": REFUSED,
    "Forbidden": NO_PERMISSION,
    "Unauthorized": NO_PERMISSION,
    "Invalid": BAD_INPUT,
    "BadRequest": BAD_INPUT,
    "Timeout": SLOW,
    "ServerTimeout": SLOW,
    "TooManyRequests": UNREACHABLE,
    "InternalError": UNREACHABLE,
    "ServiceUnavailable": UNREACHABLE,
}
_SIGNS = (
    # kubectl fetches the schema before it validates: no fault of the object.
    (re.compile(r"failed to download openapi"), UNREACHABLE),
    (re.compile(r"no matches for kind|doesn't have a resource type|could not find the requested resource"), NOT_FOUND),
    (re.compile(r"You must be logged in|[Uu]nauthorized|getting credentials"), NO_PERMISSION),
    (re.compile(r"exceeded quota|forbidden"), NO_PERMISSION),
    (re.compile(r"^The \S+ \S+ is invalid|ValidationError|unknown field|error validating|strict decoding"), BAD_INPUT),
    (re.compile(r"timed out waiting|did not answer within"), SLOW),
)
_MISSING_KIND = re.compile(r'no matches for kind "(\w+)"|resource type "(\w+)"')
_ADVICE = {
    "elasticjob": "kubectl apply -k deploy/kubernetes/overlays/dev installs ElasticJob and its operator",
    "jobset": "this cluster has no JobSet controller; --kind=job needs none",
}
_NO_ADVICE = re.compile(r"[;,] if you choose to ignore these errors.*")  # it would not help
_LONGEST = 600  # characters of a line


@dataclass(frozen=True, slots=True)
class Complaint:
    """``unknown_kind``: the cluster has no objects of that kind."""

    exit_code: int
    text: str
    unknown_kind: bool = False


def complaint(said: str) -> Complaint:
    """What kubectl said when it failed; without a sign of a cause the cluster counts as out of reach."""
    text = _NO_ADVICE.sub("", " ".join(said.split()))[:_LONGEST] or "kubectl said nothing"
    missing = _MISSING_KIND.search(text)
    if missing is not None:
        kind = (missing[1] or missing[2]).lower().removesuffix("s")
        return Complaint(NOT_FOUND, f"{text}; {_ADVICE[kind]}" if kind in _ADVICE else text, unknown_kind=True)
    found = _FROM_SERVER.search(text)
    if found is not None and found[1] in _REASONS:
        quota = "exceeded quota" in found[2]
        return Complaint(REFUSED if quota else _REASONS[found[1]], f"the cluster refused it ({found[1]}): {found[2]}")
    if "unknown field" in text:
        return Complaint(
            BAD_INPUT, f"{text}; what this release of Kubernetes does not know it would leave out in silence"
        )
    for sign, code in _SIGNS:
        if sign.search(text):
            return Complaint(code, text)
    return Complaint(UNREACHABLE, text)
