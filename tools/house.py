# SPDX-License-Identifier: Apache-2.0
"""Rules about the tree as a whole, for tools/check. Each takes texts by path, so that its self-test can plant a fault."""
import re


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def unused_edges(allowed, sources, lists):
    """`allowed`: library → libraries it may use; `sources`: library → its C++ texts; `lists`: library → its CMake text."""
    problems = []
    for name, edges in allowed.items():
        used = {m for text in sources.get(name, []) for m in re.findall(r'#include "phalanx/(\w+)/', text)}
        problems += [f"tools/layers.toml: {name} may use {edge} and does not" for edge in edges if edge not in used]
        block = re.search(r"\n\s*DEPS([\w\s]*)", lists.get(name, ""))
        linked = re.split(r"PRIVATE_THIRD_PARTY|THIRD_PARTY", block.group(1))[0].split() if block else []
        problems += [f"libs/{name}/CMakeLists.txt: links {edge} and includes nothing of it"
                     for edge in linked if edge not in used]
    return problems


def way_to(target, begins, allowed):
    """A chain of libraries from one of `begins` to `target`, or none."""
    ways = [[name] for name in sorted(begins)]
    seen = set()
    while ways:
        way = ways.pop(0)
        if way[-1] == target:
            return way
        if way[-1] not in seen:
            seen.add(way[-1])
            ways += [[*way, edge] for edge in allowed.get(way[-1], [])]
    return None


def forbidden_reaches(allowed, programs, used):
    """`programs`: program → libraries that it must not come to; `used`: program → those that it includes or links itself."""
    problems = []
    for program, forbidden in programs.items():
        if program not in used:
            problems.append(f"tools/layers.toml: there is no program {program}")
            continue
        for name in forbidden:
            if name not in allowed:
                problems.append(f"tools/layers.toml: {program} is kept from {name}, which is no library")
            elif way := way_to(name, used[program], allowed):
                problems.append(f"apps/{program}: comes to {name} by {' → '.join(way)}, which tools/layers.toml forbids")
    return problems


def table_differences(allowed, document):
    """The layer table of docs/architecture.md and tools/layers.toml say the same, and no edge leads upwards."""
    rows = re.findall(r"^\| (\d) \| `(\w+)` \| ([\w ]*) ?\| ", document, re.MULTILINE)
    tiers = {name: int(tier) for tier, name, _ in rows}
    told = {name: edges.split() for _, name, edges in rows}
    where = "docs/architecture.md: the layer table"
    problems = [f"{where} lacks {name}" for name in allowed if name not in told]
    problems += [f"{where} has {name}, which tools/layers.toml lacks" for name in told if name not in allowed]
    for name in set(told) & set(allowed):
        if set(told[name]) != set(allowed[name]):
            problems.append(f"{where}: {name} may use [{' '.join(sorted(told[name]))}], "
                            f"in tools/layers.toml [{' '.join(sorted(allowed[name]))}]")
        problems += [f"{where}: {name} of tier {tiers[name]} uses {edge} of tier {tiers[edge]}"
                     for edge in told[name] if tiers.get(edge, 0) > tiers[name]]
    return sorted(problems)


def function_sizes(text):
    """(line, length, name) of each function body that starts at column 0 or in a class, judged by its layout."""
    lines = text.splitlines()
    start = head = None  # (line, indent) of the function that is open, and of what may begin one
    for index, line in enumerate(lines):
        if start is not None:
            if line == start[1] + "}":
                yield start[0] + 1, index - start[0] + 1, lines[start[0]].strip()
                start = None
            continue
        indent = re.match(r"^ *", line).group(0)
        if len(indent) <= 2 and "(" in line and not re.match(
                r"^ *(namespace|class|struct|enum|union|if|for|while|switch|else|do|extern|return)\b", line):
            head = (index, indent)
        if head is not None and re.search(r"\)( const| noexcept| override| final)*( ->.*)? \{$", line):
            start = head
        if line.endswith((";", "{", "}")):
            head = None


