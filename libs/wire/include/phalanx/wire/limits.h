// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace phalanx::wire {

// Bounds that every decoder enforces before it allocates. A frame beyond one of them is a protocol
// error of its sender. Those of steps and sequences: phalanx/step/limits.h.
inline constexpr std::uint32_t kProtocolVersion = 15;
inline constexpr std::size_t kMaxFrameBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxDepth = 8;
inline constexpr std::size_t kMaxHeldKeys = 512;        // of one ReplicaHolding
inline constexpr std::size_t kMaxPrefixChanges = 4096;  // of one PrefixChanges, each way
inline constexpr std::size_t kMaxSaltBytes = 256;       // cache_salt
inline constexpr std::size_t kMaxErrorBytes = 4096;
inline constexpr std::size_t kMaxListBytes = std::size_t{16} << 10;  // names, separated by commas
inline constexpr std::size_t kMaxPathBytes = 4096;
inline constexpr std::size_t kMaxConfigBytes = std::size_t{32} << 10;  // of a model
inline constexpr std::size_t kMaxNameBytes = 256;   // endpoints, log levels, phases, routes, …
inline constexpr std::size_t kMaxRegions = 16;      // named memory regions of a rank
inline constexpr std::size_t kMaxCpus = 4096;       // of one core set
inline constexpr std::uint32_t kMaxRanks = 64;      // of one replica
inline constexpr std::uint32_t kMaxReplicas = 256;  // of one leader
inline constexpr std::uint32_t kMaxFronts = 256;    // of one leader, with the spare one

// Between an operator and the leader: as frames.
inline constexpr std::size_t kMaxAdminRequestBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxAdminAnswerBytes = std::size_t{16} << 20;

// Between the leader and a front. A request of a client may ask for so much, too.
inline constexpr std::uint32_t kMaxFrontPrompts = 128;  // of one request
inline constexpr std::uint32_t kMaxFrontChoices = 128;  // of one request, over its prompts
inline constexpr std::size_t kMaxFrontEvents = 1024;    // of one FrontEvents
inline constexpr std::size_t kMaxHistory = 2048;        // events of one History
inline constexpr std::size_t kMaxPromptPart = std::size_t{16} << 10;       // ids of one PromptPart
inline constexpr std::size_t kMaxReportBytes = std::size_t{64} << 10;      // of one Report
inline constexpr std::size_t kMaxPromptTextBytes = std::size_t{64} << 10;  // of one PromptText
inline constexpr std::size_t kMaxPromptsBytes = std::size_t{16}
                                                << 20;  // of the prompts of a command line
inline constexpr std::size_t kMaxPromptsOutputBytes = std::size_t{1}
                                                      << 30;  // over its PromptsOutputs

// Choices that a replica queues before they have begun; it refuses more, and is sent no more.
inline constexpr std::uint32_t kMaxQueuedChoices = 4096;

}  // namespace phalanx::wire
