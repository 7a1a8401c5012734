"""The deliberate bugs are kept in step with the code and the tests; `make mutants` makes them."""

from collections import Counter

import pytest

from tests.kit import ROOT
from tests.mutants.listed import MUTANTS, Mutant

by_name = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@by_name
def test_no_mutant_is_stale(mutant: Mutant) -> None:
    code = (ROOT / mutant.file).read_text()
    assert mutant.applied_to(code) != code


@by_name
def test_the_tests_that_catch_a_mutant_are_there(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_a_stale_mutant_is_named() -> None:
    stale = Mutant("it is off", "some.py", "on = True", "on = False", ())
    with pytest.raises(ValueError, match="'it is off' is stale: its text is 2 times in"):
        stale.applied_to("on = True\non = True\n")


def test_mutants_have_names_of_their_own() -> None:
    assert set(Counter(mutant.name for mutant in MUTANTS).values()) == {1}
