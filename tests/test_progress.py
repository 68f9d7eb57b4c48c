import pytest

from kinrank import progress


def test_a_listener_that_stops_a_call_leaves_no_stage_behind():
    def stop(*_):
        raise InterruptedError

    with pytest.raises(InterruptedError), progress.listen(stop), progress.stage("first", 1):
        pass
    seen = []
    with progress.listen(lambda *report: seen.append(report)), progress.stage("second", 1):
        pass
    assert seen == [("second", 0, 1), ("second", 1, 1)]
