import pytest

from experiments.paper.experiment import Options
from experiments.paper.store import Book, Records, Stat
from experiments.paper.tables import difference, printed, spread, table, with_difference


@pytest.fixture
def records(tmp_path):
    found = Records(tmp_path / "some.json")
    for parties in (16, 2):
        for seed, value in enumerate((60.0, 62.0)):
            config = {"dataset": "cora", "parties": parties, "seed": seed}
            found.add(config, {"accuracy": value + parties, "seconds": None}, 0.1)
    return found


def test_mean_and_deviation_are_those_of_the_seeds(records):
    assert records.stat("accuracy", parties=2) == Stat(63.0, 1.0, 2)
    assert records.stat("accuracy").n == 4


def test_what_is_not_there_has_no_mean(records):
    assert records.stat("accuracy", parties=4) is None
    assert records.stat("seconds") is None
    assert records.one(parties=4) is None


def test_a_value_that_a_configuration_lacks_is_none(records):
    records.add({"dataset": "cora", "parties": 2, "seed": 0, "components": "2k"}, {"accuracy": 0.0}, 0.1)
    assert records.stat("accuracy", parties=2, components=None).n == 2
    assert records.stat("accuracy", parties=2, components="2k").n == 1


def test_numbers_come_in_their_order(records):
    assert records.values("parties") == [2, 16]


def test_graphs_come_in_the_papers_order_and_others_after_them(records):
    for name in ("wiki", "demo", "citeseer"):
        records.add({"dataset": name, "seed": 0}, {"accuracy": 1.0}, 0.1)
    assert records.values("dataset") == ["cora", "citeseer", "wiki", "demo"]


def test_the_same_cell_is_kept_once_whatever_the_order_of_its_words(records):
    records.add({"seed": 0, "parties": 2, "dataset": "cora"}, {"accuracy": 1.0}, 0.1)
    assert len(records) == 4
    assert records.one(parties=2, seed=0) == {"accuracy": 1.0}


def test_a_file_reads_back_as_it_was_written(records):
    again = Records(records.path)
    assert list(again.all()) == list(records.all())
    assert again.runs == records.runs


def test_a_run_whose_cells_were_all_computed_again_is_forgotten(tmp_path):
    told = iter([{"commit": "a", "when": "1"}, {"commit": "b", "when": "2"}, {"commit": "b", "when": "3"}])
    records = Records(tmp_path / "some.json", lambda: next(told))
    records.add({"seed": 0}, {"x": 1}, 0.0)
    records.add({"seed": 1}, {"x": 1}, 0.0)
    assert list(records.runs) == ["run-1", "run-2"]
    records.add({"seed": 0}, {"x": 2}, 0.0)
    assert Records(records.path).runs == {"run-2": {"commit": "b", "when": "2"}}


def test_experiments_have_a_file_each(tmp_path):
    book = Book(tmp_path)
    book["one"].add({"seed": 0}, {"x": 1}, 0.0)
    assert len(book["two"]) == 0
    assert (tmp_path / "one.json").exists()


def test_a_dataset_that_the_paper_does_not_know_stands_in_for_any():
    assert Options(("demo",)).pick("cora") == ("demo",)
    assert Options(("pubmed",)).pick("cora", "wiki") == ()
    assert Options().pick("cora", "wiki") == ("cora", "wiki")
    assert Options(("wiki", "demo")).pick("cora", "wiki") == ("wiki", "demo")


def test_numbers_are_written_as_the_paper_writes_them():
    assert spread(Stat(67.812, 1.777, 5)) == "67.81 ± 1.78"
    assert spread(Stat(67.812, 0.0, 1)) == "67.81"
    assert spread(None) == printed(None) == difference(None, 1.0) == "–"
    assert printed((67.8, 0.1)) == "67.80 ± 0.10"


def test_a_cell_below_the_papers_is_bold_and_one_at_it_is_not():
    assert difference(Stat(66.0, 1.0, 5), 67.0) == "**−1.00**"
    assert difference(Stat(67.001, 1.0, 5), 67.0) == "+0.00"
    assert difference(Stat(66.999, 1.0, 5), 67.0) == "+0.00"
    assert with_difference(Stat(68.0, 0.5, 5), (67.0, 0.1)) == "68.00 ± 0.50 (+1.00)"


def test_a_table_has_as_many_columns_in_every_line():
    lines = table(["a", "b", "c"], [["1", "2", "3"], ["4", "5", "6"]], left=2).splitlines()
    assert {line.count("|") for line in lines} == {4}
    assert lines[1] == "| :--- | :--- | ---: |"
