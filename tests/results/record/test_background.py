"""Work on a thread: in order, one piece at a time, and what it raises reaches the caller."""

import threading

import pytest

from fedsim.results.record.background import Background


def test_pieces_of_work_follow_each_other() -> None:
    aside, done, began = Background("test"), list[int](), threading.Event()

    def first() -> None:
        assert began.wait(60)
        done.append(1)

    aside.start(first)
    began.set()
    aside.start(lambda: done.append(2))
    aside.wait()
    aside.wait()
    assert done == [1, 2]
    assert not [each for each in threading.enumerate() if each.name == "test"]


@pytest.mark.parametrize("then", ["start", "wait"])
def test_what_a_piece_raises_is_told_by_every_call_that_follows(then: str) -> None:
    aside, done = Background("test"), list[int]()

    def fail() -> None:
        raise OSError("full")

    aside.start(fail)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            aside.wait() if then == "wait" else aside.start(lambda: done.append(1))
    aside.settle()
    assert not done


def test_where_no_thread_can_be_started_the_caller_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    names = list[str]()
    Background("test").start(lambda: names.append(threading.current_thread().name))
    assert names == [threading.current_thread().name]
