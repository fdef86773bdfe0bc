// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "source_dir.h"
#include "unit/checkpoint/test_checkpoint.h"
#include "unit/model/test_group.h"

namespace phalanx::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kSource = PHALANX_SOURCE_DIR;

json read_golden(const std::string& name) {
  std::ifstream file(kSource + "/tests/e2e/goldens/" + name + ".json");
  EXPECT_TRUE(file.good()) << name;
  return json::parse(file);
}

// The folder of the golden's model: the built-in one, or one made on the spot.
std::string model_folder(const json& golden, const fs::path& scratch) {
  if (golden["make_synthetic_model"].is_null()) {
    return kSource + "/deploy/models/phalanx-tiny";
  }
  const std::string folder = (scratch / golden["model"].get<std::string>()).string();
  if (!fs::exists(folder + "/config.json")) {
    std::string command = "/usr/bin/python3 '" + kSource + "/tools/make_synthetic_model' '" +
                          folder + "' --tokenizer '" + kSource + "/deploy/models/phalanx-tiny'";
    for (const auto& argument : golden["make_synthetic_model"]) {
      command += " " + argument.get<std::string>();
    }
    EXPECT_EQ(std::system((command + " > /dev/null").c_str()), 0) << command;
  }
  return folder;
}

struct Distance {
  double worst = 0;
  int compared = 0;
  int other_top = 0;  // the best token differs although the reference is sure of it
};

// Logits and their log-sum-exp at `position` of the prompt.
struct Found {
  std::vector<float> logits;
  double log_sum_exp = 0;
};

class Prompt {
 public:
  Prompt(TestGroup& group, std::vector<TokenId> ids) : group_(group), ids_(std::move(ids)) {
    ids_.push_back(0);  // room for the token that is drawn after the last one
    for (std::uint32_t block = 0; block < group.options().limits.kv_blocks; ++block) {
      blocks_.push_back(block);
    }
    group_.attach({});
  }

  Found at(std::uint32_t position) {
    SequenceSpec spec;
    spec.sequence = 1;
    spec.tokens = ids_;
    spec.prompt_tokens = 1;
    spec.sampling.temperature = 0.0F;
    spec.sampling.top_logprobs = 0;
    const std::vector<std::uint32_t> slots = {0};
    group_.update(slots, {&spec, 1});
    const StepItem item{0, 1, computed_, position + 1 - computed_, true, blocks_};
    const auto result = group_.step({&item, 1});
    EXPECT_TRUE(result.has_value()) << result.error().to_string();
    computed_ = position + 1;
    Found found;
    found.logits = group_.logits(1)[0];
    const SampledToken& token = (*result)[0];
    found.log_sum_exp = static_cast<double>(found.logits[static_cast<std::size_t>(token.token)]) -
                        static_cast<double>(token.logprob);
    return found;
  }

 private:
  TestGroup& group_;
  std::vector<TokenId> ids_;
  std::vector<std::uint32_t> blocks_;
  std::uint32_t computed_ = 0;
};

void compare(const json& expected, const Found& found, double tolerance, Distance& distance) {
  const auto see = [&](std::size_t id, double logit) {
    distance.worst =
        std::max(distance.worst, std::abs(static_cast<double>(found.logits[id]) - logit));
    ++distance.compared;
  };
  const auto ids = expected["top_ids"].get<std::vector<std::size_t>>();
  const auto logits = expected["top_logits"].get<std::vector<double>>();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    see(ids[i], logits[i]);
  }
  const auto stride = expected["sample_stride"].get<std::size_t>();
  const auto samples = expected["sample_logits"].get<std::vector<double>>();
  for (std::size_t k = 0; k < samples.size(); ++k) {
    see(k * stride, samples[k]);
  }
  distance.worst =
      std::max(distance.worst, std::abs(found.log_sum_exp - expected["log_sum_exp"].get<double>()));
  const auto best = std::max_element(found.logits.begin(), found.logits.end());
  if (logits[0] - logits[1] > tolerance &&
      static_cast<std::size_t>(best - found.logits.begin()) != ids[0]) {
    ++distance.other_top;
  }
}

