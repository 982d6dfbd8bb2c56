# SPDX-License-Identifier: MIT
"""A run as an SVG: for each cell the time of the best peer over ours, on a logarithmic axis, what we lose on top."""

import math
from xml.sax.saxutils import escape

from measure import quantile
from report import groups, share

COLOURS = ("#b23a48", "#d98e04", "#3b7dc4")  # lost, closer than wanted, the rest
LEFT, AXIS, RIGHT, BAR, TOP = 380, 460, 330, 18, 70
TICKS = (0.25, 0.5, 1, 1.25, 2, 4, 8, 16, 32, 64)


def text(x, y, words, anchor="start", size=11, weight="normal"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="#222">'
            f"{escape(words)}</text>")


def chart(results, machine):
    sections = [(title, colour, members) for (title, members), colour in zip(groups(results), COLOURS) if members]
    ratios = [r.ratio(r.best_peer()) for *_, members in sections for _, r in members]
    low = max((t for t in TICKS if t < min([0.7, *ratios])), default=TICKS[0])
    high = min((t for t in TICKS if t > max([2, *ratios])), default=TICKS[-1])
    at = lambda value: LEFT + AXIS * math.log(min(max(value, low), high) / low) / math.log(high / low)
    body, y = [], TOP
    for title, colour, members in sections:
        body.append(text(20, y + 12, title, size=12, weight="bold"))
        y += 20
        for name, r in members:
            peer = r.best_peer()
            ratio, spread = r.ratio(peer), r.ratios(peer)
            left, right = sorted((at(1), at(ratio)))
            middle = y + BAR / 2 - 1
            body.append(text(LEFT - 8, y + BAR - 5, name, "end", 10))
            body.append(f'<rect x="{left:.1f}" y="{y + 1}" width="{max(1, right - left):.1f}" height="{BAR - 4}" '
                        f'fill="{colour}"/>')
            body.append(f'<line x1="{at(quantile(spread, 0.1)):.1f}" y1="{middle}" x2="{at(quantile(spread, 0.9)):.1f}" '
                        f'y2="{middle}" stroke="#222"/>')
            body.append(text(LEFT + AXIS + 8, y + BAR - 5, f"{ratio:.2f} {peer}; {share(r)}", size=10))
            y += BAR
        y += 8
    rules = []
    for tick in (t for t in TICKS if low <= t <= high):
        x, one = at(tick), tick == 1
        rules.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{y}" stroke="{"#222" if one else "#ddd"}"/>')
        rules.append(text(x, TOP - 10, f"{tick:g}", "middle", 10, "bold" if one else "normal"))
    title = f"Time of the best peer over ours: {machine['target']}, {machine['cores']} cores ({machine['cpu']})"
    head = [text(20, 22, title, size=14, weight="bold"),
            text(20, 40, "Right of 1 we are ahead. Lines: 10 to 90 % of the rounds. At the right: the ratio, the peer, and our "
                 "share of the machine's limit.")]
    width, height = LEFT + AXIS + RIGHT, y + 10
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(rules + head + body)
            + "\n</svg>\n")