def missing_tests(document, tests):
    """Every test that an invariant of docs/architecture.md names is there. `tests`: path → text of everything below tests/."""
    cpp = "\n".join(text for path, text in tests.items() if path.endswith((".cc", ".h")))
    lists = "\n".join(text for path, text in tests.items() if path.endswith("CMakeLists.txt"))
    python = {path.rsplit("/", 1)[-1]: text for path, text in tests.items() if path.endswith(".py")}
    problems = []
    for row, held_by in re.findall(r"^\| ([A-Z]\d+) \|.*\| ([^|]*) \|$", document, re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", held_by):
            suite, _, case = name.partition(".")
            if name.endswith(".py"):
                there = name in python
            elif name.startswith("phalanx-"):
                there = True  # a program that a test runs
            elif case.startswith("test_"):
                there = any(f"class {suite}(" in text and f"def {case}(" in text for text in python.values())
            elif case:
                there = re.search(rf"TEST(_F|_P)?\(\s*{suite},\s*{case}\)", cpp)
            else:
                there = re.search(rf"\b{re.escape(name)}\b", lists) or re.search(rf"TEST(_F|_P)?\(\s*{re.escape(name)},", cpp) \
                    or mutation_of(name, lists)
            if not there:
                problems.append(f"docs/architecture.md: {row} names the test {name}, which is nowhere")
    return problems


def mutation_of(name, lists):
    """Whether a list makes tests of this name in a loop: …_mutation_${name}."""
    head, mutation, tail = name.partition("_mutation_")
    return mutation and f"{head}_mutation_${{" in lists and re.search(rf"\b{re.escape(tail)}\b", lists, re.IGNORECASE)


KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "alignof", "static_assert", "decltype", "noexcept", "operator",
            "defined", "offsetof", "catch", "explicit", "requires", "alignas", "main"}


def declared_functions(header):
    """Names of functions declared in a header: a name and a bracket behind something that ends a type."""
    return {name for name in re.findall(r"[\w>&*\]]\s+[&*]?([a-z]\w*)\s*\(", without_comments(header)) if name not in KEYWORDS}


def functions_only_tests_call(headers, sources):
    """`headers`: public headers by path; `sources`: every text that is no test by path, headers among them."""
    words, problems = {}, []
    for path, text in sources.items():
        plain = without_comments(text)
        for name in re.findall(r"\b[a-z]\w*\b", plain):
            words[name] = words.get(name, 0) + 1
        # What only declares or defines is no use: a line that begins a function, and an override.
        for line in plain.splitlines():
            for name in re.findall(r"(?:[\w>&*\]:]\s+[&*]?|::|^)([a-z]\w*)\(", line):
                if line[:1].strip() and not line.startswith("#") or path.endswith(".h") and re.match(r"\s+[\w\[:<~]", line) and \
                        not re.match(r"\s+(return|if|for|while|PHALANX)\b", line) and declares(line, name):
                    words[name] -= 1
    for path, text in headers.items():
        problems += [f"{path}: {name}() is called by nobody but tests" for name in sorted(declared_functions(text))
                     if words.get(name, 0) <= 0]
    return problems


def declares(line, name):
    return re.search(rf"[\w>&*\]]\s+[&*]?{name}\(", line) and not re.search(rf"\b(return|co_await)\b.*\b{name}\(", line)


def fields_of(struct_text):
    return re.findall(r"^  [\w:<>, ]+[ >&*]([a-z]\w*)(?: = [^;]*|\{[^;]*)?;", without_comments(struct_text), re.MULTILINE)


def unread_fields(structs, readers):
    """`structs`: header text by path whose struct fields count; `readers`: the texts that may read them."""
    read = set()
    for text in readers:
        read |= set(re.findall(r"(?:\.|->)([a-z]\w*)\b(?!\s*=(?!=))", without_comments(text)))
    return [f"{path}: nobody reads {name}" for path, text in structs.items() for name in sorted(set(fields_of(text)))
            if name not in read]