Distance distance_of(TestGroup& group, const json& golden, double tolerance) {
  Distance distance;
  for (const json& prompt : golden["prompts"]) {
    Prompt run(group, prompt["ids"].get<std::vector<TokenId>>());
    for (const json& position : prompt["positions"]) {
      const Found found = run.at(position["position"].get<std::uint32_t>());
      compare(position, found, tolerance, distance);
    }
  }
  return distance;
}

// The model of `names`, all of one set of weights, against each of them.
void expect_near(const std::vector<std::string>& names, std::uint32_t ranks, double tolerance) {
  const fs::path scratch = fs::path(testing::TempDir()) / "phalanx_logits";
  fs::create_directories(scratch);
  checkpoint::FolderSource files(model_folder(read_golden(names[0]), scratch));
  const TestWeights weights(files);
  GroupOptions options;
  options.ranks = ranks;
  options.isa = kernels::available_isas().back();
  options.limits = {1024, 2, 512, 64};
  TestGroup group(weights, options);
  group.keep_logits();
  for (const std::string& name : names) {
    const Distance distance = distance_of(group, read_golden(name), tolerance);
    std::cout << name << ": max |delta logit| " << distance.worst << " over " << distance.compared
              << " logits\n";
    EXPECT_GT(distance.compared, 100) << name;
    EXPECT_LE(distance.worst, tolerance) << name;
    EXPECT_EQ(distance.other_top, 0) << name;
  }
  fs::remove_all(scratch);
}

TEST(LogitsGolden, OfTheSmallShape) {
  expect_near({"small.numpy", "small.llama"}, 1, 0.03);
}

TEST(LogitsGolden, OfTheUntiedSmallShapeInF16) {
  expect_near({"small-untied-f16.numpy", "small-untied-f16.llama"}, 2, 0.03);
}

TEST(LogitsGolden, OfTheShardedOddShapeInF32) {
  expect_near({"odd-f32-sharded.numpy", "odd-f32-sharded.llama"}, 3, 0.03);
}

TEST(LogitsGolden, OfLinearRopeScaling) {
  expect_near({"small-linear.numpy", "small-linear.llama"}, 1, 0.03);
}

TEST(LogitsGolden, OfLlama3RopeScaling) {
  expect_near({"small-llama3.numpy"}, 1, 0.03);
}

TEST(LogitsGolden, OfQwen2) {
  expect_near({"small-qwen2.numpy", "small-qwen2.llama"}, 1, 0.03);
}

TEST(LogitsGolden, OfQwen2WithoutTiedHead) {
  expect_near({"small-qwen2-untied.numpy", "small-qwen2-untied.llama"}, 2, 0.03);
}

TEST(LogitsGolden, OfLlamaInAnOddShape) {
  expect_near({"odd-llama.numpy", "odd-llama.llama"}, 2, 0.03);
}

TEST(LogitsGolden, OfLlamaWithEveryBias) {
  expect_near({"odd-llama-bias.numpy", "odd-llama-bias.llama"}, 3, 0.03);
}

TEST(LogitsGolden, OfLlamaWithItsRopeScaling) {
  expect_near({"small-llama-llama3.numpy", "small-llama-llama3.llama"}, 2, 0.03);
}

TEST(LogitsGolden, OfYarnRopeScaling) {
  expect_near({"small-yarn.numpy", "small-yarn.llama"}, 2, 0.03);
}

// Its logits are five times as large as those of the random shapes.
TEST(LogitsGolden, OfTheBuiltInModel) {
  expect_near({"phalanx-tiny.numpy", "phalanx-tiny.llama"}, 2, 0.15);
}

TEST(LogitsGolden, OfTheFullShape) {
  if (std::getenv("PHALANX_LONG") == nullptr) {
    GTEST_SKIP() << "set PHALANX_LONG: it needs 3 GB of disk, 4 GB of memory and minutes";
  }
  expect_near({"qwen3-0.6b.numpy", "qwen3-0.6b.llama"}, 2, 0.15);
}

}  // namespace
}  // namespace phalanx::model
