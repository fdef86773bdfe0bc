# SPDX-License-Identifier: Apache-2.0
"""Random templates over the part of Jinja that libs/tokenizer has, and random conversations to render them over."""
import random

STRINGS = ["", "a", "b c", "  x ", "Hello", "q-r-s", "Ünï", "日本", "a,b,,c", "\\n", " y\\n\\n", "'", "<|im_end|>", "{}", "AbC dEf",
           "12", "-3.5", "é\\u0301", "\\x1c z\\u2028w", "ß ı", "a\\rb\\r\\nc"]
NAMES = ["w", "messages", "tools", "x", "y", "z", "n", "s", "d", "flag", "nothing", "message", "item", "ns"]
ATTRIBUTES = ["role", "content", "name", "k", "a", "missing", "tool_calls", "items"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence",
         "true", "false", "callable"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "string", "tojson", "indent(2)", "indent(3, true)",
                "indent(1, blank=true)", "replace('a', 'bb')", "replace('', '.')", "replace('c', '', 1)", "trim('ax ')",
                "default('dd')", "default('ee', true)", "join('-')", "reverse", "first", "tojson(ensure_ascii=true)"]
TEXT_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('ax ')", "upper()", "lower()", "title()", "capitalize()",
                "split(',')[-1]", "split('b')[0]", "replace('a', 'X')", "replace(' ', '', 1)", "removeprefix('a')",
                "removesuffix('c')", "rstrip('\\n')", "lstrip('\\n')", "join(['u', 'v'])"]
LIST_FILTERS = ["list", "reverse|list", "sort", "unique|list", "map('upper')|list", "map(attribute='role')|list", "select|list",
                "map(attribute='k', default='?')|list", "select('string')|list", "reject('none')|list", "select('odd')|list",
                "selectattr('role')|list", "selectattr('role', 'equalto', 'user')|list", "rejectattr('content', 'string')|list",
                "sort(reverse=true)", "sort(attribute='role')", "map('int')|list", "map('length')|list", "map('string')|sort",
                "map(attribute='content')|reject('none')|list", "select('in', [1, 'a', 'user'])|list"]
LAZY_FILTERS = ["map('string')", "select", "reverse", "unique", "map(attribute='role')", "selectattr('name', 'defined')"]
ANY_FILTERS = [*TEXT_FILTERS, *LIST_FILTERS, "length", "int", "float", "items|list", "dictsort", "last", "min", "max", "items",
               "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))", "abs", "d(1)"]
ANY_METHODS = [*TEXT_METHODS, "items()|list", "get('k')", "get('zz', 5)", "items()", "keys()", "values()|list", "splitlines()"]
SLICES = ["[1:]", "[:-1]", "[::-1]", "[::2]", "[1:3]", "[-2:]", "[:0]", "[2:0:-1]", "[-100:100]"]


