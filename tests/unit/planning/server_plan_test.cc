// SPDX-License-Identifier: Apache-2.0
#include "phalanx/planning/server_plan.h"

#include <string>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/config_record.h"
#include "phalanx/model/memory_plan.h"
#include "phalanx/os/cpu_set.h"
#include "phalanx/step/choices.h"
#include "phalanx/tokenizer/tokenizer_source.h"
#include "phalanx/wire/codec.h"

#include "source_dir.h"
#include "support/temp_dir.h"
#include "unit/checkpoint/test_gguf.h"

namespace phalanx::planning {
namespace {

wire::PlannerBootstrap asked_for_the_tiny_model() {
  wire::PlannerBootstrap asked;
  asked.model_path = PHALANX_SOURCE_DIR "/deploy/models/phalanx-tiny";
  asked.quantization = "int8";
  asked.isa = "ref";
  asked.dp = 2;
  asked.tp = 2;
  asked.limits = {
      .max_model_len = 256, .max_num_seqs = 4, .max_num_batched_tokens = 32, .kv_blocks = 64};
  return asked;
}

TEST(ServerPlan, SaysAllThatALeaderKnowsOfAModel) {
  const Planned made = make_plan(asked_for_the_tiny_model()).value();
  const wire::ServerPlan& plan = made.plan;
  EXPECT_TRUE(wire::check(wire::ControlRecord(plan)));
  EXPECT_EQ(plan.model_name, "phalanx-tiny");
  EXPECT_EQ(plan.model_summary.substr(0, 16), "qwen3, 4 layers,") << plan.model_summary;
  EXPECT_EQ(plan.weight_summary, "int8");
  EXPECT_EQ(plan.isa, "ref");
  EXPECT_EQ(plan.limits, asked_for_the_tiny_model().limits);
  EXPECT_EQ(plan.vocab, 384U);
  EXPECT_FALSE(plan.end_tokens.empty());
  EXPECT_GT(plan.weight_bytes, 0U);
  EXPECT_GT(plan.rank_bytes, 0U);
  ASSERT_FALSE(plan.memory.empty());
  EXPECT_EQ(plan.memory.front(),
            (std::pair<std::string, std::uint64_t>("weights", plan.weight_bytes)));
  EXPECT_EQ(plan.tokenizer_bytes, made.tokenizer_source.size());
  EXPECT_TRUE(tokenizer::tokenizer_source_from(made.tokenizer_source));
  EXPECT_TRUE(made.warnings.empty()) << "all of its tensors are used, and all tokens";
}

TEST(ServerPlan, WarnsOfCodesThatAreHeldAsBf16) {
  checkpoint::TestShape shape;
  shape.hidden = 256;
  shape.intermediate = 512;
  const auto source = checkpoint::gguf_checkpoint(shape, [&](checkpoint::GgufParts& parts) {
    std::vector<std::string> tokens = {"a", "b", "ab"};
    while (tokens.size() < shape.vocab) {
      tokens.push_back("token " + std::to_string(tokens.size()));
    }
    parts.writer.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", tokens);
    parts.writer.texts("tokenizer.ggml.merges", {"a b"});
    const std::vector<checkpoint::GgufTensor> plain = parts.tensors;
    checkpoint::make_blocks(parts, [](std::size_t) { return gguf::TensorType::kQ8_0; });
    for (std::size_t i = 0; i < plain.size(); ++i) {
      if (plain[i].name == "blk.0.ffn_up.weight") {
        parts.tensors[i] = plain[i];
      }
    }
  });
  const std::vector<std::byte>& bytes = source->files().bytes("model.gguf");
  const test::TempDir place;
  place.write("m.gguf", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  wire::PlannerBootstrap asked = asked_for_the_tiny_model();
  asked.model_path = place.path().string() + "/m.gguf";
  asked.quantization = "auto";
  const auto made = make_plan(asked);
  ASSERT_TRUE(made.has_value()) << made.error().message();
  EXPECT_EQ(made->plan.weight_summary, "bf16, head int8-g32");
  ASSERT_EQ(made->warnings.size(), 1U);
  EXPECT_NE(made->warnings[0].find("model.layers.0.mlp.up_proj.weight has none"), std::string::npos)
      << made->warnings[0];
}

TEST(ServerPlan, DerivesWhatWasNotAskedFor) {
  wire::PlannerBootstrap asked = asked_for_the_tiny_model();
  asked.limits.max_model_len = 0;
  asked.limits.kv_blocks = 0;
  asked.kv_memory_bytes = std::uint64_t{8} << 20;
  const wire::ServerPlan plan = make_plan(asked).value().plan;
  EXPECT_GT(plan.limits.kv_blocks, 0U);
  EXPECT_GT(plan.limits.max_model_len, 0U);
}

// Ranks have a thread for each CPU that they get.
TEST(ServerPlan, CountsTheThreadsOfThisMachine) {
  wire::PlannerBootstrap asked = asked_for_the_tiny_model();
  asked.dp = 1;
  asked.tp = 1;
  const wire::ServerPlan plan = make_plan(asked).value().plan;
  const checkpoint::ModelConfig config = checkpoint::from_record(plan.model_config).value();
  const model::Shard shard = model::plan_shard(config, 0, 1).value();
  const auto threads = static_cast<std::uint32_t>(os::allowed_cpus().size());
  EXPECT_EQ(plan.rank_bytes, model::rank_memory(config, shard, plan.limits, threads)->total());
  asked.dp = threads;
  EXPECT_EQ(make_plan(asked).value().plan.rank_bytes,
            model::rank_memory(config, shard, plan.limits, 1)->total());
}

TEST(ServerPlan, RefusesByName) {
  const auto refusal = [](auto change) {
    wire::PlannerBootstrap asked = asked_for_the_tiny_model();
    change(asked);
    const auto made = make_plan(asked);
    return made ? std::string("made") : made.error().message();
  };
  using Asked = wire::PlannerBootstrap;
  EXPECT_EQ(refusal([](Asked& a) { a.model_path = "/no/such"; }).substr(0, 18),
            "--model: /no/such:");
  EXPECT_EQ(refusal([](Asked& a) { a.tp = 64; }).substr(0, 23), "--tensor-parallel-size:");
  EXPECT_EQ(refusal([](Asked& a) { a.limits.max_model_len = 1U << 20; }).substr(0, 16),
            "--max-model-len:");
  EXPECT_EQ(refusal([](Asked& a) { a.kv_memory_bytes = 1; }).substr(0, 31),
            "memory: --kv-cache-memory-bytes");
  EXPECT_EQ(refusal([](Asked& a) { a.chat_template_path = "/no/such.jinja"; }),
            "/no/such.jinja: no such file");
}

}  // namespace
}  // namespace phalanx::planning
