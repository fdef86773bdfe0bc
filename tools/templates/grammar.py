# SPDX-License-Identifier: Apache-2.0
"""Random templates over the part of Jinja that libs/tokenizer has, and random conversations to render them over."""
import random

STRINGS = ["", "a", "b c", "  x ", "Hello", "q-r-s", "Ünï", "日本", "a,b,,c", "\\n", " y\\n\\n", "'", "<|im_end|>", "{}", "AbC dEf",
           "12", "-3.5", "é\\u0301", "\\x1c z\\u2028w", "ß ı", "a\\rb\\r\\nc"]
NAMES = ["messages", "tools", "x", "y", "z", "n", "s", "d", "flag", "nothing", "message", "item", "ns"]
ATTRIBUTES = ["role", "content", "name", "k", "a", "missing", "tool_calls", "items"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence",
         "true", "false", "callable", "lower", "upper"]
INTEGER_TESTS = ["odd", "even", "divisibleby(3)", "divisibleby 2"]
ARGUMENT_TESTS = ["eq", "equalto", "ne", "lt", "le", "gt", "ge", "in", "=="]
PLAIN_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "length", "list", "string", "first", "last", "reverse|list",
                 "join", "tojson", "items|list", "int", "float", "abs", "sort", "unique|list", "dictsort", "safe", "count",
                 "default('dd')", "default('ee', true)", "d(1)", "join('-')", "join(', ')", "tojson(indent=2)",
                 "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "indent(2)", "indent(3, true)", "indent(1, blank=true)",
                 "replace('a', 'bb')", "replace('', '.')", "replace('c', '', 1)", "trim('ax ')", "map('upper')|list",
                 "map(attribute='role')|list", "map(attribute='k', default='?')|join('/')", "map('length')|list", "select|list",
                 "select('string')|list", "reject('none')|list", "select('odd')|list", "selectattr('role')|list",
                 "selectattr('role', 'equalto', 'user')|list", "rejectattr('content', 'string')|list|length", "sort(reverse=true)",
                 "dictsort(by='value')", "dictsort(true)", "sort(attribute='role')", "int(7)", "map('int')|list", "min", "max",
                 "sum", "map", "select", "items", "unique", "reverse", "rejectattr('k')|first", "map(attribute='role')|first"]
METHODS = ["strip()", "lstrip()", "rstrip()", "strip('ax ')", "upper()", "lower()", "title()", "capitalize()", "split()",
           "split(',')", "split(' ', 1)", "rsplit('-', 1)", "split('b')[-1]", "splitlines()", "startswith('a')", "endswith('c')",
           "startswith(('a', 'H'))", "replace('a', 'X')", "replace(' ', '', 1)", "find('b')", "removeprefix('a')",
           "removesuffix('c')", "items()|list", "keys()|list", "values()|list", "get('k')", "get('zz', 5)", "join(['u', 'v'])",
           "items()", "keys()", "values()", "count('a')", "isdigit()", "rstrip('\\n')", "lstrip('\\n')"]
SLICES = ["[0]", "[-1]", "[1]", "[5]", "[1:]", "[:-1]", "[::-1]", "[::2]", "[1:3]", "[-2:]", "[:0]", "['k']", "['role']", "[2:0:-1]"]


class Grammar:
    def __init__(self, rng):
        self.rng = rng
        self.loops = 0
        self.macros = []
        self.budget = 40

    def pick(self, options):
        return self.rng.choice(options)

    def string(self):
        text = self.pick(STRINGS)
        return '"' + text + '"' if "'" in text else self.pick(["'" + text + "'", '"' + text + '"'])

    def atom(self):
        kind = self.rng.randrange(12)
        if kind < 3:
            return self.string()
        if kind < 5:
            return str(self.pick([0, 1, 2, 3, 7, 10, -1, 1.5, 0.25, 2.0, 1e16, 1e-7]))
        if kind < 6:
            return self.pick(["true", "false", "none", "True", "None"])
        if kind < 7 and self.loops:
            return "loop." + self.pick(["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem",
                                        "depth", "cycle('p', 'q')", "changed(item)"])
        name = self.pick(NAMES)
        return name if kind < 10 else f"{name}.{self.pick(ATTRIBUTES)}"

    def expression(self, depth=0):
        self.budget -= 1
        if depth > 3 or self.budget < 0:
            return self.atom()
        e = lambda: self.expression(depth + 1)  # noqa: E731
        kind = self.rng.randrange(24)
        if kind < 5:
            return self.atom()
        if kind < 8:
            return f"{e()} {self.pick(['+', '-', '*', '~', '//', '%', '/', '+', '~', '**' if depth > 2 else '+'])} {e()}"
        if kind < 10:
            return f"({e()}) {self.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} ({e()})"
        if kind < 11:
            return f"{e()} {self.pick(['and', 'or'])} {e()}"
        if kind < 12:
            return f"{self.pick(['not ', '-', '+'])}({e()})"
        if kind < 15:
            return f"({e()})|{self.pick(PLAIN_FILTERS)}"
        if kind < 16:
            return f"({e()}).{self.pick(METHODS)}"
        if kind < 17:
            return f"({e()}){self.pick(SLICES)}"
        if kind < 19:
            test = self.pick(TESTS + INTEGER_TESTS)
            return f"{self.atom()} is {self.pick(['', 'not '])}{test}"
        if kind < 20:
            return f"{self.atom()} is {self.pick(ARGUMENT_TESTS[:-1])}({self.atom()})"
        if kind < 21:
            return f"({e()} if {e()}{self.pick(['', ' else ' + self.atom()])})"
        if kind < 22:
            return self.pick(["[{}, {}]", "({}, {})", "[{}]", "({},)", "[]", "{{'k': {}, 'a': {}}}", "{{'z': {}}}", "{{}}", "[{0}, {0}]"]
                             ).format(e(), e())
        if kind < 23:
            return self.pick([f"range({self.rng.randrange(5)})", "range(1, 4)", "range(3, 0, -1)", "dict(a=1, b='x')", "dict(d)",
                              "range(4)|list", "range(2)|length"])
        if self.macros:
            return f"{self.pick(self.macros)}({self.pick(['', e(), e() + ', ' + e(), 'b=' + e()])})"
        return self.atom()

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
            middle = "".join(self.tag("elif " + self.expression()) + body() for _ in range(self.pick([0, 0, 1])))
            other = self.tag("else") + body() if self.rng.random() < 0.5 else ""
            return self.tag("if " + self.expression()) + body() + middle + other + self.tag("endif")
        if kind < 16:
            target = self.pick(["item", "message", "x", "k, v", "item"])
            source = self.pick(["messages", "range(3)", "[1, 'a', none]", "d", "d.items()", "s", "d|items", "tools", "n",
                                "messages[::-1]", "[]", "[(1, 2), (3, 4)]", self.expression()])
            test = f" if {self.expression()}" if self.rng.random() < 0.2 else ""
            self.loops += 1
            inner = body()
            if self.rng.random() < 0.2:
                inner += self.tag("if " + self.expression()) + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + body()
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
            return self.tag("set " + self.pick(["x", "y", "x | upper", "z | trim"])) + inner + self.tag("endset")
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
            parameters = self.pick(["", "a", "a, b=2", "item, b='z'"])
            head += self.tag(f"macro {name}({parameters})") + self.body(2) + self.tag("endmacro")
            self.macros = [*self.macros, name]
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