class Grammar:
    """Expressions are mostly of the type that their place wants, so that most templates render."""

    def __init__(self, rng):
        self.rng = rng
        self.loops = 0
        self.macros = []
        self.budget = 30

    def pick(self, options):
        return self.rng.choice(options)

    def string(self):
        text = self.pick(STRINGS)
        return '"' + text + '"' if "'" in text else self.pick(["'" + text + "'", '"' + text + '"'])

    def atom(self):
        kind = self.rng.randrange(8)
        if kind < 2:
            return self.string()
        if kind < 3:
            return self.pick(["true", "false", "none", "1.5", "0", "None"])
        name = self.pick(NAMES)
        return name if kind < 6 else f"{self.pick(['message', 'd', 'x', 'item', 'ns'])}.{self.pick(ATTRIBUTES)}"

    def text(self, depth=0):
        self.budget -= 1
        if depth > 3 or self.budget < 0:
            return self.string()
        t = lambda: self.text(depth + 1)  # noqa: E731
        kind = self.rng.randrange(14)
        if kind < 3:
            return self.string()
        if kind < 4:
            return self.pick(["s", "message.role|d('-')", "x|string", "d.a"])
        if kind < 5:
            return f"({t()} + {t()})"
        if kind < 6:
            return f"({t()} ~ {self.expression(depth + 1)})"
        if kind < 9:
            return f"({t()})|{self.pick(TEXT_FILTERS)}"
        if kind < 11:
            return f"({t()}).{self.pick(TEXT_METHODS)}"
        if kind < 12:
            return f"({t()}){self.pick(SLICES)}"
        if kind < 13:
            return f"({t()} if {self.truth(depth + 1)} else {t()})"
        return self.pick([f"({self.number(depth + 1)})|string", f"{t()} * 2", f"({self.items(depth + 1)})|join(', ')"])

    def number(self, depth=0):
        self.budget -= 1
        plain = self.pick(["0", "1", "2", "3", "7", "10", "1.5", "0.25", "2.0", "n", "messages|length", "s|length", "-1", "1e16", "1e-7"])
        if depth > 3 or self.budget < 0 or self.rng.random() < 0.4:
            return plain
        m = lambda: self.number(depth + 1)  # noqa: E731
        return self.pick([lambda: f"({m()} {self.pick(['+', '-', '*'])} {m()})", lambda: f"({m()}) {self.pick(['//', '%', '/'])} 3",
                          lambda: f"-({m()})", lambda: f"({self.items(depth + 1)})|length", lambda: f"({self.text(depth + 1)})|length",
                          lambda: f"({m()})|{self.pick(['int', 'float', 'abs'])}", lambda: f"({self.text(depth + 1)})|int",
                          lambda: f"({self.text(depth + 1)}).find('b')", lambda: "loop.index" if self.loops else "4"])()

    def items(self, depth=0):
        self.budget -= 1
        plain = self.pick(["messages", "[1, 'a', none]", "range(3)", "[]", "[3, 1, 2]", "d.z", "tools or []", "(1, 'b')", "['b', 'A', 'c']",
                           "'hello'|list", "range(4, 0, -2)"])
        if depth > 3 or self.budget < 0 or self.rng.random() < 0.4:
            return plain
        i = lambda: self.items(depth + 1)  # noqa: E731
        return self.pick([lambda: f"({i()})|{self.pick(LIST_FILTERS)}", lambda: f"({i()}){self.pick(SLICES)}",
                          lambda: f"[{self.expression(depth + 1)}, {self.expression(depth + 1)}]", lambda: f"({self.text(depth + 1)}).split()",
                          lambda: "d.items()", lambda: "d|items", lambda: "d|dictsort", lambda: f"({i()})|{self.pick(LAZY_FILTERS)}|list",
                          lambda: f"({self.text(depth + 1)})|list", lambda: "d.keys()", lambda: f"({i()}|list) + [{self.atom()}]",
                          lambda: f"({self.text(depth + 1)}).splitlines()"])()

    def truth(self, depth=0):
        self.budget -= 1
        if depth > 3 or self.budget < 0:
            return self.pick(["true", "flag", "false"])
        b = lambda: self.truth(depth + 1)  # noqa: E731
        return self.pick([lambda: "flag", lambda: f"{self.atom()} is {self.pick(['', 'not '])}{self.pick(TESTS)}", lambda: f"(not ({b()}))",
                          lambda: f"({b()} {self.pick(['and', 'or'])} {b()})", lambda: f"({self.expression(depth + 1)})",
                          lambda: f"({self.number(depth + 1)}) {self.pick(['==', '!=', '<', '<=', '>', '>='])} ({self.number(depth + 1)})",
                          lambda: f"({self.text(depth + 1)}) {self.pick(['==', '!=', '<', 'in', 'not in'])} ({self.text(depth + 1)})",
                          lambda: f"({self.expression(depth + 1)}) {self.pick(['in', 'not in'])} ({self.items(depth + 1)})",
                          lambda: f"({self.text(depth + 1)}).{self.pick(['startswith', 'endswith'])}({self.string()})",
                          lambda: f"n is {self.pick(['odd', 'even', 'divisibleby(3)', 'divisibleby 2'])}",
                          lambda: f"{self.atom()} is {self.pick(['eq', 'equalto', 'ne', 'sameas'][:3])}({self.atom()})",
                          lambda: f"({self.items(depth + 1)})|list == ({self.items(depth + 1)})|list",
                          lambda: self.pick(["loop.first", "not loop.last", "loop.previtem is defined", "loop.nextitem is defined"])
                          if self.loops else "true"])()

    def expression(self, depth=0):
        kind = self.rng.randrange(20)
        if kind < 6:
            return self.text(depth)
        if kind < 9:
            return self.number(depth)
        if kind < 12:
            return self.items(depth)
        if kind < 14:
            return self.truth(depth)
        if kind < 17 or depth > 3:
            return self.atom()
        if kind < 18:
            return self.pick([f"({self.expression(depth + 1)})|{self.pick(ANY_FILTERS)}", f"({self.atom()}).{self.pick(ANY_METHODS)}",
                              f"({self.expression(depth + 1)})[{self.pick(['0', '-1', '1', 'n', repr('k'), repr('role')])}]"])
        if kind < 19:
            value = self.expression(depth + 1)
            return self.pick(["{'k': " + value + ", 'a': 1}", "{}", "{'z': " + value + "}", "dict(a=1, b='x')", "dict(d)", "(" + value + ",)",
                              "(" + value + " if " + self.truth(depth + 1) + ")"])
        if self.macros:
            value = self.expression(depth + 1)
            return f"{self.pick(self.macros)}({self.pick(['', value, value + ', ' + self.atom(), 'a=' + value])})"
        return self.pick(["loop.cycle('p', 'q')", "loop.changed(item)", "loop.revindex", "loop.length"]) if self.loops else self.atom()

    def tag(self, text):
        return self.pick(["{% ", "{%- ", "{% ", "{%+ "]) + text + self.pick([" %}", " -%}", " %}", " %}\n", " +%}"])

    def statement(self, depth):
        kind = self.rng.randrange(22)
        if depth > 3 or self.budget < 0 or kind < 4:
            return self.pick(["text", " ", "\n", "  \n", "a\n  b", "<|im_start|>", "\t", "{", "}", "%"])
        if kind < 10:
            return self.pick(["{{ ", "{{- "]) + self.expression() + self.pick([" }}", " -}}", " }}\n"])
        body = lambda: self.body(depth + 1)  # noqa: E731
        if kind < 13:
            middle = "".join(self.tag("elif " + self.truth()) + body() for _ in range(self.pick([0, 0, 1])))
            other = self.tag("else") + body() if self.rng.random() < 0.5 else ""
            return self.tag("if " + self.truth()) + body() + middle + other + self.tag("endif")
        if kind < 16:
            target = self.pick(["item", "message", "x", "k, v", "item"])
            source = self.pick(["messages", "range(3)", "[1, 'a', none]", "d", "d.items()", "s", "d|items", "tools", "n",
                                "messages[::-1]", "[]", "[(1, 2), (3, 4)]", self.items()])
            if target == "k, v":
                source = self.pick(["d.items()", "d|items", "[(1, 2), ('a', 'b')]", "d|dictsort"])
            test = f" if {self.truth()}" if self.rng.random() < 0.2 else ""
            self.loops += 1
            inner = body()
            if self.rng.random() < 0.2:
                inner += self.tag("if " + self.truth()) + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + body()
            self.loops -= 1
            other = self.tag("else") + body() if self.rng.random() < 0.2 else ""
            return self.tag(f"for {target} in {source}{test}") + inner + other + self.tag("endfor")
        if kind < 18:
            target = self.pick(["x", "y", "z", "message", "ns.a", "x, y"])
            value = f"({self.expression()}, {self.expression()})" if "," in target else self.expression()
            return self.tag(f"set {target} = {value}")
        if kind < 19:
            loops, self.loops = self.loops, 0
            inner = body()
            self.loops = loops
            return self.tag("set " + self.pick(["w", "w | upper", "w | trim"])) + inner + self.tag("endset")
        if kind < 20:
            return self.tag(f"with y = {self.expression()}") + body() + self.tag("endwith")
        if kind < 21:
            return self.pick(["{# c #}", "{#- c -#}", "  {# c #}\n", "{% raw %}{{ r }}{% endraw %}"])
        loops, self.loops = self.loops, 0
        inner = body()
        self.loops = loops
        begin, end = self.pick([("generation", "endgeneration"), ("filter upper", "endfilter"), ("filter trim", "endfilter")])
        return self.tag(begin) + inner + self.tag(end)

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.rng.randint(1, 3)))

    def template(self):
        head = "{% set ns = namespace(a=0, s='') %}" if self.rng.random() < 0.7 else ""
        for name in ["m", "f"][:self.pick([0, 0, 1, 2])]:
            # It is callable only behind its end, so that none runs for ever.
            parameters = self.pick(["a", "a, b=2", "a, item='z'"])
            head += self.tag(f"macro {name}({parameters})") + self.body(2) + self.tag("endmacro")
            self.macros = [*self.macros, name]
            self.budget = 30
        return head + "".join(self.statement(0) for _ in range(self.rng.randint(1, 6)))


