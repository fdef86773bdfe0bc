// SPDX-License-Identifier: Apache-2.0
// What each model_type of config.json makes of the one transformer.
#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "phalanx/checkpoint/checkpoint.h"
#include "phalanx/checkpoint/config.h"

#include "unit/checkpoint/test_checkpoint.h"

namespace phalanx::model {
namespace {

// config.json of `model_type` with more fields: ",\"name\":value" …
std::string json_of(const std::string& model_type, const std::string& fields = "") {
  checkpoint::TestShape shape;
  shape.model_type = model_type;
  std::string json = checkpoint::config_json(shape);
  return json.insert(json.size() - 1, fields);
}

std::string options_of(const checkpoint::ModelConfig& config) {
  return std::string(config.qk_norm ? "qk_norm " : "") + (config.qkv_bias ? "qkv_bias " : "") +
         (config.output_bias ? "output_bias " : "") + (config.mlp_bias ? "mlp_bias " : "");
}

std::string options(const std::string& model_type, const std::string& fields = "") {
  const auto config = checkpoint::parse_config(json_of(model_type, fields));
  EXPECT_TRUE(config.has_value()) << config.error().to_string();
  return config ? options_of(*config) : "";
}

void expect_refused(const std::string& model_type,
                    const std::string& fields,
                    std::initializer_list<const char*> parts) {
  const auto config = checkpoint::parse_config(json_of(model_type, fields));
  ASSERT_FALSE(config.has_value()) << model_type << fields;
  EXPECT_EQ(config.error().code(), Code::kUnimplemented) << config.error().to_string();
  for (const char* part : parts) {
    EXPECT_NE(config.error().message().find(part), std::string::npos)
        << part << " is not in: " << config.error().message();
  }
}

constexpr const char* kNoWindow = R"(,"sliding_window":null)";

TEST(Architecture, GivesEachModelTypeItsOptions) {
  EXPECT_EQ(options("qwen3"), "qk_norm ");
  EXPECT_EQ(options("qwen2"), "qkv_bias ");
  EXPECT_EQ(options("llama"), "");
  EXPECT_EQ(options("mistral", kNoWindow), "");
}

TEST(Architecture, FollowsTheBiasFieldsThatATypeHas) {
  EXPECT_EQ(options("qwen3", R"(,"attention_bias":true)"), "qk_norm qkv_bias output_bias ");
  EXPECT_EQ(options("llama", R"(,"attention_bias":true)"), "qkv_bias output_bias ");
  EXPECT_EQ(options("llama", R"(,"mlp_bias":true)"), "mlp_bias ");
  EXPECT_EQ(options("llama", R"(,"attention_bias":false,"mlp_bias":false)"), "");
  EXPECT_EQ(options("qwen2", R"(,"attention_bias":true)"), "qkv_bias ");
}

TEST(Architecture, RefusesABiasThatATypeDoesNotHave) {
  expect_refused("qwen2", R"(,"attention_bias":false)", {"attention_bias", "true", "qwen2"});
  expect_refused("mistral",
                 std::string(kNoWindow) + R"(,"attention_bias":true)",
                 {"attention_bias", "false", "mistral"});
  for (const char* type : {"qwen3", "qwen2"}) {
    expect_refused(type, R"(,"mlp_bias":true)", {"mlp_bias", "expected false", type});
  }
}

// Positions that are left, and the window that left them.
std::pair<std::uint32_t, std::uint32_t> context(const std::string& model_type,
                                                const std::string& fields) {
  const auto config = checkpoint::parse_config(json_of(model_type, fields));
  EXPECT_TRUE(config.has_value()) << config.error().to_string();
  return config ? std::pair(config->max_position, config->sliding_window) : std::pair(0U, 0U);
}

TEST(Architecture, ReachesAsFarAsASlidingWindow) {
  const std::pair cut(256U, 256U);
  EXPECT_EQ(context("mistral", R"(,"sliding_window":256)"), cut);
  EXPECT_EQ(context("llama", R"(,"sliding_window":256)"), cut);
  for (const char* type : {"qwen3", "qwen2"}) {
    EXPECT_EQ(context(type, R"(,"use_sliding_window":true,"sliding_window":256)"),
              std::pair(512U, 0U));  // layers from the 28th on, of which there is none
    EXPECT_EQ(
        context(type, R"(,"use_sliding_window":true,"sliding_window":256,"max_window_layers":1)"),
        cut);
    EXPECT_EQ(
        context(type,
                R"(,"sliding_window":256,"layer_types":["full_attention","sliding_attention"])"),
        cut);
    EXPECT_EQ(context(type,
                      R"(,"use_sliding_window":true,"sliding_window":256,)"
                      R"("layer_types":["full_attention","full_attention"])"),
              std::pair(512U, 0U));
  }
  EXPECT_EQ(context("mistral", R"(,"sliding_window":1)"), std::pair(1U, 1U));
}

// Positions are counted by rope first, and cut then.
TEST(Architecture, AWindowLeavesTheRotationAsItIs) {
  checkpoint::TestShape shape;
  shape.rope_scaling = R"({"rope_type":"linear","factor":4})";
  std::string json = checkpoint::config_json(shape);
  const auto whole = checkpoint::parse_config(json);
  json.insert(json.size() - 1,
              R"(,"use_sliding_window":true,"sliding_window":1000,"max_window_layers":0)");
  const auto cut = checkpoint::parse_config(json);
  ASSERT_TRUE(whole) << whole.error().message();
  ASSERT_TRUE(cut) << cut.error().message();
  EXPECT_EQ(whole->max_position, 2048U);
  EXPECT_EQ(cut->max_position, 1000U);
  EXPECT_EQ(cut->rope, whole->rope);
}

// Beyond a chunk its positions are counted otherwise.
TEST(Architecture, ReachesAsFarAsTheFirstChunkOfDualChunkAttention) {
  const auto with = [](const std::string& fields) {
    return checkpoint::parse_config(
        json_of("qwen2", R"(,"dual_chunk_attention_config":{)" + fields + "}"));
  };
  for (const auto& [fields, reached] : std::vector<std::pair<std::string, std::uint32_t>>{
           {R"("chunk_size":256,"local_size":8,"original_max_position_embeddings":256)", 256},
           {R"("chunk_size":128,"original_max_position_embeddings":256)", 128},
           {R"("original_max_position_embeddings":256)", 256},
           {R"("original_max_position_embeddings":512)", 512}}) {
    const auto config = with(fields);
    ASSERT_TRUE(config) << config.error().to_string();
    EXPECT_EQ(config->max_position, reached) << fields;
    EXPECT_EQ(checkpoint::limit_of_positions(*config), reached < 512 ? "attention chunk" : "");
  }
  const auto both = checkpoint::parse_config(
      json_of("qwen2",
              R"(,"dual_chunk_attention_config":{"original_max_position_embeddings":256})"
              R"(,"use_sliding_window":true,"sliding_window":100,"max_window_layers":0)"));
  ASSERT_TRUE(both) << both.error().to_string();
  EXPECT_EQ(both->max_position, 100U);
  EXPECT_EQ(checkpoint::limit_of_positions(*both), "sliding window");
  expect_refused("qwen2",
                 R"(,"dual_chunk_attention_config":{"chunk_size":256})",
                 {"dual_chunk_attention_config", "original_max_position_embeddings", "none"});
}

TEST(Architecture, RefusesLayersOfAKindThatIsNotThere) {
  expect_refused("llama",
                 R"(,"layer_types":["full_attention","chunked_attention"])",
                 {"layer_types", "full_attention", "sliding_attention", "chunked_attention"});
  for (const char* none : {"", R"(,"sliding_window":null)"}) {
    const auto config = checkpoint::parse_config(json_of(
        "llama", std::string(none) + R"(,"layer_types":["full_attention","sliding_attention"])"));
    ASSERT_FALSE(config.has_value());
    EXPECT_NE(config.error().message().find("sliding_window: expected a number"), std::string::npos)
        << config.error().message();
  }
}

TEST(Architecture, RefusesModelsThatJudgeTextsInsteadOfWritingThem) {
  for (const char* name : {"Qwen2ForSequenceClassification",
                           "Qwen2ForTokenClassification",
                           "Qwen2ForQuestionAnswering",
                           "Qwen2ForRewardModel"}) {
    expect_refused("qwen2",
                   R"(,"architectures":[")" + std::string(name) + R"("])",
                   {"architectures", "ForCausalLM", name});
  }
  for (const char* fields : {R"(,"architectures":"x")", R"(,"architectures":[1])"}) {
    EXPECT_FALSE(checkpoint::parse_config(json_of("qwen2", fields)).has_value()) << fields;
  }
  for (const char* fields : {R"(,"architectures":[])", R"(,"architectures":null)"}) {
    EXPECT_TRUE(checkpoint::parse_config(json_of("qwen2", fields)).has_value()) << fields;
  }
}

// Such as 1bitLLM/bitnet_b1_58, whose model_type is llama and whose layers are not Llama's.
TEST(Architecture, RefusesAnotherModelUnderAModelTypeThatIsServed) {
  const auto with = [](const std::string& name) {
    return R"(,"architectures":[")" + name + R"("])";
  };
  expect_refused("llama",
                 with("BitnetForCausalLM"),
                 {"architectures",
                  "\"LlamaForCausalLM\"",
                  "model_type \"llama\"",
                  "found \"BitnetForCausalLM\"",
                  "another model"});
  for (const char* name : {"", "Llama", "llamaForCausalLM", "LlamaModel", "Qwen2ForCausalLM"}) {
    expect_refused("llama", with(name), {"architectures", "another model"});
  }
  expect_refused("llama",
                 R"(,"architectures":["LlamaForCausalLM","BitnetForCausalLM"])",
                 {"BitnetForCausalLM"});
  expect_refused("mistral", with("MixtralForCausalLM"), {"MistralForCausalLM"});
  for (const auto& [type, name] : {std::pair{"qwen3", "Qwen3ForCausalLM"},
                                   std::pair{"qwen2", "Qwen2ForCausalLM"},
                                   std::pair{"llama", "LlamaForCausalLM"},
                                   std::pair{"llama", "LLaMAForCausalLM"},
                                   std::pair{"llama", "MistralForCausalLM"},
                                   std::pair{"mistral", "MistralForCausalLM"},
                                   std::pair{"mistral", "LlamaForCausalLM"}}) {
    EXPECT_TRUE(checkpoint::parse_config(json_of(type, with(name)))) << type << name;
  }
}

// What Mistral means when it does not say is 4096 tokens; the context must be longer to show it.
TEST(Architecture, TakesTheDefaultWindowOfTheTypeWhenNoneIsNamed) {
  checkpoint::TestShape shape;
  shape.model_type = "mistral";
  for (const auto& [reached, window] : {std::pair(4096U, 0U), std::pair(4097U, 4096U)}) {
    shape.max_position = reached;
    const auto config = checkpoint::parse_config(checkpoint::config_json(shape));
    ASSERT_TRUE(config.has_value()) << config.error().to_string();
    EXPECT_EQ(config->max_position, 4096U);
    EXPECT_EQ(config->sliding_window, window);
  }
}

TEST(Architecture, AcceptsAWindowThatNeverShows) {
  EXPECT_EQ(options("mistral", R"(,"sliding_window":512)"), "");
  EXPECT_EQ(options("llama", kNoWindow), "");
  EXPECT_EQ(options("qwen2", R"(,"use_sliding_window":false,"sliding_window":256)"), "qkv_bias ");
  EXPECT_EQ(
      options("qwen2", R"(,"use_sliding_window":true,"sliding_window":256,"max_window_layers":2)"),
      "qkv_bias ");
  EXPECT_EQ(options("llama", R"(,"layer_types":["full_attention","full_attention"])"), "");
}

TEST(Architecture, RefusesWhatChangesTheArithmetic) {
  for (const char* type : {"qwen3", "qwen2", "llama"}) {
    expect_refused(type, R"(,"hidden_act":"gelu")", {"hidden_act", "silu", "gelu"});
    expect_refused(type, R"(,"partial_rotary_factor":0.5)", {"partial_rotary_factor", "0.5"});
    expect_refused(type, R"(,"quantization_config":{})", {"quantization_config"});
  }
  EXPECT_EQ(options("llama", R"(,"hidden_act":"silu","partial_rotary_factor":1.0)"), "");
}

TEST(Architecture, NamesTheSupportedTypesForAnotherOneBeforeAnythingElse) {
  const auto config = checkpoint::parse_config(R"({"model_type":"gemma3_text"})");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code(), Code::kUnimplemented);
  EXPECT_NE(config.error().message().find("gemma3_text"), std::string::npos);
  EXPECT_NE(config.error().message().find("supported: qwen3, qwen2, llama, mistral"),
            std::string::npos);
}

// Rotary factors of part of the heads inside rope_parameters, where newer files keep them.
TEST(Architecture, RefusesPartialRotationInsideRopeParameters) {
  expect_refused("llama",
                 R"(,"rope_parameters":{"rope_type":"default","partial_rotary_factor":0.25})",
                 {"rope_parameters.partial_rotary_factor", "0.25"});
}

TEST(Architecture, AsksForTheWeightsOfItsOptionsOnly) {
  const auto count = [](const std::string& type, const std::string& fields, const char* part) {
    const auto specs =
        checkpoint::required_weights(checkpoint::parse_config(json_of(type, fields)).value());
    return std::count_if(specs.begin(), specs.end(), [&](const checkpoint::WeightSpec& spec) {
      return spec.name.find(part) != std::string::npos;
    });
  };
  EXPECT_EQ(count("llama", "", ".bias"), 0);
  EXPECT_EQ(count("llama", "", "_norm.weight"), 0);
  EXPECT_EQ(count("qwen3", "", "_norm.weight"), 2 * 2);
  EXPECT_EQ(count("qwen2", "", ".bias"), 2 * 3);
  EXPECT_EQ(count("llama", R"(,"attention_bias":true,"mlp_bias":true)", ".bias"), 2 * 7);
}

TEST(Architecture, IsPartOfTheFingerprintOfTheConfiguration) {
  const checkpoint::ModelConfig plain = checkpoint::parse_config(json_of("llama")).value();
  for (bool checkpoint::ModelConfig::*option : {&checkpoint::ModelConfig::qk_norm,
                                                &checkpoint::ModelConfig::qkv_bias,
                                                &checkpoint::ModelConfig::output_bias,
                                                &checkpoint::ModelConfig::mlp_bias}) {
    checkpoint::ModelConfig other = plain;
    other.*option = true;
    EXPECT_NE(checkpoint::hash_of(other), checkpoint::hash_of(plain));
  }
}

}  // namespace
}  // namespace phalanx::model
