// SPDX-License-Identifier: Apache-2.0
// From the options and what a planner has made to what the processes of a server are told.
#include "phalanx/settings/leader_plan.h"

#include <string>

#include <gtest/gtest.h>

#include "phalanx/settings/start_text.h"
#include "phalanx/wire/codec.h"

namespace phalanx::settings {
namespace {

Options options_of_two_by_two() {
  Options options;
  options.model = "models/phalanx-tiny";
  options.dp = 2;
  options.tp = 2;
  options.devices = "0|0|0|0";
  return options;
}

wire::ServerPlan made_plan() {
  wire::ServerPlan made;
  made.model_config = "layers=2";
  made.structure_hash = 77;
  made.model_name = "phalanx-tiny";
  made.model_summary = "qwen3, 2 layers";
  made.weight_summary = "int8";
  made.isa = "ref";
  made.limits = {.max_model_len = 2048,
                 .max_num_seqs = 8,
                 .max_num_batched_tokens = 64,
                 .kv_blocks = 99,
                 .kv_format = step::KvFormat::kInt8};
  made.vocab = 384;
  made.default_sampling.temperature = 0.5F;
  made.end_tokens = {1, 2};
  made.tokenizer_bytes = 1000;
  made.weight_bytes = std::uint64_t{5} << 20;
  made.memory = {{"weights", std::uint64_t{5} << 20}, {"total", std::uint64_t{1} << 30}};
  return made;
}

LeaderPlan plan_of(const Options& options) {
  return leader_plan_of(options, made_plan(), {{0}, {1}, {2}, {3}});
}

TEST(LeaderPlan, AsksThePlannerForWhatTheOptionsSay) {
  Options options = options_of_two_by_two();
  options.chat_template_path = "chat.jinja";
  options.quantization = "int8";
  options.isa = "avx2";
  options.max_model_len = 100;
  options.kv_cache_dtype = "int8";
  options.kv_cache_memory_bytes = 12345;
  options.num_kv_blocks = 7;
  const wire::PlannerBootstrap asked = planner_bootstrap_of(options).value();
  EXPECT_EQ(asked.model_path, options.model);
  EXPECT_EQ(asked.chat_template_path, "chat.jinja");
  EXPECT_EQ(asked.quantization, "int8");
  EXPECT_EQ(asked.isa, "avx2");
  EXPECT_EQ(asked.dp, 2U);
  EXPECT_EQ(asked.tp, 2U);
  EXPECT_EQ(asked.limits,
            (step::RankLimits{.max_model_len = 100,
                              .max_num_seqs = step::kDefaultMaxNumSeqs,
                              .max_num_batched_tokens = step::kDefaultMaxNumBatchedTokens,
                              .kv_blocks = 7,
                              .kv_format = step::KvFormat::kInt8}));
  EXPECT_EQ(asked.kv_memory_bytes, 12345U);
}

TEST(LeaderPlan, WhatThePlannerWouldNotReadIsRefused) {
  Options options = options_of_two_by_two();
  options.model = std::string(5000, 'x');
  const auto refused = planner_bootstrap_of(options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("model_path"), std::string::npos)
      << refused.error().message();
}

TEST(LeaderPlan, TellsReplicasAndLoaderWhatWasMade) {
  const Options options = options_of_two_by_two();
  const LeaderPlan plan = plan_of(options);
  const fleet::ReplicaStart start = replica_start_of(options, plan, "/proc/7/fd/9");
  ASSERT_EQ(start.spawn.size(), 2U);
  EXPECT_EQ(start.spawn[1].program, "/proc/7/fd/9");
  EXPECT_EQ(start.rank_cpus, plan.rank_cpus);
  EXPECT_NE(start.bootstrap.common.secret,
            replica_start_of(options, plan, "").bootstrap.common.secret)
      << "every boot has its own";
  EXPECT_EQ(start.bootstrap.plan,
            (wire::ModelPlan{.model_config = "layers=2",
                             .runner = step::Runner::kCpu,
                             .isa = "ref",
                             .tp = 2,
                             .limits = plan.made.limits}));
  const wire::LoaderBootstrap loader = loader_bootstrap_of(options, plan);
  EXPECT_EQ(loader.model_path, options.model);
  EXPECT_EQ(loader.model_config, "layers=2");
  EXPECT_EQ(loader.structure_hash, 77U);
  EXPECT_EQ(loader.tp, 2U);
  EXPECT_EQ(loader.arena_bytes, plan.made.weight_bytes);
}

std::string refusal_of(const std::vector<std::string>& arguments) {
  Options options;
  flags::FlagTable table = make_flag_table(&options);
  std::vector<std::string> all = {"--model", "somewhere"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const auto parsed = parse_options(&table, &options, all, {});
  return parsed ? "" : parsed.error().message();
}

TEST(LeaderPlan, AContextHasRoomForAPromptAndAnAnswer) {
  EXPECT_EQ(refusal_of({"--max-model-len", "2"}), "");
  EXPECT_EQ(refusal_of({"--max-model-len", "0"}), "");
  const std::string refusal = refusal_of({"--max-model-len", "1"});
  EXPECT_NE(refusal.find("--max-model-len: expected 0, or at least 2"), std::string::npos)
      << refusal;
}

TEST(LeaderPlan, MemoryForClientsHasRoomForTheLargestBodyInEachFront) {
  EXPECT_EQ(refusal_of({}), "");
  EXPECT_EQ(refusal_of({"--fronts", "3", "--client-memory-bytes", "101449728"}), "");
  const std::string refusal = refusal_of({"--fronts", "3", "--client-memory-bytes", "101449727"});
  EXPECT_NE(refusal.find("--client-memory-bytes: expected at least 101449728"), std::string::npos)
      << refusal;
  EXPECT_NE(refusal_of({"--max-body-bytes", "1073741824"}), "");
  EXPECT_EQ(refusal_of({"--max-body-bytes", "1073741824", "--client-memory-bytes", "5000000000"}),
            "");
}

TEST(LeaderPlan, MemoryForClientsIsNoMoreThanJournalsCanBeMappedFor) {
  EXPECT_EQ(refusal_of({"--client-memory-bytes", "4398046511104"}), "");
  EXPECT_NE(refusal_of({"--client-memory-bytes", "4398046511105"}), "");
}

TEST(LeaderPlan, ASimulatedModelHasNoArena) {
  Options options = options_of_two_by_two();
  EXPECT_EQ(plan_of(options).arena_bytes(options), plan_of(options).made.weight_bytes);
  options.runner = "sim";
  EXPECT_EQ(plan_of(options).arena_bytes(options), 0U);
}

TEST(LeaderPlan, TheNameOfTheOptionsComesFirst) {
  Options options = options_of_two_by_two();
  EXPECT_EQ(plan_of(options).model_name, "phalanx-tiny");
  options.served_model_name = "mine";
  EXPECT_EQ(plan_of(options).model_name, "mine");
  EXPECT_TRUE(plan_of(options).model_aliases.empty());
}

// Only those of the options are a list: a folder may have a comma in its name.
TEST(LeaderPlan, FrontsAreToldEveryNameInALineOfItsOwn) {
  Options options = options_of_two_by_two();
  options.served_model_name = "mine, org/it";
  LeaderPlan plan = plan_of(options);
  EXPECT_EQ(plan.model_name, "mine");
  EXPECT_EQ(plan.model_aliases, std::vector<std::string>{"org/it"});
  EXPECT_EQ(names_for_fronts(plan), "mine\norg/it");
  EXPECT_NE(start_summary(options, plan).find("model      mine, org/it (qwen3"), std::string::npos);
  options.served_model_name = "";
  wire::ServerPlan made = made_plan();
  made.model_name = "a,b\nc";
  plan = leader_plan_of(options, made, {});
  EXPECT_EQ(plan.model_name, "a,b\\u{a}c");
  EXPECT_EQ(names_for_fronts(plan), plan.model_name);
}

TEST(LeaderPlan, OfCoreSetsTheOptionIsChecked) {
  Options options = options_of_two_by_two();
  const auto refused = core_sets_of(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.error().message().find("--devices"), std::string::npos);
  options.devices = "";
  EXPECT_EQ(core_sets_of(options).value().size(), 4U);
}

TEST(LeaderPlan, IsSummedUpForPeople) {
  Options options = options_of_two_by_two();
  const std::string text = start_summary(options, plan_of(options));
  for (const std::string line : {"  model      phalanx-tiny (qwen3, 2 layers)\n",
                                 "  topology   2 replicas × 2 ranks, cores 0|1|2|3, routing",
                                 "  kernels    ref, weights int8, KV cache int8\n",
                                 "  limits     2048 tokens of context, 8 sequences and 64 tokens",
                                 "  memory     weights: 5.00 MiB\n",
                                 "  memory     total: 1.00 GiB\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  }
  options.dp = options.tp = 1;
  LeaderPlan least = plan_of(options);
  least.made.limits.max_num_seqs = least.made.limits.max_num_batched_tokens = 1;
  const std::string of_one = start_summary(options, least);
  EXPECT_NE(of_one.find("  1 replica × 1 rank, cores"), std::string::npos) << of_one;
  EXPECT_NE(of_one.find(", 1 sequence and 1 token a step, "), std::string::npos) << of_one;
  options.runner = "sim";
  const std::string simulated = start_summary(options, plan_of(options));
  EXPECT_NE(simulated.find("none: simulated"), std::string::npos);
  EXPECT_EQ(simulated.find("memory"), std::string::npos);
}

}  // namespace
}  // namespace phalanx::settings
