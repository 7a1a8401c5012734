"""The tests of the example pipelines are those of an author; here they use the server of all tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def shared_server(remote: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPELINE_TEST_REMOTE", remote)
        yield
