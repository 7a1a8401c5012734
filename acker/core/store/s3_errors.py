"""Errors of S3, told to whoever set it up: the fault, and the variables to set."""

import re
from urllib.parse import urlsplit

_WHO = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
_WHY = {  # what a library says -> what is told
    r"IMDS|/latest/api/token|no credentials found|loading credentials": (
        f"There are no credentials for {{path}}. Set {_WHO}, and AWS_ENDPOINT_URL where the server is not "
        "that of AWS."
    ),
    r"<Code>NoSuchBucket": (
        "There is no bucket {bucket} for {path}. Make it, or check the path, AWS_REGION and AWS_ENDPOINT_URL."
    ),
    r"<Code>(?:AuthorizationHeaderMalformed|PermanentRedirect)|incorrectly configured region": (
        "The bucket {bucket} is in another region than AWS_REGION says. Set AWS_REGION to it, and check "
        "AWS_ENDPOINT_URL."
    ),
    r"403 Forbidden|401 Unauthorized|necessary privileges|<Code>XAdminUserNotFound": (
        f"S3 refuses the credentials for {{path}}. Check {_WHO}, AWS_ENDPOINT_URL, and what these "
        "credentials may do there."
    ),
    r"URL scheme is not allowed": (
        "The server of {path} speaks no TLS by its address. Set AWS_ALLOW_HTTP=true if that is right, else "
        "AWS_ENDPOINT_URL to an address with https."
    ),
    r"error sending request": (
        "No S3 server answers at {address}. Check AWS_ENDPOINT_URL and AWS_REGION, and run the command again."
    ),
    r"status code 5\d\d": "S3 is too busy, or out of order, at {address}. Run the command again later.",
}
_REQUEST = re.compile(r"Error performing [A-Z]+ (\w+://[^/\s]+)")


def explain_s3_error(path: str, told: str) -> str | None:
    """The fault that keeps a table on S3 out of reach, with the remedy; None where it is another fault.

    Args:
        path: of the table.
        told: the message of a library's error.
    """
    parts = urlsplit(path)
    if parts.scheme not in ("s3", "s3a"):
        return None
    request = _REQUEST.search(told)
    where = {"path": path, "bucket": parts.netloc, "address": request[1] if request else parts.netloc}
    found = (why for pattern, why in _WHY.items() if re.search(pattern, told))
    return next((why.format(**where) for why in found), None)