def alarms(text):
    """The events that a C++ text logs as a warning or an error."""
    names = set(re.findall(r'\blog_(?:warn|error)\(\s*"(\w+)"', text))
    for level, event in re.findall(r"\blog_at\(([^,;]*),([^,;]*)", text):
        levels, events = re.findall(r"LogLevel::k(\w+)", level), re.findall(r'"(\w+)"', event)
        # "is_bad ? kWarn : kInfo" goes with "is_bad ? "died" : "ended"", or with one event.
        names |= {name for name, of in zip(events if len(events) > 1 else events * len(levels), levels)
                  if of in ("Warn", "Error")}
    return names


def untold_alarms(document, sources):
    """The table of events in docs/operations.md has each warning and error of the code, and no other. `sources`: C++ texts."""
    table = re.search(r"^\| Event \| Means \| Do \|\n\|[-|]*\n((?:\|.*\n)*)", document, re.MULTILINE)
    rows = table.group(1).splitlines() if table else []
    told = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    logged = set().union(*map(alarms, sources))
    where = "docs/operations.md: the table of events"
    return ([f"{where} lacks {name}" for name in sorted(logged - set(told))]
            + [f"{where} has {name}, which nothing logs as a warning or error" for name in sorted(set(told) - logged)]
            + [f"{where} has {name} twice" for name in sorted({name for name in told if told.count(name) > 1})])


def own_names(text):
    """Functions, constants and types that the unnamed namespaces of a source define, by their layout."""
    names = set()
    for block in map(without_comments, re.findall(r"^namespace \{$(.*?)^\}  // namespace$", text, re.MULTILINE | re.DOTALL)):
        names |= set(re.findall(r"^[\w:<>,&* \[\]]+[ &*]([a-z]\w*)\(", block, re.MULTILINE)) - KEYWORDS
        names |= set(re.findall(r"^(?:inline )?constexpr [\w:<>, ]+ (k\w+)\b", block, re.MULTILINE))
        names |= set(re.findall(r"^(?:class|struct|enum class) (\w+)\b", block, re.MULTILINE))
    return names


def borrowed_names(folders, headers):
    """No source uses what an unnamed namespace of its neighbour defines, which compiles only where both are one unit. `folders`:
    folder → path → text of its sources; `headers`: words of any header, which may have declared it, too."""
    problems = []
    for sources in folders.values():
        own = {path: own_names(text) for path, text in sources.items()}
        for path, text in sources.items():
            plain = re.sub(r'"[^"\n]*"', "", without_comments(text))
            used = set(re.findall(r"(?<![\w.:>])([a-z]\w*)\(|(?<![\w.:>])([A-Zk]\w*)\b", plain))
            used = {name for pair in used for name in pair if name} - own[path] - headers
            problems += [f"{path}: {name} is of the unnamed namespace of {other}" for other in sources if other != path
                         for name in sorted(used & own[other]) if not defines(plain, name)]
    return problems


def defines(text, name):
    """Whether a text has something of its own of this name: a function, a variable, a parameter, an enumerator, a type."""
    return re.search(rf"[\w>&*\]](?<!return)(?<!else)\s+[&*]*{name}(?:\(|\{{| = |;|,|\))|"
                     rf"\b(?:class|struct|enum|typename|using) {name}\b|^\s*{name}(?: = [^;]*)?,?$", text, re.MULTILINE)


