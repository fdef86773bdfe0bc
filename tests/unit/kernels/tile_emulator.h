// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace phalanx::kernels {

// Lets this process run tile instructions on a processor without them: each is an illegal one, and a
// handler of SIGILL carries it out on a TileFile. So the compiled unit is proved, register by
// register; an instruction takes microseconds. Any other illegal instruction ends the process as
// usual.
//
// Threads: the instructions of one thread at a time. One object at a time.
class TileEmulator {
 public:
  TileEmulator();
  TileEmulator(const TileEmulator&) = delete;
  TileEmulator& operator=(const TileEmulator&) = delete;
  ~TileEmulator();

  // Whether tiles were configured and not given back.
  [[nodiscard]] static bool tiles_are_configured();
  // How many instructions were carried out, by all objects.
  [[nodiscard]] static unsigned long instructions();
};

}  // namespace phalanx::kernels
