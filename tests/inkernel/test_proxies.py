"""Objects that are lent, without a kernel."""

import pytest

from codeact_kernel.inkernel.proxies import Lent


class Page:
    async def goto(self, url):
        return url


def test_an_object_is_lent_once_and_a_number_from_before_a_restart_finds_nothing():
    before, after, page = Lent((1, "a")), Lent((1, "a")), Page()
    number = before.lend("page", page).about[2]
    assert before.lend("again", page).about[2] == number
    assert before.find(number) is page
    after.lend("other", Page())
    with pytest.raises(LookupError, match="its kernel was restarted"):
        after.find(number)
