// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>
#include <cmath>

#include <utf8proc.h>

#include "phalanx/base/utf8.h"
#include "phalanx/jinja/value.h"

#include "value_kinds.h"

namespace phalanx::jinja {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_printable(char32_t c) {
  if (c < 0x7F) {
    return c >= 0x20;
  }
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void append_escape(char32_t c, std::string& out) {
  const int digits = c < 0x100 ? 2 : c < 0x10000 ? 4 : 8;
  out.append(digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U");
  for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) {
    out.push_back(kHexDigits[(c >> shift) & 0xFU]);
  }
}

// The string as Python writes it inside a list.
std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    const char32_t c = next_code_point(text, i);
    if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out.push_back('\\');
      out.push_back(static_cast<char>(c));
    } else if (is_printable(c)) {
      out.append(text.substr(begin, i - begin));
    } else {
      append_escape(c, out);
    }
  }
  out.push_back(quote);
  return out;
}

Status append_element(const Value& value, MarkedText& out);

Status append_list(const List& list, MarkedText& out) {
  out.append_literal(list.is_tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) {
      out.append_literal(", ");
    }
    PHALANX_RETURN_IF_ERROR(append_element(list.items[i], out));
  }
  if (list.is_tuple) {
    out.append_literal(list.items.size() == 1 ? ",)" : ")");
  } else {
    out.append_literal("]");
  }
  return ok();
}

Status append_view(const Iterable& view, MarkedText& out) {
  if (view.is_range()) {
    out.append_literal("range(" + std::to_string(view.first) + ", " + std::to_string(view.stop));
    out.append_literal(view.step == 1 ? ")" : ", " + std::to_string(view.step) + ")");
    return ok();
  }
  out.append_literal(std::string(view.name) + "([");
  for (std::size_t i = 0; i < view.items.size(); ++i) {
    out.append_literal(i > 0 ? ", " : "");
    PHALANX_RETURN_IF_ERROR(append_element(view.items[i], out));
  }
  out.append_literal("])");
  return ok();
}

Status append_dict(const Dict& dict, MarkedText& out) {
  out.append_literal("{");
  bool first = true;
  for (const Dict::Entry& entry : dict.entries()) {
    if (!first) {
      out.append_literal(", ");
    }
    first = false;
    out.append_like(*entry.key, quoted(entry.key->view()));
    out.append_literal(": ");
    PHALANX_RETURN_IF_ERROR(append_element(entry.value, out));
  }
  out.append_literal("}");
  return ok();
}

Status append_element(const Value& value, MarkedText& out) {
  if (const MarkedText* text = value.as_text()) {
    out.append_like(*text, quoted(text->view()));
    return ok();
  }
  if (const List* list = value.as_list()) {
    return append_list(*list, out);
  }
  if (const Dict* dict = value.as_dict()) {
    return append_dict(*dict, out);
  }
  if (value.is_undefined()) {
    out.append_literal("Undefined");
    return ok();
  }
  PHALANX_TRY(const MarkedText text, to_text(value));
  out.append(text);
  return ok();
}

}  // namespace

std::string float_text(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  if (std::isinf(number)) {
    return number < 0 ? "-inf" : "inf";
  }
  std::array<char, 400> buffer{};
  const double magnitude = std::fabs(number);
  // Python changes to an exponent at these two bounds.
  const bool plain = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto written =
      std::to_chars(buffer.data(),
                    buffer.data() + buffer.size(),
                    number,
                    plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), written.ptr);
  if (plain && text.find('.') == std::string::npos) {
    text.append(".0");
  }
  return text;
}

Result<MarkedText> to_text(const Value& value) {
  if (const MarkedText* text = value.as_text()) {
    return *text;
  }
  MarkedText out;
  if (const auto* boolean = value.get<bool>()) {
    out.append_literal(*boolean ? "True" : "False");
  } else if (const auto* integer = value.get<std::int64_t>()) {
    out.append_literal(std::to_string(*integer));
  } else if (const auto* big = value.get<Value::BigInteger>()) {
    out.append_user(*big->digits);
  } else if (const auto* real = value.get<double>()) {
    out.append_literal(float_text(*real));
  } else if (value.is_none()) {
    out.append_literal("None");
  } else if (const List* list = value.as_list()) {
    PHALANX_RETURN_IF_ERROR(append_list(*list, out));
  } else if (const Dict* dict = value.as_dict()) {
    PHALANX_RETURN_IF_ERROR(append_dict(*dict, out));
  } else if (const Iterable* iterable = value.as_iterable();
             iterable != nullptr && !iterable->is_once) {
    PHALANX_RETURN_IF_ERROR(append_view(*iterable, out));
  } else if (!value.is_undefined()) {
    return invalid_argument(std::string(value.type_name()) + " cannot be printed");
  }
  return out;
}

}  // namespace phalanx::jinja
