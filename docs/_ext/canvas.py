"""A few shapes to draw with. Colours are the site's own variables, so that drawings follow its light and dark dress."""

from __future__ import annotations

from html import escape

PARTIES = {"bank": "#2f86c1", "telecom": "#c9752d", "shop": "#3f9b5f", "coordinator": "#9068bd", "plain": "#8b8b8b"}

STYLE = """
.kcagc-drawing text { font: 14px system-ui, sans-serif; fill: var(--color-foreground-primary, #1c1c1c); }
.kcagc-drawing .dim { fill: var(--color-foreground-secondary, #5a5a5a); font-size: 12.5px; }
.kcagc-drawing .strong { font-weight: 600; }
.kcagc-drawing .mono { font-family: ui-monospace, monospace; font-size: 13px; }
.kcagc-drawing .box { fill: var(--color-background-secondary, #f6f7f8); }
.kcagc-drawing .line { stroke: var(--color-foreground-secondary, #5a5a5a); fill: none; stroke-width: 1.5; }
.kcagc-drawing .head { fill: var(--color-foreground-secondary, #5a5a5a); }
"""


class Canvas:
    """Collects shapes, and gives them as one SVG element."""

    def __init__(self, name: str, width: int, height: int, title: str) -> None:
        self._name, self._size, self._title = name, (width, height), title
        self._shapes: list[str] = []

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        """Write a line."""
        self._shapes.append(f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, lines: list[str], who: str = "plain") -> None:
        """Draw a box with lines of text in its middle, the first of them strong."""
        self._shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="box" '
            f'stroke="{PARTIES[who]}" stroke-width="1.8"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, line, "strong" if number == 0 else "dim")

    def arrow(self, x1: float, y1: float, x2: float, y2: float, *, both: bool = False) -> None:
        """Draw a straight arrow."""
        start = f' marker-start="url(#{self._name}-head)"' if both else ""
        self._shapes.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="line"{start} marker-end="url(#{self._name}-head)"/>'
        )

    def path(self, shape: str, *, dashed: bool = False, arrow: bool = False) -> None:
        """Draw a line of any shape."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        head = f' marker-end="url(#{self._name}-head)"' if arrow else ""
        self._shapes.append(f'<path d="{shape}" class="line"{dash}{head}/>')

    def rule(self, x1: float, y1: float, x2: float, y2: float, who: str) -> None:
        """Draw a line in a party's colour."""
        self._shapes.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{PARTIES[who]}" stroke-width="2.2"/>'
        )

    def dot(self, x: float, y: float, radius: float, who: str, *, hollow: bool = False) -> None:
        """Draw a point."""
        fill = "none" if hollow else PARTIES[who]
        self._shapes.append(
            f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{fill}" stroke="{PARTIES[who]}" stroke-width="2"/>'
        )

    def svg(self) -> str:
        """Give the drawing."""
        width, height = self._size
        head = (
            f'<marker id="{self._name}-head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" class="head"/></marker>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="kcagc-drawing" role="img" '
            f'aria-label="{escape(self._title)}" style="max-width:{width}px;width:100%;height:auto">'
            f"<style>{STYLE}</style><defs>{head}</defs>{''.join(self._shapes)}</svg>"
        )
