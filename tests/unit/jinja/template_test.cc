// SPDX-License-Identifier: Apache-2.0
#include "phalanx/jinja/template.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "phalanx/base/thread_time.h"
#include "phalanx/base/utf8.h"
#include "phalanx/jinja/json_value.h"

namespace phalanx::jinja {
namespace {

// The language itself is compared with Python's Jinja in tokenizer_test; here is the room's door.

Result<MarkedText> render(std::string_view source,
                          const Template::Variables& variables,
                          const Limits& limits = {}) {
  PHALANX_TRY(const Template compiled, Template::compile(source));
  return compiled.render(variables, limits, std::chrono::system_clock::time_point());
}

TEST(Template, MarksWhatCameFromTheUserAndNothingElse) {
  const auto text =
      render("<{{ name|upper }}>{{ own }}",
             {{"name", Value::text(MarkedText::user("ab"))}, {"own", Value::literal("c")}});
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->text(), "<AB>c");
  EXPECT_FALSE(text->user_data().overlaps({0, 1}));
  EXPECT_TRUE(text->user_data().overlaps({1, 3}));
  EXPECT_FALSE(text->user_data().overlaps({3, 5}));
}

TEST(Template, SortsBySeveralAttributes) {
  const auto text = render(
      "{% for x in [{'a': 2, 'b': 'Z'}, {'a': 1, 'b': 'd'}, {'a': 2, 'b': "
      "'c'}]|sort(attribute='a,b') %}"
      "{{ x.a }}{{ x.b }} {% endfor %}",
      {});
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->text(), "1d 2c 2Z ");
}

TEST(Template, TheLaterOfTwoVariablesOfOneNameCounts) {
  const auto text = render("{{ x }}", {{"x", Value::literal("1")}, {"x", Value::literal("2")}});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text(), "2");
}

TEST(Template, LimitsEndARenderingAndNameThemselves) {
  const auto text =
      render("{% for i in range(100) %}x{% endfor %}", {}, {.loop_iterations_max = 10});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Code::kResourceExhausted);
}

TEST(Template, TimeEndsARenderingToo) {
  const auto text =
      render("{% for i in range(100) %}x{% endfor %}", {}, {.cpu_time_max = Duration::zero()});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code(), Code::kResourceExhausted);
  EXPECT_NE(text.error().message().find("CPU time"), std::string::npos);
}

