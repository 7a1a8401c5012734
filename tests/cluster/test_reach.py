"""What is told where S3 is not set up rightly: what is wrong, and which variables to set."""

from collections.abc import Iterator, Mapping

import pytest

from acker.core.errors import StoreError
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from tests.kit.object_store import BUCKET, running_object_store

STORE = Store(f"s3a://{BUCKET}/store", "numbers")
KEYS = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION"
NO_ROLE = {"AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"}  # no other place to ask for credentials
NONE = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
UNKNOWN = (
    f"There are no credentials for {STORE.path(LEDGER)}. Set {KEYS}, and AWS_ENDPOINT_URL where the server "
    "is not that of AWS."
)
REFUSED = (
    f"S3 refuses the credentials for {STORE.path(LEDGER)}. Check {KEYS}, AWS_ENDPOINT_URL, and what these "
    "credentials may do there."
)


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with running_object_store(tmp_path_factory.mktemp("s3"), is_atomic=True) as found:
        yield found


def told(store: Store, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
        if not value:
            monkeypatch.delenv(name)
    with pytest.raises(StoreError) as raised:
        store.require(LEDGER)
    assert raised.value.table == store.path(LEDGER)
    return str(raised.value)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("wrong", "wanted"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, REFUSED),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, REFUSED),
        (
            {"AWS_REGION": "eu-west-1"},
            f"The bucket {BUCKET} is in another region than AWS_REGION says. Set AWS_REGION to it, and check "
            "AWS_ENDPOINT_URL.",
        ),
        (NONE | NO_ROLE, UNKNOWN),
        (
            NONE | {"AWS_ENDPOINT_URL": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "nobody"},
            UNKNOWN,
        ),
    ],
    ids=["wrong secret", "unknown key", "wrong region", "no key", "no key and no server"],
)
def test_wrong_credentials_are_told(
    wrong: Mapping[str, str], wanted: str, variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(STORE, {**variables, **wrong}, monkeypatch) == wanted


@pytest.mark.extended
def test_a_bucket_that_is_missing_is_told(
    variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("s3a://pond/store", "numbers")
    assert told(store, variables, monkeypatch) == (
        f"There is no bucket pond for {store.path(LEDGER)}. Make it, or check the path, AWS_REGION and "
        "AWS_ENDPOINT_URL."
    )
