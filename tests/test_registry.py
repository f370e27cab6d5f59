"""Built-in names, and what they lead to."""

import pytest

from skerry.errors import SkerryError
from skerry.plugins import registry

ENTRIES = [(kind, name) for kind, names in registry.KINDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_built_in_name_leads_to_something_that_can_be_called(kind, name):
    """A name has no colon, which would make it a user's reference; what it leads to is ours."""
    assert name.isidentifier()
    assert registry.KINDS[kind][name].startswith("skerry.")
    assert registry.name_fault(kind, name) is None
    assert callable(registry.resolve(kind, name))
    reference = registry.KINDS[kind][name].partition("(")[0]
    assert registry.resolve(kind, reference) is registry.resolve(kind, name)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_an_unknown_name_is_told_with_the_known_ones(kind):
    with pytest.raises(SkerryError, match=f"unknown {kind} 'zzzz'. Available: ") as caught:
        registry.resolve(kind, "zzzz")
    assert all(name in str(caught.value) for name in registry.KINDS[kind])


@pytest.mark.parametrize("kind", registry.KINDS)
def test_a_fault_inside_a_built_in_is_not_taken_for_the_users(kind):
    """A bug of ours must show its traceback; a user's error becomes one line."""
    name = next(iter(registry.KINDS[kind]))
    with pytest.raises(ZeroDivisionError), registry.users_own(kind, name):
        1 / 0  # noqa: B018
    with pytest.raises(SkerryError, match="failed"), registry.users_own(kind, "mine:function"):
        1 / 0  # noqa: B018
