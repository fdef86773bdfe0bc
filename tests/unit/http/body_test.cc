// SPDX-License-Identifier: Apache-2.0
#include "phalanx/http/body.h"

#include <gtest/gtest.h>

namespace phalanx::http {
namespace {

std::string pattern(std::size_t bytes) {
  std::string text(bytes, 'a');
  for (std::size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>('a' + i % 23);
  }
  return text;
}

void expect_pieces(Body body, const std::string& text) {
  EXPECT_EQ(body.size(), text.size());
  EXPECT_EQ(body.empty(), text.empty());
  EXPECT_EQ(body.text(), text);
  std::string joined;
  for (const std::string& piece : body.take_pieces()) {
    EXPECT_FALSE(piece.empty());
    EXPECT_LE(piece.size(), 2 * Body::kPieceBytes);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(body.size(), 0U);
}

TEST(Body, OfATextHasPiecesOfBoundedSize) {
  for (const std::size_t bytes : {std::size_t{0},
                                  std::size_t{1},
                                  Body::kPieceBytes,
                                  2 * Body::kPieceBytes,
                                  2 * Body::kPieceBytes + 1,
                                  5 * Body::kPieceBytes,
                                  5 * Body::kPieceBytes + 7}) {
    expect_pieces(pattern(bytes), pattern(bytes));
  }
}

TEST(Body, GrowsByPieces) {
  const std::string text = pattern(3 * Body::kPieceBytes + 1000);
  for (const std::size_t step : {std::size_t{977}, std::size_t{65536}, text.size()}) {
    Body body;
    for (std::size_t begin = 0; begin < text.size(); begin += step) {
      body.append(std::string_view(text).substr(begin, step));
    }
    EXPECT_EQ(Body(body).take_text(), text);
    expect_pieces(std::move(body), text);
  }
}

TEST(Body, IsEmptyOnceItIsTaken) {
  Body body("text");
  EXPECT_EQ(body, "text");
  EXPECT_EQ(body.take_text(), "text");
  EXPECT_TRUE(body.empty());
  EXPECT_EQ(body.take_text(), "");
  body.append("again");
  EXPECT_EQ(body, "again");
}

}  // namespace
}  // namespace phalanx::http
