# SPDX-License-Identifier: Apache-2.0
"""What bench/compare makes of its samples: medians, ratios with intervals, a table, a chart."""
import html
import math
import statistics

METRICS = ("prefill", "decode_b1", "decode_b16")
CONFIDENCE = 0.93  # of an interval, at least: the ends of five rounds hold a median with 1 − 2 ÷ 2⁵
BAR, GAP, LABELS, PANEL, HEAD = 20, 8, 150, 250, 56
COLORS = {"limit": "#c8c8c8", "phalanx": "#2f6fb0", "peer": "#d98a3d"}


def by_subject(samples):
    """{subject: {metric: [(round, tokens per second)]}} of samples {"subject", "round", metric: number or None}."""
    found = {}
    for sample in samples:
        metrics = found.setdefault(sample["subject"], {metric: [] for metric in METRICS})
        for metric in METRICS:
            if sample.get(metric):
                metrics[metric].append((sample["round"], sample[metric]))
    return found


def paired_ratios(over, under):
    """over ÷ under for each round that has both: the machine's speed changes between rounds, less within one."""
    divisors = dict(under)
    return [value / divisors[number] for number, value in over if number in divisors]


def interval(ratios):
    """(low, high, how): the narrowest two samples, as far from one end as from the other, that hold the median with CONFIDENCE,
    whatever its distribution, and with which one ("94 %"); of too few rounds for that their ends ("min-max")."""
    ordered, rounds = sorted(ratios), len(ratios)

    def confidence(left_out):
        """With which the samples hold the median that are left without so many at either end."""
        return 1 - 2 * sum(math.comb(rounds, k) for k in range(left_out + 1)) / 2 ** rounds

    left_out = max((n for n in range((rounds + 1) // 2) if confidence(n) >= CONFIDENCE), default=None)
    if left_out is None:
        return ordered[0], ordered[-1], "min-max"
    return ordered[left_out], ordered[-1 - left_out], f"{100 * confidence(left_out):.0f} %"


def summaries(samples, kinds):
    """One record for each subject and metric, then one for each ratio. `kinds`: subject → limit, phalanx or peer; a limit is
    compared with the Phalanx that `limit_of` of its samples names, a peer with every one."""
    found, limits = by_subject(samples), {s["subject"]: s.get("limit_of") for s in samples}
    records = []
    for subject, metrics in found.items():
        for metric, pairs in metrics.items():
            if pairs:
                values = [value for _, value in pairs]
                records.append({"what": "rate", "subject": subject, "kind": kinds[subject], "metric": metric, "rounds": len(values),
                                "median": statistics.median(values), "min": min(values), "max": max(values)})
    for ours in (s for s in found if kinds[s] == "phalanx"):
        for other in (s for s in found if kinds[s] == "peer" or kinds[s] == "limit" and limits[s] == ours):
            for metric in METRICS:
                ratios = paired_ratios(found[ours][metric], found[other][metric])
                if ratios:
                    low, high, how = interval(ratios)
                    records.append({"what": "ratio", "subject": ours, "to": other, "metric": metric, "rounds": len(ratios),
                                    "median": statistics.median(ratios), "low": low, "high": high,
                                    "interval": how})
    return records


def table(records):
    """The records as Markdown."""
    rates = {(r["subject"], r["metric"]): r for r in records if r["what"] == "rate"}
    ratios = {(r["subject"], r["to"], r["metric"]): r for r in records if r["what"] == "ratio"}
    lines = ["| tokens per second | " + " | ".join(METRICS) + " |", "|---" * (1 + len(METRICS)) + "|"]
    for subject in dict.fromkeys(subject for subject, _ in rates):
        cells = [rates.get((subject, metric)) for metric in METRICS]
        lines.append(f"| {subject} | " + " | ".join(f"{c['median']:.1f} ({c['min']:.1f}–{c['max']:.1f})" if c else "-" for c in cells) + " |")
    few = [r for r in ratios.values() if r["interval"] == "min-max"]
    sure = sorted({r["interval"] for r in ratios.values() if r["interval"] != "min-max"})
    held = " to ".join(dict.fromkeys((sure[0], sure[-1]))) if sure else ""
    spread = "min–max" if len(few) == len(ratios) else f"{held}, min–max where marked *" if few else held
    lines += ["", f"| ratio ({spread}) | " + " | ".join(METRICS) + " |", "|---" * (1 + len(METRICS)) + "|"]
    for ours, other in dict.fromkeys((ours, other) for ours, other, _ in ratios):
        cells = [ratios.get((ours, other, metric)) for metric in METRICS]
        lines.append(f"| {ours} ÷ {other} | "
                     + " | ".join(f"{c['median']:.2f} ({c['low']:.2f}–{c['high']:.2f})" + ("*" if c in few and len(few) < len(ratios) else "") if c else "-" for c in cells) + " |")
    return "\n".join(lines)


def panel(rows, subjects, left):
    """The bars of one metric, each with a line from its minimum to its maximum. `rows`: subject → record."""
    scale = (PANEL - 70) / max(row["max"] for row in rows.values())
    parts = []
    for index, subject in enumerate(subjects):
        row, top = rows.get(subject), HEAD + index * (BAR + GAP)
        if not row:
            continue
        middle, end = top + BAR / 2, left + row["median"] * scale
        parts.append(f'<rect x="{left}" y="{top}" width="{row["median"] * scale:.1f}" height="{BAR}" fill="{COLORS[row["kind"]]}"/>')
        parts.append(f'<line x1="{left + row["min"] * scale:.1f}" x2="{left + row["max"] * scale:.1f}" y1="{middle}" y2="{middle}" '
                     'stroke="#222"/>')
        parts.append(f'<text x="{max(end, left + row["max"] * scale) + 5:.1f}" y="{middle + 4}">{row["median"]:.1f}</text>')
    return parts


def chart(records, title):
    """An SVG with a panel for each metric: medians as bars, one row for each subject."""
    rates = [r for r in records if r["what"] == "rate"]
    subjects = list(dict.fromkeys(r["subject"] for r in rates))
    metrics = [m for m in METRICS if any(r["metric"] == m for r in rates)]
    width, height = LABELS + PANEL * len(metrics) + 10, HEAD + len(subjects) * (BAR + GAP) + 10
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12" fill="#222">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="10" y="20" font-size="14">{html.escape(title)}</text>']
    parts += [f'<text x="{LABELS - 8}" y="{HEAD + i * (BAR + GAP) + BAR / 2 + 4}" text-anchor="end">{html.escape(subject)}</text>'
              for i, subject in enumerate(subjects)]
    for index, metric in enumerate(metrics):
        left = LABELS + index * PANEL
        parts.append(f'<text x="{left}" y="{HEAD - 10}">{metric}, tokens/s</text>')
        parts += panel({r["subject"]: r for r in rates if r["metric"] == metric}, subjects, left)
    return "\n".join([*parts, "</svg>", ""])
