"""Slurm's lists of hosts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elaunch.schedulers.hostlist import MOST, counts, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n1,m2", "n1 m2"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[1-2,4]", "n1 n2 n4"),
        ("n[1-2,4],gpu[01-03]", "n1 n2 n4 gpu01 gpu02 gpu03"),
        ("gpu[08-11]", "gpu08 gpu09 gpu10 gpu11"),
        ("gpu[8-11]", "gpu8 gpu9 gpu10 gpu11"),
        ("gpu[098-101]", "gpu098 gpu099 gpu100 gpu101"),
        ("gpu[1,02,003]", "gpu1 gpu02 gpu003"),
        ("gpu[01-02]-ib", "gpu01-ib gpu02-ib"),
        ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
        ("r[1-2]n[08-09,3]-x,login", "r1n08-x r1n09-x r1n3-x r2n08-x r2n09-x r2n3-x login"),
        ("[1-2]", "1 2"),
        ("[1-2].cluster.example", "1.cluster.example 2.cluster.example"),
        ("n[3-3]", "n3"),
        ("n[2,1]", "n2 n1"),
        ("a[1-2][5-6]", "a15 a16 a25 a26"),
    ],
)
def test_lists_are_read(text: str, names: str) -> None:
    assert expand(text) == tuple(names.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty name"),
        ("n1,", "empty name"),
        ("n1, n2", "empty name"),
        ("n[1-2", "do not match"),
        ("n1]", "do not match"),
        ("n[[1]]", "do not match"),
        ("n[]", "no list of numbers"),
        ("n[1-]", "no list of numbers"),
        ("n[a-b]", "no list of numbers"),
        ("n[1:2]", "no list of numbers"),
        ("n[٣]", "no list of numbers"),
        ("n[3-1]", "counts down"),
        ("n[1-99999999]", "more than"),
        ("n[1-9999999999]", "no list of numbers"),
        ("a[1-999]b[1-999]", "more than"),
        ("a[1-60000],b[1-60000]", "more than"),
    ],
)
def test_what_is_no_list_is_refused_and_nothing_large_is_made(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        expand(text)


def test_a_long_bad_list_is_not_repeated_in_full() -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the length is looked at
        expand("n[" + "1," * 10_000)
    assert len(str(error.value)) < 200


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}(-ib)?", fullmatch=True), min_size=1, max_size=20))
def test_plain_names_are_themselves(names: list[str]) -> None:
    assert expand(",".join(names)) == tuple(names)


@given(st.integers(0, 10**6), st.integers(0, 300), st.integers(1, 7))
def test_a_range_has_each_number_once_as_wide_as_its_first(low: int, more: int, width: int) -> None:
    first = str(low).zfill(width)
    names = expand(f"n[{first}-{low + more}]")
    assert [int(name[1:]) for name in names] == list(range(low, low + more + 1))
    assert all(len(name) - 1 == max(len(first), len(str(int(name[1:])))) for name in names)


@given(st.text(alphabet="n019[],-x ", max_size=30))
def test_whatever_it_is_names_or_a_value_error_follow(text: str) -> None:
    try:
        names = expand(text)
    except ValueError:
        return
    assert 0 < len(names) <= MOST
    assert not any(set(name) & set("[],") for name in names)


def test_counts_of_each_node() -> None:
    assert counts("2(x3),1") == (2, 2, 2, 1)
    assert counts("4") == (4,)
    for bad in ("", "x", "2(x", "2(x999999)", "-1", "1,,2"):
        with pytest.raises(ValueError, match="counts"):
            counts(bad)