def self_test():
    """Each rule finds what is planted for it and nothing in its absence."""
    table = "| 0 | `a` | | x |\n| 1 | `b` | a | x |\n"
    invariants = "| S1 | text | `Suite.Case`, `one_test`, `a_test.py`, `Class.test_it` |\n"
    tests = {"tests/x.cc": "TEST(Suite, Case) {", "tests/CMakeLists.txt": "NAME one_test", "tests/a_test.py": "class Class(T):\n def test_it("}
    header = {"h.h": "[[nodiscard]] int used(int x);\n[[nodiscard]] int idle(int x);\n"}
    source = {**header, "s.cc": "int used(int x) {\n  return 1;\n}\nint idle(int x) {\n  return used(2);\n}\n"}
    long_function = "Status f(int a,\n         int b,\n         int c) {\n  if (a) {\n    b();\n  }\n}\n"
    struct = {"m.h": "struct M {\n  int read = 0;\n  std::string written;\n};\n"}
    events = "| Event | Means | Do |\n|---|---|---|\n| `bad`, `worse` | x | y |\n| `died` | x | y |\n"
    logs = ['log_warn("bad");', 'obs::log_error(\n    "worse", {{"a", 1}});', 'log_info("fine");', 'log_at(LogLevel::kDebug, "times");',
            'log_at(ok ? LogLevel::kInfo : LogLevel::kWarn, ok ? "ended" : "died");']
    own = "namespace {\n\nconstexpr int kF = 1;\nstruct F {};\nint f(int x) {\n  return x + kF;\n}\n\n}  // namespace\nint i() { return f(1); }\n"
    cases = [
        ("an edge used", unused_edges({"b": ["a"]}, {"b": ['#include "phalanx/a/x.h"']}, {}), 0),
        ("an unused edge", unused_edges({"b": ["a"]}, {"b": [""]}, {}), 1),
        ("a link without includes", unused_edges({"b": []}, {"b": [""]}, {"b": "(\n  DEPS a)"}), 1),
        ("a program that keeps away", forbidden_reaches({"a": [], "b": ["a"], "c": []}, {"p": ["c"]}, {"p": {"b"}}), 0),
        ("a program that comes too far", forbidden_reaches({"a": [], "b": ["a"]}, {"p": ["a"]}, {"p": {"b"}}), 1),
        ("a program that is not there", forbidden_reaches({"a": []}, {"q": ["a"]}, {"p": {"a"}}), 1),
        ("equal tables", table_differences({"a": [], "b": ["a"]}, table), 0),
        ("a row too few", table_differences({"a": [], "b": ["a"], "c": []}, table), 1),
        ("other edges", table_differences({"a": [], "b": []}, table), 1),
        ("an edge upwards", table_differences({"a": ["b"], "b": []}, "| 0 | `a` | b | x |\n| 1 | `b` | | x |\n"), 1),
        ("tests that are there", missing_tests(invariants, tests), 0),
        ("tests that are not", missing_tests(invariants, {}), 4),
        ("an invariant of another letter", missing_tests(invariants.replace("S1", "F1"), {}), 4),
        ("a function nobody calls", functions_only_tests_call(header, source), 1),
        ("functions of one and of three lines of signature", list(function_sizes(source["s.cc"] + long_function)), 3),
        ("the length of a function", [size for _, size, _ in function_sizes(long_function) if size != 7], 0),
        ("events as they are logged", untold_alarms(events, logs), 0),
        ("an event without a row", untold_alarms(events, [*logs, 'log_at(a ? LogLevel::kInfo : LogLevel::kError, "odd");']), 1),
        ("rows without an event", untold_alarms(events, logs[1:4]), 2),
        ("a row twice", untold_alarms(events + "| `bad` | x | y |\n", logs), 1),
        ("a document without the table", untold_alarms("", logs), 3),
        ("a name of one's own", borrowed_names({"f": {"a.cc": own, "b.cc": own}}, set()), 0),
        ("names of a neighbour", borrowed_names({"f": {"a.cc": own, "b.cc": "int g() {\n  return f(kF) + h(F());\n}\n"}}, set()), 3),
        ("names of a neighbour and of a header", borrowed_names({"f": {"a.cc": own, "b.cc": "int g(){ return f(kF); }"}}, {"f", "kF"}), 0),
        ("fields", unread_fields(struct, ["m.read + 1; m.written = 2;"]), 1),
    ]
    return [f"self-test: {what}: expected {count} findings, got {found}" for what, found, count in cases if len(found) != count]


def name_of(problem):
    """The key of a finding in tools/house_allowed.toml: "file.h:name"."""
    path, name = re.match(r"(\S+): (?:nobody reads )?(\w+)", problem).groups()
    return f"{path.rsplit('/', 1)[-1]}:{name}"
