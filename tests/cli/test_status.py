"""What a person sees of a run as it goes on: what is known, and "unknown" where it is not."""

from io import StringIO

from rich.console import Console

from kcagc.cli.terminal import RunStatus
from kcagc.protocol.effects import Progress
from kcagc.runtime.status import RoleStatus


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def shown(board):
    console = Console(file=StringIO(), width=100)
    console.print(board.table())
    return console.file.getvalue()


def board():
    clock = Clock()
    return RunStatus("bank", clock), clock


def test_nothing_is_made_up_before_anything_is_known():
    one, _ = board()
    assert (one.phase, one.waiting, one.traffic, one.left) == (
        "starting",
        "not connected yet",
        "nothing yet",
        "unknown",
    )
    assert "unknown" in shown(one)


def test_stages_that_are_done_stay_with_the_time_they_took():
    one, clock = board()
    one.progress(Progress("filtering"))
    clock.now += 2.5
    one.progress(Progress("joint clustering: iteration", 1, 100, limit=True))
    clock.now += 1
    lines = shown(one).splitlines()
    assert [line.split() for line in lines if "filtering" in line] == [["done", "filtering", "2.5", "s"]]
    assert next(line.split() for line in lines if "iteration" in line) == [
        *("now", "joint", "clustering:", "iteration", "1", "1.0", "s"),
    ]


def test_iterations_end_when_nothing_moves_so_that_only_the_most_is_told():
    one, clock = board()
    for number in range(1, 6):
        one.progress(Progress("joint clustering: iteration", number, 100, limit=True))
        clock.now += 2
    assert one.left == "unknown: it ends when no node moves; at most 3 min 10 s, 2.0 s a round"


def test_two_rounds_are_too_few_to_measure():
    one, clock = board()
    for number in (1, 2):
        one.progress(Progress("iteration", number, 10, limit=True))
        clock.now += 1
    assert one.left == "unknown"


def test_work_with_a_known_end_has_an_honest_estimate():
    one, clock = board()
    for done in (0, 100, 200, 300):
        one.progress(Progress("predicting", done, 1000))
        clock.now += 3
    assert one.left == "about 21.0 s"
    assert "predicting 300 of 1000" in shown(one)


def test_a_new_stage_forgets_the_rounds_of_the_last():
    one, clock = board()
    for number in range(1, 6):
        one.progress(Progress("one: iteration", number, 10, limit=True))
        clock.now += 1
    one.progress(Progress("two: iteration", 1, 10, limit=True))
    assert one.left == "unknown"


def test_who_is_waited_for_and_who_is_missing_and_bytes():
    one, _ = board()
    one.connections(RoleStatus(("coordinator",), (), 1_234_567, 890))
    assert one.waiting == "coordinator"
    assert one.traffic == "1.2 MB sent, 890 bytes received"
    one.connections(RoleStatus(("coordinator",), ("shop",), 0, 0))
    assert one.waiting == "shop (not connected)"
    one.connections(RoleStatus((), (), 0, 0))
    assert one.waiting == "no participant: this role is computing"
    assert one.line().startswith("starting; waiting for no participant")


def test_when_all_is_done_nobody_is_waited_for_and_the_clock_stands_still():
    one, clock = board()
    one.progress(Progress("joint clustering: iteration", 3, 100, limit=True))
    one.connections(RoleStatus(("coordinator",), (), 10, 20))
    clock.now += 0.25
    one.end()
    ended = shown(one)
    clock.now += 50
    assert shown(one) == ended
    assert [line.split()[0] for line in ended.splitlines()] == ["role", "done", "bytes"]
    assert "250 ms" in ended


def test_names_of_others_do_nothing_to_the_terminal():
    one, _ = board()
    one.progress(Progress("[red]stage\x1b[2J"))
    one.connections(RoleStatus(("[bold]\x1b]0;x\x07",), (), 0, 0))
    text = shown(one)
    assert "\x1b" not in text
    assert "[red]stage" in text
    assert "[bold]" in text
