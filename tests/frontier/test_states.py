"""Every arrow of the tables of states, and every one that is not there."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from crawler.frontier.states import LEASE, NO, QUEUE, change_lease, change_queue


@pytest.mark.parametrize(("change", "table"), [(change_lease, LEASE), (change_queue, QUEUE)])
def test_each_event_in_each_state_leads_where_the_table_says_or_is_refused(change, table) -> None:
    reached = set()
    for event, row in table.items():
        for before, after in enumerate(row):
            each = SimpleNamespace(state=before)
            if after == NO:
                with pytest.raises(RuntimeError):
                    change(each, event)
            else:
                change(each, event)
                assert each.state == after
                reached.add(after)
    assert reached >= set(range(len(row))) - ({0, 3} if table is LEASE else set()), (
        "some leases begin outside or closed"
    )
