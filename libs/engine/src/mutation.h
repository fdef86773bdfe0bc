// SPDX-License-Identifier: Apache-2.0
// Takes one protection out, to prove that the test of an invariant fails without it. Always kNone
// in a shipped build: only tests/protocol/step compiles a source again with -DPHALANX_MUTATION=….
#pragma once

namespace phalanx::engine {

enum class Mutation {
  kNone,
  kNoIdentityCheck,     // S1: replies are matched by operation alone
  kNoDrain,             // S2: the first failure ends the wait for the others
  kNoDrainBehind,       // S2: a step that was sent behind a failed one is not waited for
  kNoProgressDeadline,  // S3: nobody is ever hung
  kNoAbort,             // S4: a failure does not raise the abort word
  kNoLifeline,          // S5: a death counts when the process is gone, not before
  kFirstErrorOnly,      // S6: later failures are not recorded
  kNoSanity,            // S7: a rank passes its check without making it
  kNoNewEpoch,          // S7: a recovered group keeps its epoch
  kNoRollback,          // S8: a failed step counts as done
  kNoHashCheck          // S9: what the ranks say about their state is ignored
};

#ifndef PHALANX_MUTATION
#define PHALANX_MUTATION kNone
#endif
constexpr Mutation kMutation = Mutation::PHALANX_MUTATION;

}  // namespace phalanx::engine
