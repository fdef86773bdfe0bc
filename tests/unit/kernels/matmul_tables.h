// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "array_tiles.h"
#include "kernel_inputs.h"
#include "tables.h"
#include "tile_emulator.h"

namespace phalanx::kernels {

// A table whose matrix products, attention or rows are compared with those of ref.
struct MatmulTable {
  std::string name;
  const KernelTable* table = nullptr;
  bool needs_emulator = false;
};
inline void PrintTo(const MatmulTable& of, std::ostream* out) {
  *out << of.name;
}

inline bool is_available(Isa isa) {
  const std::vector<Isa> isas = available_isas();
  return std::find(isas.begin(), isas.end(), isa) != isas.end();
}

// For the other kind of processor.
// Requires avx512vnni.
inline const KernelTable& other_avx512vnni_table() {
  return computes_512_bits_in_halves() ? avx512vnni_table() : avx512vnni_in_halves_table();
}

// The same of avx512bf16, which it requires.
inline const KernelTable& other_avx512bf16_table() {
  return computes_512_bits_in_halves() ? avx512bf16_table() : avx512bf16_in_halves_table();
}

// Those of this machine's vector instruction sets.
inline std::vector<MatmulTable> isa_tables() {
  std::vector<MatmulTable> tables;
  for (const Isa isa : vector_isas()) {
    tables.push_back({std::string(isa_name(isa)), &kernel_table(isa)});
  }
  return tables;
}

// With those which this processor would not take of the two of avx512vnni and of avx512bf16: they
// differ in products of bf16, in attention and in what is fetched.
inline std::vector<MatmulTable> vector_tables() {
  std::vector<MatmulTable> tables = isa_tables();
  if (is_available(Isa::kAvx512Vnni)) {
    tables.push_back({"avx512vnni_other", &other_avx512vnni_table()});
  }
  if (is_available(Isa::kAvx512Bf16)) {
    tables.push_back({"avx512bf16_other", &other_avx512bf16_table()});
  }
  return tables;
}

// Whether the amx table runs here with its tile instructions emulated. Its unit is compiled with
// instructions that round to bf16, too, and those are not emulated.
inline bool can_emulate_amx() {
  return is_available(Isa::kAvx512Vnni) && __builtin_cpu_supports("avx512bf16") != 0 &&
         !is_available(Isa::kAmx);
}
inline constexpr const char* kCannotEmulateAmx =
    "the amx table is emulated where a processor has avx512vnni and avx512_bf16 but no AMX";

// With the amx kernels over arrays, which have lanes of avx512vnni beside them, and with the amx
// table emulated, each where it runs: even to ask for such a table takes instructions of it.
inline std::vector<MatmulTable> with_tiles(std::vector<MatmulTable> tables) {
  if (is_available(Isa::kAvx512Vnni)) {
    tables.push_back({"amx_arrays", &array_tiles_table()});
  }
  if (can_emulate_amx()) {
    tables.push_back({"amx_emulated", &amx_table(), true});
  }
  return tables;
}

// With those whose products differ besides.
inline std::vector<MatmulTable> with_amx(std::vector<MatmulTable> tables) {
  tables = with_tiles(std::move(tables));
  if (is_available(Isa::kAvx512Vnni)) {
    tables.push_back({"amx_arrays_for_all_rows", &all_array_tiles_table()});
  }
  return tables;
}

// Those whose attention differs.
inline std::vector<MatmulTable> attention_tables() {
  return with_tiles(vector_tables());
}

// Those whose operations on rows differ: no tile instruction is in them.
inline std::vector<MatmulTable> row_tables() {
  std::vector<MatmulTable> tables = isa_tables();
  if (can_emulate_amx()) {
    tables.push_back({"amx_rows", &amx_table()});
  }
  return tables;
}

inline std::string matmul_table_name(const ::testing::TestParamInfo<MatmulTable>& info) {
  return info.param.name;
}

// A test that runs once for each of them, in the float mode.
class EachMatmulTable : public ::testing::TestWithParam<MatmulTable> {
 protected:
  [[nodiscard]] const KernelTable& table() const { return *GetParam().table; }
  [[nodiscard]] static const KernelTable& ref() { return kernel_table(Isa::kRef); }

  void SetUp() override {
    if (GetParam().needs_emulator) {
      emulator_.emplace();
    }
  }

 private:
  FloatModeScope mode_;
  std::optional<TileEmulator> emulator_;
};

}  // namespace phalanx::kernels
