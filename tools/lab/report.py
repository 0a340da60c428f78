# SPDX-License-Identifier: GPL-2.0
"""The bench's report: report.json, report.md and plots."""

import json

import matplotlib

from .programs import rate

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  (the backend has to be chosen first)

STACKS = ["tcp", "rxe", "usb4_rdma"]
NAMES = {"tcp": "TCP", "rxe": "soft-RoCE", "usb4_rdma": "usb4_rdma"}


def size_name(size):
    """A size in bytes as a person reads it."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def figure(result):
    """A result's main figure in words."""
    if result["kind"] == "latency":
        return f"{result['typical_us']:.0f} us"
    return f"{rate(result['rate'])}, {result['cpu_s_per_gib']:.1f} CPU s/GiB"


def table(header, rows):
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _plain(results, stack, operation):
    """size -> result of the one-way, one-queue-pair, polling runs."""
    return {r["size"]: r for r in results
            if r["stack"] == stack and r["kind"] == "bandwidth" and r["operation"] == operation
            and r["qps"] == 1 and not r["event"] and not r["both_ways"] and "limited" not in r}


def bandwidth_tables(results):
    """Rates and CPU cost over message sizes."""
    parts = []
    for operation in ("send", "write", "read"):
        columns = {stack: _plain(results, stack, operation) for stack in ("rxe", "usb4_rdma")}
        sizes = sorted(set().union(*columns.values()))
        rows = []
        for size in sizes:
            cells = [size_name(size)]
            for stack in columns:
                result = columns[stack].get(size)
                cells += [rate(result["rate"]), f"{result['cpu_s_per_gib']:.1f}"] \
                    if result else ["failed", ""]
            rows.append(cells)
        parts.append(f"\n### {operation}, RC, one queue pair\n\n" + table(
            ["message", "soft-RoCE", "CPU s/GiB", "usb4_rdma", "CPU s/GiB"], rows))
    return "".join(parts)


def other_tables(results):
    """TCP, latencies, queue pairs."""
    tcp = [r for r in results if r["stack"] == "tcp" and r["kind"] == "bandwidth"]
    lat = [r for r in results if r["kind"] == "latency"]
    pairs = [r for r in results if r["stack"] == "usb4_rdma" and r["kind"] == "bandwidth"
             and r["size"] == 65536 and r["operation"] == "send"]
    limited = [r for r in results if "limited" in r]
    text = "\n### TCP (iperf3)\n\n" + table(
        ["MTU", "ways", "rate", "CPU s/GiB"],
        [[r["mtu"] or "as before", 2 if r["both_ways"] else 1, rate(r["rate"]),
          f"{r['cpu_s_per_gib']:.1f}"] for r in tcp])
    text += "\n### Latency, half a round trip of 64 B\n\n" + table(
        ["stack", "operation", "typical us", "99 % us"],
        [[NAMES[r["stack"]], r["operation"], f"{r['typical_us']:.0f}",
          f"{r['p99_us']:.0f}" if r["p99_us"] else ""] for r in lat])
    text += "\n### Queue pairs and events: usb4_rdma, send 64 KiB\n\n" + table(
        ["queue pairs", "waits by", "rate", "CPU s/GiB"],
        [[r["qps"], "event" if r["event"] else "polling", rate(r["rate"]),
          f"{r['cpu_s_per_gib']:.1f}"] for r in pairs])
    if limited:
        text += f"\n### A link of {limited[0]['limited']} Mb/s: usb4_rdma\n\n" + table(
            ["operation", "message", "waits by", "ways", "rate of all"],
            [[r["operation"], size_name(r["size"]), "event" if r["event"] else "polling",
              2 if r["both_ways"] else 1, rate(r["rate"])] for r in limited])
    return text


def plots(directory, results):
    """bandwidth.png and latency.png."""
    plot, axes = pyplot.subplots(1, 3, figsize=(13, 4), sharey=True)
    for axis, operation in zip(axes, ("send", "write", "read")):
        for stack in ("rxe", "usb4_rdma"):
            points = _plain(results, stack, operation)
            axis.plot(sorted(points), [points[size]["rate"] / 1e6 for size in sorted(points)],
                      marker="o", label=NAMES[stack])
        tcp = [r["rate"] / 1e6 for r in results if r["stack"] == "tcp"
               and r["kind"] == "bandwidth" and not r["both_ways"]]
        if tcp:
            axis.axhline(max(tcp), linestyle="--", color="gray", label="TCP, best")
        axis.set(title=operation, xlabel="message, bytes", xscale="log")
        axis.grid(True, alpha=0.3)
    axes[0].set(ylabel="Mb/s", ylim=(0, None))
    axes[0].legend()
    plot.tight_layout()
    plot.savefig(directory / "bandwidth.png", dpi=110)
    pyplot.close(plot)
    latencies = [r for r in results if r["kind"] == "latency"]
    plot, axis = pyplot.subplots(figsize=(7, 0.4 * len(latencies) + 1.5))
    labels = [f"{NAMES[r['stack']]} {r['operation']}" for r in latencies]
    axis.barh(range(len(labels)), [r["typical_us"] for r in latencies], tick_label=labels)
    axis.set(xlabel="typical half round trip of 64 B, us")
    axis.invert_yaxis()
    plot.tight_layout()
    plot.savefig(directory / "latency.png", dpi=110)
    pyplot.close(plot)


def write(directory, document, goal_lines):
    """Writes report.json, report.md and the plots into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    results = document["results"]
    text = "# usb4_rdma on the emulated cable\n\n"
    text += f"One run of {document['seconds']:.0f} s. Guests under emulation: only the ratios " \
            "between stacks mean anything, and single runs vary by some 30 %.\n"
    text += "\n## Goals\n\n" + "".join(f"    {line}\n" for line in goal_lines)
    if document["failures"]:
        text += "\n## Failures\n\n" + "".join(f"    {line.splitlines()[0]}\n"
                                              for line in document["failures"])
    text += "\n## Bandwidth\n\n![bandwidth](bandwidth.png)\n" + bandwidth_tables(results)
    text += other_tables(results) + "\n![latency](latency.png)\n"
    (directory / "report.md").write_text(text)
    plots(directory, results)
