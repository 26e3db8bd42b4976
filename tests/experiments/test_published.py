from experiments.paper import published
from experiments.paper.experiment import NAMES, PUBLIC, Options, experiment


def test_the_paper_has_sixty_four_and_sixteen_cells_of_accuracy_and_twice_sixty_four_of_time():
    every = [(name, many, number) for name in PUBLIC for many in published.LOCAL for number in published.PARTIES]
    assert len(every) == 64
    assert all(published.utility(name, "kcagc", many, number) for name, many, number in every)
    assert all(published.utility(name, "basic", parties=number) for name in PUBLIC for number in published.PARTIES)
    assert all(published.seconds(net, *cell[:1], *cell[1:]) for net in ("lan", "wan") for cell in every)
    assert all(published.utility(name, method) for name in PUBLIC for method in ("agc", "gcc"))


def test_numbers_are_found_where_the_paper_prints_them():
    assert published.utility("cora", "kcagc", "2k", 4) == (72.44, 0.51)
    assert published.utility("wiki", "basic", parties=16) == (52.02, 1.02)
    assert published.seconds("wan", "wiki", "8k", 16) == 1944.19
    assert published.seconds("lan", "cora", "k", 2) == 1.16
    assert published.utility("demo", "kcagc", "k", 2) is None
    assert published.seconds("lan", "demo", "k", 2) is None


def test_every_name_has_an_experiment_with_cells_that_are_all_different():
    for name in NAMES:
        one = experiment(name)
        assert one.name == name
        for options in (Options(), Options(quick=True), Options(("demo",), quick=True)):
            cells = [str(sorted(cell.items())) for cell in one.cells(options)]
            assert cells
            assert len(cells) == len(set(cells))


def test_the_utility_table_has_every_cell_of_the_paper_with_five_seeds_in_both_configurations():
    cells = experiment("utility").cells(Options())
    for one in ("paper", "default"):
        of_one = [cell for cell in cells if cell.get("configuration") == one and "components" not in cell]
        assert sum(cell["method"] == "kcagc" for cell in of_one) == 5 * 64
        assert sum(cell["method"] == "basic" for cell in of_one) == 5 * 16
    assert {cell["variant"] for cell in cells if cell["method"] == "literal"} == {"basic", "kcagc"}


def test_time_is_measured_in_every_cell_of_the_paper_alone():
    for name in ("lan", "wan"):
        one = experiment(name)
        assert one.alone
        assert sum(cell["configuration"] == "paper" for cell in one.cells(Options())) == 64
