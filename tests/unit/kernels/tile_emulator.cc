// SPDX-License-Identifier: Apache-2.0
#include "tile_emulator.h"

#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>

#include "phalanx/base/check.h"

#include "tile_file.h"

namespace phalanx::kernels {

namespace {

TileFile registers;
unsigned long carried_out = 0;
struct sigaction previous = {};

// The prefix that a VEX prefix stands for.
enum class Prefix { kNone, k66, kF3, kF2 };

struct Instruction {
  Prefix prefix;
  unsigned opcode;
  bool has_memory;
  int reg;  // of ModRM
  int rm;   // of ModRM, where there is no memory
  int vvvv;
  std::byte* memory;
  std::size_t stride;  // of SIB: the scaled index
  std::size_t length;  // bytes
};

std::uint64_t value_of(const mcontext_t& machine, unsigned number) {
  constexpr int kRegisters[16] = {REG_RAX,
                                  REG_RCX,
                                  REG_RDX,
                                  REG_RBX,
                                  REG_RSP,
                                  REG_RBP,
                                  REG_RSI,
                                  REG_RDI,
                                  REG_R8,
                                  REG_R9,
                                  REG_R10,
                                  REG_R11,
                                  REG_R12,
                                  REG_R13,
                                  REG_R14,
                                  REG_R15};
  return static_cast<std::uint64_t>(machine.gregs[kRegisters[number]]);
}

std::uint64_t displacement(const std::uint8_t* from, unsigned bytes) {
  std::int8_t narrow = 0;
  std::int32_t wide = 0;
  std::memcpy(&narrow, from, bytes == 1 ? 1 : 0);
  std::memcpy(&wide, from, bytes == 4 ? 4 : 0);
  return static_cast<std::uint64_t>(std::int64_t{bytes == 1 ? narrow : wide});
}

// The operand in memory, whose ModRM byte is code[4]. Relative to the instruction it never is.
std::optional<Instruction> with_memory(Instruction found,
                                       const std::uint8_t* code,
                                       const mcontext_t& machine) {
  const unsigned mod = code[4] >> 6;
  const unsigned extra_base = code[1] & 0x20 ? 0 : 8;
  const unsigned extra_index = code[1] & 0x40 ? 0 : 8;
  unsigned base = (code[4] & 7U) | extra_base;
  found.length = 5;
  if ((code[4] & 7) == 4) {
    const unsigned sib = code[5];
    const unsigned index = (sib >> 3 & 7) | extra_index;
    base = (sib & 7) | extra_base;
    found.stride = index == 4 ? 0 : value_of(machine, index) << (sib >> 6);
    found.length = 6;
  }
  if (mod == 0 && (base & 7) == 5) {
    return std::nullopt;
  }
  const unsigned bytes = mod == 1 ? 1 : mod == 2 ? 4 : 0;
  const std::uint64_t address = value_of(machine, base) + displacement(code + found.length, bytes);
  found.length += bytes;
  found.memory = reinterpret_cast<std::byte*>(address);
  return found;
}

// A VEX instruction of 128 bits of the map 0F38, in its form of three bytes.
std::optional<Instruction> decode(const std::uint8_t* code, const mcontext_t& machine) {
  if (code[0] != 0xC4 || (code[1] & 0x1F) != 2 || (code[2] & 0x84) != 0) {
    return std::nullopt;
  }
  Instruction found{};
  found.prefix = static_cast<Prefix>(code[2] & 3);
  found.opcode = code[3];
  found.vvvv = ~(code[2] >> 3) & 15;
  found.reg = code[4] >> 3 & 7;
  found.rm = code[4] & 7;
  found.has_memory = code[4] >> 6 != 3;
  found.length = 5;
  return found.has_memory ? with_memory(found, code, machine) : found;
}

// Whether it is one of those that kernels use.
bool carry_out(const Instruction& found) {
  constexpr unsigned kConfigure = 0x49;
  constexpr unsigned kMove = 0x4B;
  constexpr unsigned kDotBf16 = 0x5C;
  constexpr unsigned kDotInt8 = 0x5E;
  const Prefix prefix = found.prefix;
  if (found.opcode == kConfigure && prefix == Prefix::kNone && found.has_memory) {
    registers.configure(found.memory);
  } else if (found.opcode == kConfigure && prefix == Prefix::kNone && found.reg == 0) {
    registers.release();
  } else if (found.opcode == kConfigure && prefix == Prefix::kF2 && !found.has_memory) {
    registers.zero(found.reg);
  } else if (found.opcode == kMove && (prefix == Prefix::kF2 || prefix == Prefix::k66) &&
             found.has_memory) {
    registers.load(found.reg, found.memory, found.stride);
  } else if (found.opcode == kMove && prefix == Prefix::kF3 && found.has_memory) {
    registers.store(found.reg, found.memory, found.stride);
  } else if (found.opcode == kDotBf16 && prefix == Prefix::kF3 && !found.has_memory) {
    registers.dpbf16(found.reg, found.rm, found.vvvv);
  } else if (found.opcode == kDotInt8 && prefix == Prefix::kF3 && !found.has_memory) {
    registers.dpbsud(found.reg, found.rm, found.vvvv);
  } else if (found.opcode == kDotInt8 && prefix == Prefix::kF2 && !found.has_memory) {
    registers.dpbssd(found.reg, found.rm, found.vvvv);
  } else {
    return false;
  }
  return true;
}

void on_illegal_instruction(int /*signal*/, siginfo_t* /*info*/, void* context) {
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
  const auto* code =
      reinterpret_cast<const std::uint8_t*>(static_cast<std::uintptr_t>(machine.gregs[REG_RIP]));
  const std::optional<Instruction> found = decode(code, machine);
  if (!found || !carry_out(*found)) {
    ::sigaction(SIGILL, &previous, nullptr);  // it is met again when the instruction runs again
    return;
  }
  ++carried_out;
  machine.gregs[REG_RIP] += static_cast<greg_t>(found->length);
}

}  // namespace

TileEmulator::TileEmulator() {
  struct sigaction action = {};
  action.sa_sigaction = on_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  PHALANX_CHECK(::sigaction(SIGILL, &action, &previous) == 0, "no handler of SIGILL can be set");
}

TileEmulator::~TileEmulator() {
  ::sigaction(SIGILL, &previous, nullptr);
}

bool TileEmulator::tiles_are_configured() {
  return registers.is_configured();
}

unsigned long TileEmulator::instructions() {
  return carried_out;
}

}  // namespace phalanx::kernels
