# SPDX-License-Identifier: MIT
"""Variants side by side, on the sentence pair of demo_sentences.py and on one large shape.

demo_variants.py ATTUNE_BENCH FOLDER    times them, prints the tables and writes them to FOLDER/variants.md; does not time again
                                        while the program, the shapes and this file are those of the last run on an idle
                                        machine
"""
import hashlib
import json
import pathlib
import statistics
import subprocess
import sys

import numpy as np

HEADER = "name,dtype,b,h,kv,q,k,d,dv,causal,left,right,length,quick"
BUSY = 0.2  # cores used by other programs above which times are not kept
LARGE = "large,f32,1,8,8,1024,1024,64,64,0,-1,-1,,0"


def shapes(folder):
    batch, heads, length, dim = np.load(folder / "query.npy", mmap_mode="r").shape
    lens = "_".join(str(n) for n in np.load(folder / "valid_lens.npy"))
    pair = f"sentence_pair,f32,{batch},{heads},{heads},{length},{length},{dim},{dim},0,-1,-1,{lens},0"
    return f"{HEADER}\n{pair}\n{LARGE}\n"


def measure(bench, folder, csv):
    """Google Benchmark's JSON, and whether an earlier run made it."""
    report, stamp = folder / "variants.json", folder / "variants.measured"
    key = hashlib.sha256(bench.read_bytes() + csv.encode() + pathlib.Path(__file__).read_bytes()).hexdigest()
    if report.exists() and stamp.exists() and stamp.read_text() == key:
        return json.loads(report.read_text()), True
    stamp.unlink(missing_ok=True)
    (folder / "shapes").mkdir(exist_ok=True)
    (folder / "shapes" / "demo.csv").write_text(csv)
    command = [bench, f"--attune_shapes_dir={folder / 'shapes'}", f"--benchmark_out={report}", "--benchmark_out_format=json",
               "--benchmark_min_time=0.02"]
    with open(folder / "variants.log", "w") as log:
        if subprocess.run(command, stdout=log, stderr=subprocess.STDOUT).returncode:
            sys.exit(f"demo: the benchmark failed: see {log.name}")
    measured = json.loads(report.read_text())
    if cores_of_others(measured["benchmarks"]) <= BUSY:
        stamp.write_text(key)
    return measured, False


def cores_of_others(rows):
    """Cores used by other programs meanwhile; the median, because a short benchmark spans a few ticks of the clock."""
    return statistics.median([r.get("cores_of_others", 0) for r in rows if not failed(r)] or [0])


def failed(row):
    return row.get("error_occurred", False)


def in_words(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} us"


def table(title, rows, peak):
    """Lines of Markdown, root last. Times are the best of several calls; of one call where a call takes over a second."""
    timed = [r for r in rows if not failed(r) and not r["name"].startswith("dispatched_")]
    root = next((r["best_s"] for r in timed if "_root/" in r["name"]), None)
    lines = [title, "", f"| {'variant':38} | {'time':>8} | {'root / it':>9} | {'of FMA peak':>11} |",
             f"|{'-' * 40}|{'-' * 9}:|{'-' * 10}:|{'-' * 12}:|"]
    for r in sorted(timed, key=lambda r: ("_root/" in r["name"], r["best_s"])):
        name, seconds = r["name"].split("/")[0], r["best_s"]
        ratio = f"{root / seconds:.3g}" if root else "-"
        lines.append(f"| {name:38} | {in_words(seconds):>8} | {ratio:>9} | {r['useful_flops'] / seconds / peak:>11.2%} |")
    for r in filter(failed, rows):
        lines.append(f"| {r['name'].split('/')[0]:38} | {r['error_message']} | | |")
    chosen = next((r["label"] for r in rows if r["name"].startswith("dispatched_") and not failed(r)), "nothing")
    return lines + ["", f"Dispatch picks {chosen}.", ""]


def main(bench, folder):
    report, earlier = measure(bench, folder, shapes(folder))
    rows, context = report["benchmarks"], report["context"]
    timed = [r for r in rows if not failed(r)]
    if not timed:
        sys.exit(f"demo: no variant ran: {rows[0]['error_message']}")
    # One peak for all rows: the best of the run.
    peak = max(r["fma_peak"] for r in timed)
    large = [r for r in rows if "/q:1024/" in r["name"]]
    pair = [r for r in rows if r not in large]
    lines = table("The sentence pair (2 sentences, 12 heads of 32 channels, padding skipped):", pair, peak)
    lines += table("1 x 8 x 1024 x 1024 x 64 (batch, heads, queries, keys, channels):", large, peak)
    lines.append(f"Target {context['target']}, {context['threads']} threads; FMA peak measured in the same run: "
                 f"{peak * 1e-9:.0f} GFLOP/s.")
    others = cores_of_others(rows)
    if others > BUSY:
        lines.append(f"Other programs used {others:.1f} cores meanwhile: figures to rely on need an idle machine.")
    text = "\n".join(lines) + "\n"
    (folder / "variants.md").write_text(text)
    if earlier:
        print("  (the times of the last run: neither the program nor the shapes have changed since)\n")
    print(text)
    if any(failed(r) and not r["error_message"].startswith("not run") for r in rows):
        sys.exit("demo: a variant failed, see the tables")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
