# SPDX-License-Identifier: MIT
"""Chart of the shares of the peak as an SVG: a group of bars for each shape, the peak at the end of the axis."""

from xml.sax.saxutils import escape

COLOURS = {"dispatched": "#14365c", "prefill": "#3b7dc4", "decode": "#2a9d8f", "root": "#b23a48", "mullapudi2016": "#d98e04",
           "adams2019": "#8a5a9e", "other": "#777777"}
LEFT, AXIS, RIGHT, BAR, GAP = 330, 620, 90, 15, 34


def text(x, y, words, anchor="start", size=11, weight="normal", fill="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill}">{escape(words)}</text>')


def bars(run, y, title, top, shapes, share):
    """One panel: an axis from 0 to 1 whose end is `top`, and the shapes' bars below. Returns (lines, y below the panel)."""
    out = [text(20, y, title, size=14, weight="bold")]
    y += 24
    start, rules = y, []
    for shape in shapes:
        cells = sorted((c for c in shape.measured() if share(c) is not None), key=lambda c: -share(c))
        if not cells:
            continue
        out.append(text(20, y + 12, shape.name, size=12, weight="bold"))
        y += 20
        for c in cells:
            value = share(c)
            # A bar of a tiny value is still visible; its number stands beside it.
            width = max(1.0, AXIS * min(value, 1.0))
            name = f"dispatched: {c.label}" if c.dispatched else c.variant
            out.append(text(LEFT - 6, y + BAR - 4, name, "end", 10, "bold" if c.dispatched else "normal"))
            out.append(f'<rect x="{LEFT}" y="{y + 1}" width="{width:.1f}" height="{BAR - 3}" fill="{COLOURS[c.schedule]}"/>')
            number = f"{value:.3f}" if value >= 0.01 else f"{value:.5f}"
            number += " (busy)" if run.busy(c) else ""
            inside = width > AXIS - 80
            out.append(text(LEFT + width + (-5 if inside else 5), y + BAR - 4, number, "end" if inside else "start", 10,
                            fill="#fff" if inside else "#222"))
            y += BAR
        y += GAP - 20
    for tenth in range(0, 11, 2):
        x = LEFT + AXIS * tenth / 10
        end = tenth == 10
        rules.append(f'<line x1="{x}" y1="{start - 4}" x2="{x}" y2="{y}" stroke="{"#222" if end else "#ddd"}" '
                     f'stroke-width="{2 if end else 1}"/>')
        rules.append(text(x, start - 8, top if end else f"{tenth / 10:.1f}", "middle", 11, "bold" if end else "normal"))
    return rules + out, y + GAP


def chart(run):
    y, body = 40, []
    legend = 20
    used = {c.schedule for s in run.shapes for c in s.measured()}
    for schedule, colour in COLOURS.items():
        if schedule in used:
            body.append(f'<rect x="{legend}" y="12" width="12" height="12" fill="{colour}"/>')
            body.append(text(legend + 17, 22, schedule))
            legend += 30 + 7 * len(schedule)
    y += 20
    decode = [s for s in run.shapes if any("read_fraction" in c.entry for c in s.measured())]
    for dtype in sorted(run.peaks):
        shapes = [s for s in run.shapes if s.dtype == dtype and s not in decode and s.measured()]
        if shapes:
            lines, y = bars(run, y, f"Share of the peak of multiply-adds, {dtype}", f"peak {run.peak(dtype):.0f} GFLOP/s",
                            shapes, run.share)
            body += lines
    if decode:
        lines, y = bars(run, y, "Decode: share of a plain sum over the same keys and values", "plain sum", decode,
                        lambda c: c.entry.get("read_fraction"))
        body += lines
    width, height = LEFT + AXIS + RIGHT, y
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n")
