"""The report in a real Chromium: quiet, readable in light and dark and on a phone, by keyboard and by screen reader."""

from itertools import pairwise

import pytest

pytestmark = pytest.mark.browser

KINDS = ["party", "coordinator", "party that sums", "tree", "prediction", "crowded", "hostile"]
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
    wanted = page.evaluate("document.querySelectorAll('a, summary, [tabindex=\"0\"]').length")
    hidden = page.evaluate("document.querySelectorAll('details:not([open]) > :not(summary) [tabindex]').length")
    hidden += page.evaluate("document.querySelectorAll('details:not([open]) > [tabindex]').length")
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
    assert len(reached) == wanted - hidden
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
