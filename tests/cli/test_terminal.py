"""The status of a running role: phases, participants, bytes, and a remaining time only if it is known."""

from io import StringIO

from rich.console import Console

from kcagc.cli.terminal import RunStatus
from kcagc.protocol.effects import REPORT_STAGE, Progress
from kcagc.runtime.driver import RoleStatus


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def shown(status):
    console = Console(file=StringIO(), width=100)
    console.print(status.table())
    return console.file.getvalue()


def new_status():
    clock = Clock()
    return RunStatus("bank", clock), clock


def test_at_the_start_everything_is_unknown():
    one, _ = new_status()
    assert (one.phase, one.waiting, one.traffic, one.left) == (
        "starting",
        "not connected yet",
        "nothing yet",
        "unknown",
    )
    assert "unknown" in shown(one)


def test_finished_phases_stay_with_their_durations():
    one, clock = new_status()
    one.progress(Progress("filtering"))
    clock.now += 2.5
    one.progress(Progress("joint clustering: iteration", 1, 100, limit=True))
    clock.now += 1
    lines = shown(one).splitlines()
    assert [line.split() for line in lines if "filtering" in line] == [["done", "filtering", "2.5", "s"]]
    assert next(line.split() for line in lines if "iteration" in line) == [
        *("now", "joint", "clustering:", "iteration", "1", "1.0", "s"),
    ]


def test_the_number_of_iterations_is_a_limit_so_the_remaining_time_is_an_upper_bound():
    one, clock = new_status()
    for number in range(1, 6):
        one.progress(Progress("joint clustering: iteration", number, 100, limit=True))
        clock.now += 2
    assert one.left == "unknown: it ends when no node moves; at most 3 min 10 s, 2.0 s a round"


def test_two_rounds_are_too_few_to_measure():
    one, clock = new_status()
    for number in (1, 2):
        one.progress(Progress("iteration", number, 10, limit=True))
        clock.now += 1
    assert one.left == "unknown"


def test_a_phase_with_a_known_total_has_an_estimate():
    one, clock = new_status()
    for done in (0, 100, 200, 300):
        one.progress(Progress("predicting", done, 1000))
        clock.now += 3
    assert one.left == "about 21.0 s"
    assert "predicting 300 of 1000" in shown(one)


def test_a_new_phase_measures_its_own_rounds():
    one, clock = new_status()
    for number in range(1, 6):
        one.progress(Progress("one: iteration", number, 10, limit=True))
        clock.now += 1
    one.progress(Progress("two: iteration", 1, 10, limit=True))
    assert one.left == "unknown"


def test_status_shows_awaited_and_disconnected_participants_and_bytes():
    one, _ = new_status()
    one.connections(RoleStatus(("coordinator",), (), 1_234_567, 890))
    assert one.waiting == "coordinator"
    assert one.traffic == "1.2 MB sent, 890 bytes received"
    one.connections(RoleStatus(("coordinator",), ("shop",), 0, 0))
    assert one.waiting == "shop (not connected)"
    one.connections(RoleStatus((), (), 0, 0))
    assert one.waiting == "no participant: this role is computing"
    assert one.line().startswith("starting; waiting for no participant")


def test_after_the_end_the_table_shows_no_waiting_and_does_not_change():
    one, clock = new_status()
    one.progress(Progress("joint clustering: iteration", 3, 100, limit=True))
    one.connections(RoleStatus(("coordinator",), (), 10, 20))
    clock.now += 0.25
    one.end()
    ended = shown(one)
    clock.now += 50
    assert shown(one) == ended
    assert [line.split()[0] for line in ended.splitlines()] == ["role", "done", "bytes"]
    assert "250 ms" in ended


def test_text_of_other_roles_cannot_control_the_terminal():
    one, _ = new_status()
    one.progress(Progress("[red]stage\x1b[2J"))
    one.connections(RoleStatus(("[bold]\x1b]0;x\x07",), (), 0, 0))
    text = shown(one)
    assert "\x1b" not in text
    assert "[red]stage" in text
    assert "[bold]" in text


def test_while_the_report_is_written_nobody_is_waited_for_and_no_time_is_promised():
    one, clock = new_status()
    one.progress(Progress("joint clustering: iteration", 3, 100, limit=True))
    one.connections(RoleStatus(("coordinator",), (), 10, 20))
    for step in range(1, 5):
        one.progress(Progress(REPORT_STAGE, step, 7))
        clock.now += 8
    assert one.phase == "writing the report 4 of 7"
    assert one.waiting == "no participant: the session has ended"
    assert one.left == "unknown"
    assert one.traffic == "10 bytes sent, 20 bytes received"
    assert [line.split()[0] for line in shown(one).splitlines()][:3] == ["role", "done", "now"]
