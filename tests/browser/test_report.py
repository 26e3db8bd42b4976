"""The report in a real Chromium: quiet, readable in light and dark and on a phone, by keyboard and by screen reader."""

from itertools import pairwise
from math import atan2, degrees

import pytest

from kcagc.report.insights.explanation import explain_node
from kcagc.report.insights.nodes import NodeInsights

pytestmark = pytest.mark.browser

KINDS = ["party", "coordinator", "party that sums", "tree", "prediction", "crowded", "hostile", "million"]
every_kind = pytest.mark.parametrize("kind", KINDS)

# Every text that is seen, its colour, and the first colour behind it that is not transparent.
TEXTS = """() => {
  const back = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (at instanceof SVGElement) continue;
      if (style.backgroundColor !== 'rgba(0, 0, 0, 0)') return style.backgroundColor;
    }
    return 'rgb(255, 255, 255)';
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || ['TITLE', 'DESC', 'title', 'desc'].includes(element.tagName)) continue;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    found.push([text.slice(0, 40), colour, back(element), parseFloat(style.fontSize), parseInt(style.fontWeight)]);
  }
  return found;
}"""


@pytest.fixture
def opened(chromium, pages):
    """Open a page; whatever it says to the console or asks for is noted."""
    contexts = []

    def open_page(kind, *, width=1280, scheme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(dialog.message))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(pages[kind].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


def luminance(colour):
    parts = [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]
    assert len(parts) == 3 or parts[3] == 1, colour
    linear = [value / 255 / 12.92 if value <= 10.31 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in parts[:3]]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


@every_kind
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (390, "light")])
def test_the_page_says_nothing_to_the_console_and_asks_for_nothing_but_itself(opened, pages, kind, width, scheme):
    page = opened(kind, width=width, scheme=scheme)
    page.wait_for_timeout(150)
    assert page.said == []
    assert [url for url in page.asked if not url.startswith("data:")] == [pages[kind].as_uri()]