// What a text is taken apart into is many times its size.
TEST(Template, CharactersAreChargedBeforeTheyAreMade) {
  const Value text = Value::text(MarkedText::user(std::string(10'000, 'x')));
  for (const char* source : {"{% for c in x %}{% endfor %}",
                             "{% set a, b = x %}",
                             "{{ x|list|length }}",
                             "{{ ''.join(x) }}"}) {
    const auto rendered = render(source, {{"x", text}}, {.work_bytes_max = 100'000});
    ASSERT_FALSE(rendered) << source;
    EXPECT_EQ(rendered.error().code(), Code::kResourceExhausted) << source;
  }
}

// The bytes that they take are counted, and not those of their list alone.
TEST(Template, PartsOfATextAreChargedBeforeTheyAreMade) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) {
    text += ", \n";
  }
  for (const char* source : {"{{ x.split(',')|length }}",
                             "{{ x.rsplit(',')|length }}",
                             "{{ x.split()|length }}",
                             "{{ x.splitlines()|length }}",
                             "{{ x|indent|length }}"}) {
    const auto rendered =
        render(source, {{"x", Value::text(MarkedText::user(text))}}, {.work_bytes_max = 1'000'000});
    ASSERT_FALSE(rendered) << source;
    EXPECT_EQ(rendered.error().code(), Code::kResourceExhausted) << source;
  }
}

// Only as long as texts and their number: with its square it would run for hours.
TEST(Template, TakesTimeThatGrowsWithItsVariablesAndTexts) {
  std::string words;
  for (int i = 0; i < 500'000; ++i) {
    words += "ab ";
  }
  Template::Variables variables{{"x", Value::text(MarkedText::user(words))}};
  for (int i = 0; i < 500'000; ++i) {
    variables.emplace_back("v" + std::to_string(i), Value(std::int64_t{i}));
  }
  const Value part = Value::text(MarkedText::user(std::string(1'000'000, 'a') + "b"));
  const Value whole = Value::text(MarkedText::user(std::string(2'000'000, 'a')));
  variables.emplace_back("part", part);
  variables.emplace_back("whole", whole);
  const auto rendered = render(
      "{{ x.split()|length }} {{ part in whole }} {{ whole.find(part) }} "
      "{{ whole.split(part)|length }} {{ whole.rsplit(part)|length }} "
      "{{ whole.replace(part, '')|length }}",
      variables,
      {.work_bytes_max = std::size_t{1} << 30, .cpu_time_max = std::chrono::hours(1)});
  ASSERT_TRUE(rendered) << rendered.error().message();
  EXPECT_EQ(rendered->text(), "500000 False -1 1 1 2000000");
}

// Sixty steps make a list that has 2^60 elements for whoever goes through it.
TEST(Template, WhatStandsInAListTwiceIsTwiceThere) {
  const std::string lists =
      "{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% endfor %}";
  const std::string dicts =
      "{% set ns = namespace(s=1) %}{% for i in range(60) %}{% set ns.s = {'a': ns.s, 'b': ns.s} %}"
      "{% endfor %}";
  for (const std::string& made : {lists, dicts}) {
    for (const char* use : {"{{ ns.s|tojson }}", "{{ ns.s }}", "{{ ns.s == ns.s }}"}) {
      const auto rendered = render(made + use, {});
      ASSERT_FALSE(rendered) << use;
      EXPECT_EQ(rendered.error().code(), Code::kResourceExhausted) << use;
      EXPECT_NE(rendered.error().message().find("more than once"), std::string::npos) << use;
    }
  }
  const auto small = render(
      "{% set ns = namespace(s=[1]) %}{% for i in range(3) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% endfor %}{{ ns.s }}",
      {});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->text(), "[[[[1], [1]], [[1], [1]]], [[[1], [1]], [[1], [1]]]]");
}

// The clock is looked at as often as its size asks for.
TEST(Template, TimeEndsWhatGoesThroughMuchAgainAndAgain) {
  const auto rendered = render(
      "{% set a = ['x' * 100000] * 1000 %}{% set b = ['x' * 100000] * 1000 %}"
      "{% for i in range(100000) %}{{ a == b }}{% endfor %}",
      {},
      {.work_bytes_max = std::size_t{1} << 30, .cpu_time_max = std::chrono::milliseconds(100)});
  ASSERT_FALSE(rendered);
  EXPECT_NE(rendered.error().message().find("CPU time"), std::string::npos);
}

// In the midst of them: they would take seconds to find nothing.
TEST(Template, TimeEndsFiltersThatGoThroughAListForEachElement) {
  std::vector<Value> numbers;
  std::vector<Value> holders;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    numbers.emplace_back(i);
    Dict holder;
    holder.set(std::make_shared<const MarkedText>(MarkedText::literal("a")), Value(-1 - i));
    holders.push_back(*Value::dict(std::move(holder)));
  }
  const Template::Variables variables{{"x", *Value::list(std::move(numbers))},
                                      {"y", *Value::list(std::move(holders))}};
  for (const char* source :
       {"{{ x|reject('in', x)|list }}", "{{ y|selectattr('a', 'in', x)|list }}"}) {
    const auto rendered =
        render(source, variables, {.cpu_time_max = std::chrono::milliseconds(100)});
    ASSERT_FALSE(rendered) << source;
    EXPECT_NE(rendered.error().message().find("CPU time"), std::string::npos) << source;
  }
}

TEST(Template, StripsManyCharactersInTheTimeOfTheText) {
  std::string characters = "a";
  for (char32_t c = 0x4E00; c < 0x4E00 + 10'000; ++c) {
    append_utf8(c, characters);
  }
  // The one that is there stands last.
  std::rotate(characters.begin(), characters.begin() + 1, characters.end());
  const Template::Variables variables{
      {"x", Value::text(MarkedText::user(std::string(500'000, 'a') + "b"))},
      {"c", Value::text(MarkedText::user(characters))}};
  const CpuTimeLimit limit(std::chrono::seconds(5));
  const auto rendered = render(
      "{{ x.strip(c) }} {{ x|trim(c) }} {{ x.lstrip(c) }} "
      "{{ x.rstrip('b').rstrip(c) }}.",
      variables,
      {.cpu_time_max = std::chrono::hours(1)});
  EXPECT_FALSE(limit.passed());
  ASSERT_TRUE(rendered) << rendered.error().message();
  EXPECT_EQ(rendered->text(), "b b b .");
}

TEST(Template, LooksAtTheEndsOfALongSequenceOnly) {
  const auto list = Value::list(std::vector<Value>(8000, Value(std::int64_t{7})));
  ASSERT_TRUE(list);
  const std::string text = "\u00E4" + std::string(3'000'000, 'x') + "\u20AC";
  const Template::Variables variables{{"l", *list}, {"t", Value::text(MarkedText::user(text))}};
  const auto rendered = render(
      "{% for x in l %}{% if loop.first or loop.last %}{{ l|first }}{{ l|last }}{{ t|first }}"
      "{{ t|last }} {% elif (l|last) != 7 or (t|last) == 'x' %}wrong{% endif %}{% endfor %}"
      "{{ range(3)|last }}{{ ''|last is undefined }}{{ {'a': 1, 'b': 2}|last }}{{ []|first }}",
      variables);
  ASSERT_TRUE(rendered) << rendered.error().message();
  EXPECT_EQ(rendered->text(), "77\u00E4\u20AC 77\u00E4\u20AC 2Trueb");
}

TEST(Template, SplitsFromTheRight) {
  const auto rendered = render(
      "{{ 'aaaaa'.rsplit('aa') }} {{ 'a,b,,c'.rsplit(',', 2) }} {{ ',a,'.rsplit(',') }} "
      "{{ 'abc'.rsplit('abcd') }} {{ 'aXYbXYc'.rsplit('XY', 1) }} {{ 'x'.rsplit('x', 0) }}",
      {});
  ASSERT_TRUE(rendered) << rendered.error().message();
  EXPECT_EQ(rendered->text(),
            "['a', '', ''] ['a,b', '', 'c'] ['', 'a', ''] ['abc'] ['aXYb', 'c'] ['x']");
}

TEST(Template, AMacroDoesNotLeaveTheBlockThatHasIt) {
  const auto rendered = render(
      "{% set m | default(m, true) %}{% macro m() %}[{{ zzz }}]{% endmacro %}{% endset %}{{ m() }}",
      {});
  ASSERT_FALSE(rendered);
  EXPECT_EQ(rendered.error().code(), Code::kInvalidArgument);
}

TEST(Template, RefusesWhenCompiledWhatItCannotRun) {
  EXPECT_EQ(Template::compile("{{ x|nothing }}").error().code(), Code::kUnimplemented);
  EXPECT_EQ(Template::compile("{% if %}").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(Template::compile("\xFF").error().code(), Code::kInvalidArgument);
}

TEST(Template, TellsWhichVariablesItReads) {
  const auto compiled = Template::compile("{% for part in m.content %}{{ tools }}{% endfor %}");
  ASSERT_TRUE(compiled);
  EXPECT_TRUE(compiled->mentions("tools"));
  EXPECT_FALSE(compiled->mentions("documents"));
  EXPECT_TRUE(compiled->iterates_content());
  EXPECT_TRUE(compiled->takes_lists_only());
  const auto careful = Template::compile(
      "{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% endfor "
      "%}{% endif %}");
  ASSERT_TRUE(careful);
  EXPECT_TRUE(careful->iterates_content());
  EXPECT_FALSE(careful->takes_lists_only());
  EXPECT_FALSE(Template::compile("{{ m.content }}")->takes_lists_only());
}

// As in Python; there is no arithmetic with them, which is an error that says so.
TEST(Template, IntegersBeyond64BitsAreConvertedAndCompared) {
  const auto big = [](const char* digits) {
    return Value(Value::BigInteger{std::make_shared<const std::string>(digits)});
  };
  const Template::Variables variables{{"a", big("123456789012345678901234567890")},
                                      {"b", big("123456789012345678901234567891")},
                                      {"n", big("-99999999999999999999")},
                                      {"p", big("18446744073709551616")},
                                      {"q", big("18446744073709551617")},
                                      {"long", Value::literal(std::string(309, '9'))}};
  for (const auto& [source, expected] : std::vector<std::pair<const char*, const char*>>{
           {"{{ a|float }} {{ n|float }}", "1.2345678901234568e+29 -1e+20"},
           {"{{ a|int }} {{ ' +0099999999999999999999 '|int }}",
            "123456789012345678901234567890 99999999999999999999"},
           {"{{ '-99999999999999999999'|int == n }}", "True"},
           {"{{ 1e19|int }} {{ -1e19|int }}", "10000000000000000000 -10000000000000000000"},
           {"{{ 1e308|int|string|length }} {{ 1e308|int|float }}", "309 1e+308"},
           {"{{ 9223372036854774784.0|int + 1 }}", "9223372036854774785"},
           {"{{ '9' ~ '9'|int(5) }} {{ '-'|int(5) }} {{ long|int(5) }}", "99 5 5"},
           {"{{ a < b }} {{ b < a }} {{ a <= a }} {{ n < a }} {{ a > 1 }} {{ n > 1 }}",
            "True False True True True False"},
           {"{{ 1e28 < a }} {{ a < 1e30 }} {{ n < -1e30 }}", "True True False"},
           {"{{ p == 2.0 ** 64 }} {{ q > 2.0 ** 64 }} {{ q == p|float }} {{ p <= 2.0 ** 64 }}",
            "True True False True"},
           {"{{ p != 1 }} {{ 2.0 ** 64 < q }} {{ n == -1e20 }}", "True True False"},
           {"{{ p|abs }} {{ n|abs }}", "18446744073709551616 99999999999999999999"},
           {"{{ (-9223372036854775807 - 1)|abs }}", "9223372036854775808"},
           {"{{ [a, 1.5, n, b, 3]|sort|join(' ') }}",
            "-99999999999999999999 1.5 3 123456789012345678901234567890 "
            "123456789012345678901234567891"},
           {"{{ [a, b]|max == b }} {{ [a, n]|min == n }}", "True True"}}) {
    const auto text = render(source, variables);
    ASSERT_TRUE(text) << source << ": " << text.error().message();
    EXPECT_EQ(text->text(), expected) << source;
  }
  for (const char* source : {"{{ a + 1 }}", "{{ a < 'x' }}", "{{ -a }}"}) {
    const auto text = render(source, variables);
    ASSERT_FALSE(text) << source;
    EXPECT_NE(text.error().message().find("int object beyond 64 bits"), std::string::npos);
  }
}

TEST(Template, ARangeIsSlicedWithin64Bits) {
  const auto small = render("{{ range(2, 20, 3)[1:5:2] }} {{ range(3)[::-1]|list }}", {});
  ASSERT_TRUE(small) << small.error().message();
  EXPECT_EQ(small->text(), "range(5, 17, 6) [2, 1, 0]");
  for (const char* source : {"{{ range(0, 9223372036854775807, 4611686018427387904)[::3] }}",
                             "{{ range(-9223372036854775807, -9, 4611686018427387904)[::-1] }}",
                             "{{ range(9223372036854775000, 9223372036854775807, 500)[:2] }}"}) {
    const auto text = render(source, {});
    ASSERT_FALSE(text) << source << ": " << text->text();
    EXPECT_NE(text.error().message().find("64 bits"), std::string::npos) << source;
  }
}

TEST(Template, WhatATemplateRaisesIsShort) {
  const auto text = render("{{ raise_exception('x' + 'ü' * 100000) }}", {});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message().size(), 4095U + 3U) << "up to a whole character, and …";
  EXPECT_TRUE(is_valid_utf8(text.error().message()));
}

TEST(Template, ZeroHasNoNegativePower) {
  for (const char* source : {"{{ 0 ** -1 }}", "{{ 0.0 ** -1 }}", "{{ 0 ** -0.5 }}"}) {
    EXPECT_FALSE(render(source, {})) << source;
  }
}

TEST(JsonValue, KeepsOrderAndTheLastOfTwoAndMarksStrings) {
  const auto value = parse_json_value(R"({"b": 1, "a": "x", "b": 2})", "variables");
  ASSERT_TRUE(value);
  std::size_t bytes = 0;
  const auto text = to_json(*value, {}, [&](std::size_t more) {
    bytes += more;
    return ok();
  });
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text(), R"({"b": 2, "a": "x"})");
  EXPECT_EQ(bytes, text->size());
  EXPECT_TRUE(text->user_data().overlaps({15, 16}));   // x
  EXPECT_FALSE(text->user_data().overlaps({12, 14}));  // what stands between
}

// Two bytes of a request may become a line of thousands.
TEST(JsonValue, IsNotWrittenBeyondWhatIsPaidFor) {
  std::string json = std::string(100, '[') + "0";
  for (int i = 0; i < 10'000; ++i) {
    json += ",0";
  }
  const auto value = parse_json_value(json + std::string(100, ']'), "x");
  ASSERT_TRUE(value);
  std::size_t paid = 0;
  const auto text = to_json(*value, {.indent = 64}, [&](std::size_t bytes) -> Status {
    paid += bytes;
    return paid <= 100'000 ? ok() : Status(resource_exhausted("enough"));
  });
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message(), "enough");
  EXPECT_LT(paid, 110'000U);
}

TEST(JsonValue, BoundsDepth) {
  EXPECT_TRUE(parse_json_value(std::string(128, '[') + std::string(128, ']'), "x"));
  EXPECT_FALSE(parse_json_value(std::string(129, '[') + std::string(129, ']'), "x"));
}

// A text part of a message, which a client may write with three bytes.
TEST(JsonValue, IsBoundedByTheMemoryThatItTakes) {
  const auto list_of = [](std::size_t parts) {
    std::string json = "[";
    for (std::size_t i = 0; i < parts; ++i) {
      json += R"({"type":"text","text":""},)";
    }
    json.back() = ']';
    return json;
  };
  EXPECT_TRUE(parse_json_value(list_of(100'000), "messages"));
  const auto refused = parse_json_value(list_of(1'500'000), "messages");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("more than 256 MB"), std::string::npos)
      << refused.error().message();
}

}  // namespace
}  // namespace phalanx::jinja
