// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "phalanx/serving/request_desk.h"

namespace phalanx::serving {

// Keeps how requests ended, and does nothing else.
struct FakeDesk final : RequestDesk {
  void admit(const wire::Admit& /*wish*/, Answered /*answered*/) override {}
  void begin(const wire::RequestKey& /*key*/,
             const RequestSummary& /*summary*/,
             std::vector<GenerationRequest> /*prompts*/,
             std::shared_ptr<RequestSink> /*sink*/) override {}
  void stop(const wire::StopChoice& /*choice*/) override {}
  void end(const wire::End& ending) override { endings.push_back(ending); }

  std::vector<wire::End> endings;
};

}  // namespace phalanx::serving
