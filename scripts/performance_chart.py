# SPDX-License-Identifier: MIT
"""Chart of a machine's run as a small SVG: a bar per cell, up from 1 where we are ahead and down where a peer is."""

import math
from xml.sax.saxutils import escape

AHEAD, BEHIND = "#3b7dc4", "#b23a48"
LEFT, RIGHT, TOP, HEIGHT, LABELS = 44, 16, 56, 220, 56
GAP, WIDTH = 10, 900  # between groups; of the picture
TICKS = (0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


def text(x, y, words, anchor="start", size=11, weight="normal", turn=""):
    turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
            f'fill="#222"{turned}>{escape(words)}</text>')


def chart(title, groups, is_behind):
    """groups: (short name, [(cell, speed)]). A speed beyond the axis ends at its end, and its title gives the number."""
    speeds = [speed for _, cells in groups for _, speed in cells]
    low = max((t for t in TICKS if t <= min(0.5, *speeds)), default=TICKS[0])
    high = min((t for t in TICKS if t >= max(2, *speeds)), default=TICKS[-1])
    at = lambda speed: TOP + HEIGHT * (1 - math.log(min(max(speed, low), high) / low) / math.log(high / low))
    step = min(16, (WIDTH - LEFT - RIGHT - GAP * len(groups)) / len(speeds))
    end = LEFT + GAP * len(groups) + step * len(speeds)
    width, height = WIDTH, TOP + HEIGHT + LABELS
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
             'font-family="sans-serif">', '<rect width="100%" height="100%" fill="#fff"/>',
             text(12, 20, title, size=14, weight="bold"),
             text(12, 38, "Speed relative to the fastest of the other libraries, a bar for each cell; logarithmic."),
             f'<rect x="520" y="29" width="10" height="10" fill="{AHEAD}"/>', text(534, 38, "as fast or faster"),
             f'<rect x="640" y="29" width="10" height="10" fill="{BEHIND}"/>', text(654, 38, "slower")]
    for tick in (t for t in TICKS if low <= t <= high):
        one = tick == 1
        lines.append(f'<line x1="{LEFT}" y1="{at(tick):.1f}" x2="{end:.1f}" y2="{at(tick):.1f}" '
                     f'stroke="{"#222" if one else "#ddd"}"/>')
        lines.append(text(LEFT - 6, at(tick) + 4, f"{tick:g}", "end", 10, "bold" if one else "normal"))
    x = LEFT + GAP / 2
    for name, cells in groups:
        first = x
        for cell, speed in sorted(cells, key=lambda item: item[1]):
            top, bottom = sorted((at(speed), at(1)))
            top, bottom = (at(1), max(bottom, at(1) + 3)) if is_behind(speed) else (min(top, at(1) - 1), at(1))  # visible
            lines.append(f'<rect x="{x:.1f}" y="{top:.1f}" width="{step - 1:.1f}" height="{bottom - top:.1f}" '
                         f'fill="{BEHIND if is_behind(speed) else AHEAD}"><title>{escape(cell)}: {speed:.2f}</title></rect>')
            x += step
        lines.append(text((first + x) / 2, TOP + HEIGHT + 14, name, "end", 10, turn="-35"))
        x += GAP
    return "\n".join(lines) + "\n</svg>\n"
