# SPDX-License-Identifier: GPL-2.0
"""The rules of the tree that a program can check."""

import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
MAX_LINES = 500
# A SAFETY comment stands within this many lines above its `unsafe`.
SAFETY_REACH = 5
SOURCE = (".rs", ".c", ".h", ".py", ".sh")
SKIPPED_DIRS = {"target", "build", ".git", "__pycache__", "report", ".pytest_cache"}
# Built from parts, so that this file does not hold what it forbids.
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b|" +
                        r"\b(to" + r"do|unimple" + r"mented)!|#\[ig" + r"nore|"
                        r"pytest\.mark\.(x" + r"fail|sk" + r"ip\b)")
# The tree must not depend on where it was written, nor name a registry.
PLACES = re.compile("|".join([
    r"(?<![\w.}])/ro" + r"ot/", r"(?<![\w.}])/wo" + r"rk/", r"(?<![\w.}])/ho" + r"me/\w",
    r"crates\." + r"io", r"deb\.deb" + r"ian\.org", r"pypi\." + r"org", r"npm" + r"js\."]))
# Paths of a guest, which has one user: root.
GUEST_ROOT = re.compile(r"/ro" + r"ot/(dev|proc|sys)\b")


def tracked():
    """Files of the tree: what git knows, and what is new and not ignored."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={TOP}", "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"],
        cwd=TOP, stdout=subprocess.PIPE, check=True).stdout.decode()
    paths = [TOP / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and not SKIPPED_DIRS & set(path.parts)]


def text(path):
    """Contents of a text file; None for anything else."""
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def sources():
    """Files of code, scripts without an extension included."""
    found = []
    for path in tracked():
        content = text(path)
        if content is None:
            continue
        if path.suffix in SOURCE or path.name in ("Kbuild", "Makefile") or \
                (path.suffix == "" and content.startswith("#!")):
            found.append(path)
    return found


def report(problems):
    """Fails with a list, a problem a line."""
    assert not problems, "\n" + "\n".join(problems)


def name(path):
    """Path as a person would type it."""
    return str(path.relative_to(TOP))


def test_files_are_found():
    names = [name(path) for path in sources()]
    assert "Makefile" in names and "tests/style/test_style.py" in names


def test_no_file_is_too_long():
    lengths = {path: len(text(path).splitlines()) for path in sources()}
    report([f"{name(path)}: {lines} lines, the limit is {MAX_LINES}"
            for path, lines in lengths.items() if lines > MAX_LINES])


def test_every_source_has_an_spdx_line():
    report([f"{name(path)}: no SPDX-License-Identifier in the first three lines"
            for path in sources()
            if "SPDX-License-Identifier:" not in "\n".join(text(path).splitlines()[:3])])


def strip_rust(line):
    """A line of Rust without its comment and string contents."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return line.split("//")[0]


def unsafe_without_reason(lines):
    """Line numbers (from 1) of `unsafe` blocks and impls without a SAFETY comment."""
    found = []
    for index, line in enumerate(lines):
        if not re.search(r"\bunsafe\s*(\{|impl\b)|\bunsafe\s*$", strip_rust(line)):
            continue
        above = lines[max(0, index - SAFETY_REACH):index + 1]
        if not any("SAFETY:" in other for other in above):
            found.append(index + 1)
    return found


def test_every_unsafe_says_why_it_is_sound():
    problems = []
    for path in sources():
        if path.suffix == ".rs":
            problems += [f"{name(path)}:{number}: unsafe without a SAFETY comment"
                         for number in unsafe_without_reason(text(path).splitlines())]
    report(problems)


def test_the_unsafe_check_sees_what_it_should():
    bad = ["let a = 1;", "let b = unsafe { *p };"]
    good = ["// SAFETY: p is valid, see new().", "let b = unsafe { *p };"]
    far = good[:1] + [""] * (SAFETY_REACH + 1) + good[1:]
    assert unsafe_without_reason(bad) == [2]
    assert unsafe_without_reason(good) == []
    assert unsafe_without_reason(far) == [len(far)]
    assert unsafe_without_reason(["unsafe impl Send for X {}"]) == [1]
    assert unsafe_without_reason(['say("unsafe { }"); // unsafe { }']) == []


def test_nothing_is_left_unfinished():
    report([f"{name(path)}:{number}: {line.strip()}"
            for path in sources() + [p for p in tracked() if p.suffix == ".md"]
            for number, line in enumerate(text(path).splitlines(), 1)
            if UNFINISHED.search(line)])


def test_no_place_of_one_machine_is_named():
    problems = []
    for path in tracked():
        if path.name == "Cargo.lock" or text(path) is None:
            continue
        problems += [f"{name(path)}:{number}: {line.strip()}"
                     for number, line in enumerate(text(path).splitlines(), 1)
                     if PLACES.search(GUEST_ROOT.sub("", line))]
    report(problems)


@pytest.mark.parametrize("folder", ["drivers/usb4_rdma", "tools/vcable/src"])
def test_public_items_are_documented(folder):
    problems = []
    for path in sorted((TOP / folder).rglob("*.rs")):
        lines = path.read_text().splitlines()
        for index, line in enumerate(lines):
            if not re.match(r"\s*pub (unsafe )?(const )?(unsafe )?(fn|struct|enum|trait|type) ", line):
                continue
            above = index - 1
            while above >= 0 and re.match(r"\s*(#\[|#!\[|\)\])", lines[above]):
                above -= 1
            if above < 0 or not re.match(r"\s*///", lines[above]):
                problems.append(f"{name(path)}:{index + 1}: no doc comment: {line.strip()}")
    report(problems)


def test_files_that_lock_state_the_order():
    """A file that takes locks says in its head in which order."""
    problems = []
    for path in sorted((TOP / "drivers/usb4_rdma").rglob("*.rs")):
        content = path.read_text()
        if len(re.findall(r"\.lock\(\)|\.lock_irqsave\(\)", content)) and \
                not re.search(r"[Ll]ock(s|ing)?\b.*", "\n".join(content.splitlines()[:40])):
            problems.append(f"{name(path)}: takes locks, and its head says nothing of their order")
    report(problems)
