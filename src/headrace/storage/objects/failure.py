"""What obstore's exceptions mean: whose fault, whether to try again, what to do. Pure.

Only the status, the error's code and the store's own sentence are told of an answer: the rest
of it repeats what was sent, with what it was signed by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from headrace.core.errors import (
    AccessError,
    CallerError,
    HeadraceError,
    NotFoundError,
    StorageError,
)
from headrace.storage.objects.address import Kind


class Fault(Enum):
    """Who failed, and so what a retry is worth."""

    MISSING = "there is no such object, or no such bucket"
    NAME = "the store's library takes no such name, of an object or of a host"
    RANGE = "the object ends before the bytes that were asked for"
    KEYLESS = "nobody gives keys to ask with: they may come, as a pod's do a moment after its start"
    AWAY = "nobody answers, or the answer was cut off: it may be back soon"
    BUSY = "the store asks for fewer requests"
    CLOSED = "this user may not, or is nobody whom the store knows"
    REFUSED = "the store understood and refuses"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed request."""

    fault: Fault
    reason: str
    """What happened and what to do, for the end of a message."""

    def error(self, tried: str) -> HeadraceError:
        """Return the error for a request that was described as ``read x``, ``list y`` …."""
        kinds = {
            Fault.MISSING: NotFoundError,
            Fault.NAME: CallerError,
            Fault.CLOSED: AccessError,
        }
        return kinds.get(self.fault, StorageError)(f"cannot {tried}: {self.reason}")


_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"(?:<Code>|\(code: )(\w{1,64})[<)]")
_SENTENCE = re.compile(r"<Message>([^<]{1,300})</Message>")

_KEYS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN where keys are "
    "temporary), AWS_PROFILE, or the role of the instance or container",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT, or the service account of "
    "the instance",
    "az": "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_CLIENT_ID with "
    "AZURE_CLIENT_SECRET and AZURE_TENANT_ID, or the identity of the instance",
}

_ANYBODY = {
    "s3": "AWS_SKIP_SIGNATURE=true",
    "gs": "GOOGLE_SKIP_SIGNATURE=true",
    "az": "AZURE_SKIP_SIGNATURE=true",
}
"""What has a public bucket asked without keys."""

# Sentences of obstore are looked for whole: a key may hold any word of them.
_ROLES = ("/latest/api/token", "/latest/meta-data", "Error performing token request")
"""In the text of a request for the keys of a role, rather than for an object."""

_NAMES = ("contained empty path segment", "whilst parsing path segment")
"""In the text of what obstore says of a name."""

_HOSTS = ("IdnaError", "InvalidUri")
"""In the text of a panic over an endpoint, or a bucket that becomes part of a host's name."""

_SKEWED = "the clock of this host is wrong: the store takes requests of a few minutes; set it"

_CODES = {
    "InvalidAccessKeyId": "AWS_ACCESS_KEY_ID is none that the store knows",
    "SignatureDoesNotMatch": "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID",
    "ExpiredToken": "AWS_SESSION_TOKEN has expired; get new keys",
    "InvalidToken": "AWS_SESSION_TOKEN does not belong to the keys",
    "TokenRefreshRequired": "AWS_SESSION_TOKEN has expired; get new keys",
    "RequestTimeTooSkewed": _SKEWED,
    "RequestExpired": _SKEWED,
    "AccessDenied": "these keys may not; let them, or use others",
}
"""What codes of a 400 or 403 mean, and what to do."""

_REGION = "the bucket is in another region, or the endpoint's is another; set AWS_REGION"

_REGION_CODES = ("PermanentRedirect", "AuthorizationHeaderMalformed", "TemporaryRedirect")

_TRY_AGAIN = (408, 429, 500, 502, 503, 504)


def judge(error: BaseException, *, kind: Kind, bucket: str, endpoint: str) -> Failure:
    """Return what an exception out of obstore means.

    Args:
        error: The exception.
        kind: Whose protocol is spoken.
        bucket: The bucket's name.
        endpoint: Where it is, for messages.
    """
    text = str(error)
    status, code = _found(_STATUS, text), _found(_CODE, text)
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return Failure(Fault.MISSING, f"there is no bucket {bucket}; check the spelling")
    if isinstance(error, FileNotFoundError):
        return Failure(Fault.MISSING, "no such file")
    if any(mark in text for mark in _ROLES):
        return Failure(Fault.KEYLESS, _keyless(kind))
    if any(mark in text for mark in _NAMES):
        return Failure(Fault.NAME, _unnameable(text))
    if status or code:
        told = " ".join(part for part in (status, code, _sentence(text)) if part)
        return _judge_answer(int(status or 400), code, told, kind)
    return _judge_silence(error, text, endpoint)


def is_panic(error: BaseException) -> bool:
    """Tell whether obstore came to a state that it takes for impossible; no ``Exception``."""
    return type(error).__name__ == "PanicException"


def _keyless(kind: Kind) -> str:
    return (
        f"no keys are set, and no role gives any; set {_KEYS[kind]}; or, for a public bucket, "
        f"{_ANYBODY[kind]}"
    )


def _judge_answer(status: int, code: str, told: str, kind: Kind) -> Failure:
    if status == 416:
        return Failure(Fault.RANGE, told)
    if code in _REGION_CODES or status in (301, 307):
        return Failure(Fault.REFUSED, f"{told}; {_REGION}")
    if code in _CODES or status in (401, 403):
        advice = _CODES.get(code, f"are the keys right, and may they? Look at {_KEYS[kind]}")
        return Failure(Fault.CLOSED, f"{told}; {advice}")
    if status in (429, 503) or code in ("SlowDown", "ServerBusy"):
        advice = "it throttles: ask it less often, by larger shards or fewer readers"
        return Failure(Fault.BUSY, f"{told}; {advice}")
    is_passing = status in _TRY_AGAIN
    return Failure(Fault.AWAY if is_passing else Fault.REFUSED, f"{told}; look at the store's log")


def _judge_silence(error: BaseException, text: str, endpoint: str) -> Failure:
    """Return what an exception means that no answer is told in."""
    if "Received redirect without LOCATION" in text:
        return Failure(Fault.REFUSED, _REGION)
    if is_panic(error) and any(mark in text for mark in _HOSTS):
        return Failure(Fault.NAME, f"no host can be called so; is {endpoint} right, or the bucket?")
    if "HTTP error" in text or "error sending request" in text or isinstance(error, OSError):
        return Failure(
            Fault.AWAY, f"{_silence(text)} at {endpoint}; is it up, and is that the endpoint?"
        )
    return Failure(Fault.REFUSED, f"obstore says {type(error).__name__}: {_first_line(text)}")


def _silence(text: str) -> str:
    if "Connect" in text:
        return "nobody can be connected to"
    return "no answer came in time" if "TimedOut" in text else "the connection broke off"


def _unnameable(text: str) -> str:
    return (
        f"obstore takes no such name ({_first_line(text)}); names that are empty, '.' or '..', or "
        "hold control characters cannot be read: rename the object"
    )


def _sentence(text: str) -> str:
    sentence = _first_line(_found(_SENTENCE, text))
    return f"({sentence})" if sentence else ""


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:300].strip()