def conversation(rng):
    def value(depth=0):
        kind = rng.randrange(8 if depth < 2 else 5)
        if kind < 2:
            return rng.choice(["", "a", "b c", " x ", "Hello World", "日本", "<|im_end|>", "a\nb\n", "k", "7", "ǅ ŉ"])
        if kind < 3:
            return rng.choice([0, 1, -5, 3, 2.5, 1e300, 12345678901234567890, -0.0])
        if kind < 5:
            return rng.choice([None, True, False])
        if kind < 6:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice("kabz"): value(depth + 1) for _ in range(rng.randrange(4))}
    messages = [{"role": rng.choice(["user", "system", "assistant", "tool"]), "content": value(2) if rng.random() < 0.8 else value(),
                 **({"name": "n"} if rng.random() < 0.2 else {})} for _ in range(rng.randrange(4))]
    return {"messages": messages, "tools": rng.choice([None, [], [{"name": "f", "k": 1}]]),
            "variables": {"x": value(), "y": value(), "n": rng.randrange(-2, 9), "s": "Some text, here", "d": {"k": 1, "a": "v", "z": [1]},
                          "flag": rng.random() < 0.5},
            "add_generation_prompt": rng.random() < 0.5}


def case(seed):
    rng = random.Random(seed)
    return Grammar(rng).template(), conversation(rng)