@every_kind
@pytest.mark.parametrize("width", [390, 320, 768, 1280])
def test_the_page_is_never_wider_than_the_screen(opened, kind, width):
    page = opened(kind, width=width)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Nothing is cut off either: what goes over the edge can be scrolled to.
    lost = page.evaluate(
        """() => [...document.querySelectorAll('main *')].filter((one) => !one.closest('.scroll, .unseen, svg'))
        .filter((one) => one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert lost == []


@every_kind
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_the_guidelines(opened, kind, scheme):
    page = opened(kind, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = page.evaluate(TEXTS)
    assert len(found) > 60
    for text, colour, behind, pixels, weight in found:
        wanted = 3.0 if pixels >= 24 or (pixels >= 18.66 and weight >= 700) else 4.5
        assert contrast(colour, behind) >= wanted, (text, colour, behind)


def test_dark_is_dark_and_light_is_light(opened):
    for scheme, dark in (("light", False), ("dark", True)):
        behind = opened("party", scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        assert (luminance(behind) < 0.05) is dark


@every_kind
def test_the_keyboard_reaches_everything_and_is_seen_where_it_is(opened, kind):
    page = opened(kind)
    wanted = page.evaluate(
        """() => [...document.querySelectorAll('a, button, input, select, summary, [tabindex="0"]')]
        .filter((one) => one.checkVisibility()).length"""
    )
    reached = []
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """() => { const one = document.activeElement, style = getComputedStyle(one);
            return one === document.body ? null : [one.tagName, one.className, style.outlineStyle]; }"""
        )
        if at is None:
            break
        reached.append(at)
    assert reached[0][:2] == ["A", "skip"]
    assert len(reached) == wanted
    assert all(outline != "none" for _, _, outline in reached)


def test_the_skip_link_leads_past_the_menu(opened):
    page = opened("party")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"


def test_the_numbers_behind_a_figure_open_by_keyboard(opened):
    page = opened("party")
    summary = page.locator("summary").first
    summary.focus()
    table = page.locator("details table").first
    assert not table.is_visible()
    page.keyboard.press("Enter")
    assert table.is_visible()


@every_kind
def test_a_screen_reader_hears_headings_in_order_and_a_name_for_every_picture(opened, kind):
    page = opened(kind)
    nodes = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    told = [
        (node["role"]["value"], node.get("name", {}).get("value", ""), node)
        for node in nodes
        if not node.get("ignored") and "role" in node
    ]
    levels = [
        next(one["value"]["value"] for one in node["properties"] if one["name"] == "level")
        for role, _, node in told
        if role == "heading"
    ]
    assert levels[0] == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    roles = {role for role, _, _ in told}
    assert {"banner", "navigation", "main", "contentinfo"} <= roles
    pictures = [name for role, name, _ in told if role in ("image", "img")]
    assert all(pictures)
    assert len(pictures) == page.locator("svg[role=img]").count()
    assert all(name for role, name, _ in told if role in ("table", "region"))


@every_kind
def test_on_paper_it_is_light_without_a_menu_and_within_the_sheet(opened, kind):
    page = opened(kind, scheme="dark")
    page.emulate_media(media="print")
    assert luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) > 0.9
    assert not page.locator("nav").is_visible()
    for text, colour, behind, _, _ in page.evaluate(TEXTS):
        assert contrast(colour, behind) >= 4.5, text
    printed = page.pdf(format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "15mm"))
    assert printed.startswith(b"%PDF")


def test_hostile_names_are_words_and_nothing_more(opened):
    page = opened("hostile")
    assert "<script>hacked=1</script>" in page.inner_text("header")
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.locator("main script, main img").count() == 0


def test_even_a_script_that_got_in_would_not_run(opened):
    page = opened("party")
    page.evaluate(
        """() => { const one = document.createElement('script'); one.textContent = 'window.hacked = 1';
        document.body.append(one); const two = document.createElement('img'); two.src = 'https://example.org/x.png';
        document.body.append(two); }"""
    )
    page.wait_for_timeout(150)
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.evaluate("document.querySelector('img').naturalWidth") == 0
    refused = [words for words in page.said if "Content Security Policy" in words]
    assert len(refused) == 2, page.said


def all_nodes(page):
    return page.evaluate("JSON.parse(document.getElementById('node-data').textContent)")


def listed(page):
    return page.locator("#node-finder tbody button").all_inner_texts()


def test_a_search_finds_a_node_by_a_part_of_its_id_the_id_itself_first(opened):
    page = opened("party")
    assert page.locator("#node-count").inner_text() == "24 nodes found, 20 of them listed"
    page.fill("#node-id", "N00")
    assert listed(page) == [f"n{number:03}" for number in range(10)]
    page.fill("#node-id", "n007")
    assert listed(page) == ["n007"]
    assert page.locator("#node-count").inner_text() == "1 node found"
    page.fill("#node-id", "nobody")
    assert listed(page) == []
    assert page.locator("#node-count").inner_text() == "no nodes found"


def test_more_nodes_are_listed_on_request(opened):
    page = opened("party")
    page.click("#node-more")
    assert len(listed(page)) == 24
    assert not page.locator("#node-more").is_visible()
    assert page.evaluate("document.activeElement.textContent") == listed(page)[20]


def test_a_filter_lists_one_cluster_and_dims_the_others_on_the_map(opened):
    page = opened("party")
    data = all_nodes(page)
    for control, other in (("#node-cluster", "#map-cluster"), ("#map-cluster", "#node-cluster")):
        page.select_option(control, "1")
        assert page.input_value(other) == "1"
        assert listed(page) == [node for node, cluster in zip(data["id"], data["cluster"], strict=True) if cluster == 1]
        dim = page.locator(".map path.points.dim").evaluate_all("(every) => every.map((one) => one.dataset.cluster)")
        assert sorted(dim) == ["0", "2"]
        page.select_option(control, "")
        assert page.locator(".map .dim").count() == 0
    page.select_option("#node-cluster", "1")
    page.fill("#node-id", "n000")
    assert set(listed(page)) <= {"n000"}


def test_a_node_of_the_list_is_explained_with_the_numbers_of_the_file(opened, pages):
    page = opened("party")
    nodes = NodeInsights.load(pages["party"].parent / "nodes.npz")
    for node in ("n003", "n010"):
        page.fill("#node-id", node)
        page.click("#node-finder tbody button")
        text = page.locator("#node-answer").inner_text()
        found = explain_node(nodes, node)
        assert f"Cluster {found.cluster}" in text
        assert f"cluster {found.alternative}" in text
        (edges,) = [one for one in found.sentences() if "edge" in one]
        assert edges.partition(";")[0].rstrip(".") in text
        for reason in found.reasons[:2]:
            assert f"Its {reason.column} is {float(f'{reason.value:.3g}'):g}; the mean of its cluster is" in text
        assert page.evaluate("document.activeElement.id") == "node-answer"
        assert page.locator(".map .ring").count() == 1
        page.click("#node-answer .close")
        assert not page.locator("#node-answer").is_visible()
        assert page.locator(".map .ring").count() == 0


def place_of(page, number):
    """Return where a node of the map is on the screen, and its id."""
    page.locator(".map svg.picture").scroll_into_view_if_needed()
    return page.evaluate(
        """(number) => {
        const data = JSON.parse(document.getElementById('node-data').textContent), [place, x, y] = data.map[number];
        const matrix = document.querySelector('.map svg.picture').getScreenCTM();
        return [matrix.a * x + matrix.e, matrix.d * y + matrix.f, data.id[place], data.cluster[place]]; }""",
        number,
    )


def test_a_point_of_the_map_names_its_node_under_the_pointer_and_opens_it_on_a_click(opened):
    page = opened("party")
    tip = page.locator(".tip")
    for number in (0, 5, 11):
        x, y, node, cluster = place_of(page, number)
        page.mouse.move(x, y)
        assert tip.is_visible()
        assert tip.inner_text().split("\n")[:2] == [node, f"Cluster {cluster}"]
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1280
    page.mouse.click(x, y)
    assert node in page.locator("#node-answer").inner_text()
    page.mouse.move(2, 2)
    assert not tip.is_visible()


def test_a_filtered_map_names_nodes_of_its_cluster_only(opened):
    page = opened("party")
    page.select_option("#map-cluster", "2")
    for number in range(0, 24, 3):
        x, y, _, _ = place_of(page, number)
        page.mouse.move(x, y)
        if page.locator(".tip").is_visible():
            assert "Cluster 2" in page.locator(".tip").inner_text()


def test_the_legend_and_the_table_of_sizes_lead_to_the_cluster(opened):
    for place in (".map .legend a", "#sizes a"):
        page = opened("party")
        page.locator(place).nth(1).click()
        assert page.url.endswith("#cluster-1")
        page.wait_for_function(
            """() => { const top = document.querySelector('#cluster-1').getBoundingClientRect().top;
            return document.querySelector('nav').getBoundingClientRect().bottom - 1 <= top && top < innerHeight; }"""
        )  # below the menu, within the window


def test_a_member_named_in_a_cluster_is_explained_on_a_click(opened):
    page = opened("party")
    link = page.locator("#cluster-2 .members a").first
    node = link.inner_text()
    link.click()
    assert page.locator("#node-answer h3").inner_text() == node


def test_everything_about_a_node_works_by_keyboard(opened):
    page = opened("party")
    page.focus("#node-id")
    page.keyboard.type("n01")
    assert len(listed(page)) == 10
    page.keyboard.press("Enter")
    assert page.locator("#node-answer h3").inner_text() == "n010"
    assert page.evaluate("document.activeElement.id") == "node-answer"
    page.keyboard.press("Escape")
    assert not page.locator("#node-answer").is_visible()
    assert page.evaluate("document.activeElement.id") == "node-id"
    page.keyboard.press("Escape")
    assert page.input_value("#node-id") == ""
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "node-cluster"
    page.keyboard.press("ArrowDown")
    assert page.input_value("#node-cluster") == "0"
    page.focus("#node-finder tbody button")
    page.keyboard.press("Enter")
    assert page.locator("#node-answer").is_visible()
    page.focus(".map .legend a")
    page.keyboard.press("Enter")
    assert page.url.endswith("#cluster-0")


def test_a_screen_reader_hears_how_many_nodes_were_found(opened):
    page = opened("party")
    assert page.locator("#node-count").get_attribute("role") == "status"
    page.get_by_label("Id, or a part of it").fill("n02")
    assert page.get_by_role("status").inner_text() == "4 nodes found"
    assert page.get_by_role("table", name="Nodes found").count() == 1


def test_without_its_script_the_page_can_be_read_and_says_what_to_do(chromium, pages):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["party"].as_uri())
    assert "kcagc explain ID" in page.locator("#node-without").inner_text()
    assert not page.locator("#node-finder").is_visible()
    assert page.locator("#cluster-0").is_visible()
    page.locator(".map .legend a").first.click()
    assert page.url.endswith("#cluster-0")
    context.close()


def test_hostile_ids_and_columns_are_words_in_everything_the_script_writes(opened):
    page = opened("hostile")
    page.fill("#node-id", "n003")
    assert len(listed(page)) == 1
    page.click("#node-finder tbody button")
    text = page.locator("#node-answer").inner_text()
    assert "<script>hacked=1</script>" in text
    assert "</script><!--" in text
    x, y, node, _ = place_of(page, 0)
    page.mouse.move(x, y)
    assert page.locator(".tip strong").inner_text() == node
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.said == []


def test_a_handler_in_an_attribute_would_not_run_and_nothing_could_be_sent(opened):
    page = opened("party")
    page.evaluate(
        """() => { document.body.insertAdjacentHTML('beforeend', '<b id="x" onclick="window.hacked = 1">x</b>');
        document.getElementById('x').click(); fetch('https://example.org/').catch(() => {}); }"""
    )
    page.wait_for_timeout(150)
    assert page.evaluate("typeof window.hacked") == "undefined"
    refused = " ".join(page.said)
    assert "Executing inline event handler violates" in refused
    assert "Refused to connect" in refused
    assert [url for url in page.asked if not url.startswith("data:")] == [page.url]


def test_a_page_of_a_million_nodes_opens_and_answers(opened, pages):
    assert pages["million"].stat().st_size <= 3_000_000
    page = opened("million")
    data = all_nodes(page)
    assert 19_900 <= len(data["id"]) <= 20_000
    assert f"a sample of {len(data['id']):,} of the 1,000,000 nodes" in page.locator("#nodes .intro").inner_text()
    page.fill("#node-id", data["id"][1234])
    assert listed(page)[0] == data["id"][1234]
    absent = next(str(number) for number in range(999_000, 1_000_000) if str(number) not in set(data["id"]))
    page.fill("#node-id", absent)
    assert "run kcagc explain" in page.locator("#node-count").inner_text()
    assert page.evaluate("performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart") < 5_000


@pytest.mark.parametrize("width", [390, 1280])
def test_row_names_stay_when_a_wide_table_is_scrolled(opened, width):
    page = opened("crowded", width=width)
    table = page.locator("#links .scroll")
    table.evaluate("(one) => { one.scrollLeft = 10000; }")
    assert table.evaluate("(one) => one.scrollLeft") > 100
    frame, name = table.bounding_box(), table.locator("tbody th").nth(3).bounding_box()
    assert abs(name["x"] - frame["x"]) <= 1
    assert name["width"] < 0.75 * frame["width"]
    last = table.locator("tbody tr").first.locator("td").last.bounding_box()
    assert last["x"] + last["width"] <= frame["x"] + frame["width"] + 1  # the last column can be reached


def test_no_word_is_broken_inside(opened):
    """Every line ends where a name may end: after a separator, or between words."""
    page = opened("crowded", width=390)
    broken = page.evaluate(
        """() => { const found = [];
        for (const one of document.querySelectorAll('main .feature, main .chip, main th, main .members a')) {
          const walker = document.createTreeWalker(one, NodeFilter.SHOW_TEXT);
          while (walker.nextNode()) {
            const node = walker.currentNode, range = document.createRange();
            let before = null;
            for (let at = 0; at < node.length; at += 1) {
              range.setStart(node, at); range.setEnd(node, at + 1);
              const box = range.getBoundingClientRect();
              const inside = /[a-z]{2}/.test(node.data.slice(at - 1, at + 1));
              if (before !== null && box.width && box.top > before + 2 && inside)
                found.push(node.data.slice(Math.max(0, at - 12), at) + '|' + node.data.slice(at, at + 12));
              if (box.width) before = box.top;
            }
          }
        } return found; }"""
    )
    assert broken == []


def test_clusters_with_one_colour_have_different_shapes_in_the_legend(opened):
    page = opened("crowded")
    looks = page.locator(".map .legend .dot").evaluate_all(
        """(every) => every.map((one) => { const style = getComputedStyle(one);
        return [style.backgroundColor, style.borderRadius, style.clipPath, style.transform].join(' '); })"""
    )
    assert len(looks) == 50
    assert len(set(looks)) == 50
    assert len({look.split(") ")[0] for look in looks}) == 16


def test_a_cluster_has_one_hue_in_light_and_dark(opened):
    def hues(scheme):
        page = opened("crowded", scheme=scheme)
        dots = page.locator(".map .legend .dot").evaluate_all(
            "(every) => every.map((one) => getComputedStyle(one).color)"
        )
        return [hue(one) for one in dots[:16]]

    for light, dark in zip(hues("light"), hues("dark"), strict=True):
        assert abs((light - dark + 180) % 360 - 180) < 12


def hue(colour):
    """Return the hue of a colour in degrees, in Oklab, where equal hues look equal."""
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    long = (0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue) ** (1 / 3)
    middle = (0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue) ** (1 / 3)
    short = (0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue) ** (1 / 3)
    one = 1.9779984951 * long - 2.428592205 * middle + 0.4505937099 * short
    two = 0.0259040371 * long + 0.7827717662 * middle - 0.808675766 * short
    return degrees(atan2(two, one))
