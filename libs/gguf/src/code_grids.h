// SPDX-License-Identifier: Apache-2.0
// The grids of the IQ1, IQ2 and IQ3 types: points of 8 or 4 small integers each, which blocks name
// by their places.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace phalanx::gguf {

template <std::size_t count, std::size_t width>
using CodeGrid = std::array<std::array<std::int8_t, width>, count>;

extern const CodeGrid<2048, 8> kIq1Grid;    // of −1, 0, 1
extern const CodeGrid<256, 8> kIq2XxsGrid;  // of 8, 25, 43
extern const CodeGrid<512, 8> kIq2XsGrid;   // of the same, as the next one is
extern const CodeGrid<1024, 8> kIq2SGrid;
extern const CodeGrid<256, 4> kIq3XxsGrid;  // of 4, 12, 20, 28, 36, 44, 52, 62
extern const CodeGrid<512, 4> kIq3SGrid;    // of 1, 3, 5, 7, 9, 11, 13, 15

}  // namespace phalanx::gguf
