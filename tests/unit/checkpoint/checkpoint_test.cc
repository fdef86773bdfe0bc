// SPDX-License-Identifier: Apache-2.0
#include "phalanx/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "test_checkpoint.h"

namespace phalanx::checkpoint {
namespace {

void expect_error(const Error& error, Code code, std::initializer_list<const char*> parts) {
  EXPECT_EQ(error.code(), code) << error.to_string();
  for (const char* part : parts) {
    EXPECT_NE(error.message().find(part), std::string::npos)
        << part << " is not in: " << error.message();
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The message of opening a checkpoint whose tensors were changed.
template <typename Change>
Error error_after(const Change& change) {
  TestShape shape;
  shape.layers = 1;
  std::vector<TestTensor> tensors = random_tensors(shape);
  change(tensors);
  MemorySource files;
  files.put("config.json", config_json(shape));
  files.put("model.safetensors", write_safetensors(tensors));
  const auto checkpoint = Checkpoint::open(files);
  EXPECT_FALSE(checkpoint.has_value());
  return checkpoint ? internal_error("accepted") : checkpoint.error();
}

TestTensor& find(std::vector<TestTensor>& tensors, const std::string& name) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const TestTensor& tensor) {
    return tensor.name == name;
  });
}

constexpr const char* kUp = "model.layers.0.mlp.up_proj.weight";

TEST(Config, ReadsTheShapeOfQwen3) {
  const auto config = parse_config(config_json({}));
  ASSERT_TRUE(config.has_value()) << config.error().to_string();
  EXPECT_EQ(config->layers, 2U);
  EXPECT_EQ(config->heads_per_group(), 2U);
  EXPECT_EQ(config->head_dim, 32U);
  EXPECT_EQ(config->rope.head_dim, 32U);
  EXPECT_TRUE(config->tied_head);
  EXPECT_EQ(config->eos, (std::vector<TokenId>{3, 7}));
}

TEST(Config, NamesTheFieldTheExpectedAndTheFound) {
  const auto refused = [](const char* from, const char* to) {
    const auto config = parse_config(replaced(config_json({}), from, to));
    EXPECT_FALSE(config.has_value());
    return config ? internal_error("accepted") : config.error();
  };
  expect_error(refused("\"hidden_size\":64", "\"hidden_size\":-1"),
               Code::kInvalidArgument,
               {"hidden_size", "1 to", "-1"});
  expect_error(refused("\"hidden_size\":64", "\"hidden_size\":\"x\""),
               Code::kInvalidArgument,
               {"hidden_size", "\"x\""});
  expect_error(refused("\"hidden_size\":64", "\"hidden_sizes\":64"),
               Code::kInvalidArgument,
               {"hidden_size", "nothing"});
  expect_error(refused("\"hidden_size\":64", "\"hidden_size\":65"),
               Code::kInvalidArgument,
               {"hidden_size", "multiple of 32", "65"});
  expect_error(refused("\"hidden_size\":64", "\"hidden_size\":131104"),
               Code::kInvalidArgument,
               {"hidden_size", "1 to 131072", "131104"});
  expect_error(refused("\"num_attention_heads\":8", "\"num_attention_heads\":7"),
               Code::kInvalidArgument,
               {"num_attention_heads", "multiple of", "7"});
  expect_error(refused("\"head_dim\":32", "\"head_dim\":40"),
               Code::kInvalidArgument,
               {"head_dim", "multiple of 16", "40"});
  expect_error(refused("{", "["), Code::kInvalidArgument, {"JSON"});
  TestShape wide;
  wide.heads = 1024;
  wide.kv_heads = 1;
  wide.head_dim = 256;
  expect_error(parse_config(config_json(wide)).error(),
               Code::kInvalidArgument,
               {"num_attention_heads", "at most 512", "1024"});
}

TEST(Config, ReadsEachRopeScaling) {
  const auto parsed = [](const char* scaling) {
    TestShape shape;
    shape.rope_scaling = scaling;
    return parse_config(config_json(shape));
  };
  const auto linear = parsed(R"({"type":"linear","factor":2.5})");
  ASSERT_TRUE(linear.has_value());
  EXPECT_EQ(linear->rope.scaling, kernels::RopeScaling::kLinear);
  EXPECT_EQ(linear->rope.factor, 2.5);
  EXPECT_EQ(linear->max_position, 1280U) << "as far as scaled positions reach";
  const auto llama3 =
      parsed(R"({"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
             R"("original_max_position_embeddings":8192})");
  ASSERT_TRUE(llama3.has_value()) << llama3.error().to_string();
  EXPECT_EQ(llama3->rope.original_max_position_embeddings, 8192);
  EXPECT_EQ(llama3->max_position, 512U);
  const auto yarn = parsed(R"({"rope_type":"yarn","factor":4,"beta_fast":16})");
  ASSERT_TRUE(yarn.has_value());
  EXPECT_EQ(yarn->rope.beta_fast, 16);
  EXPECT_EQ(yarn->rope.original_max_position_embeddings, 512);
  EXPECT_EQ(yarn->max_position, 2048U);
  const auto counted =
      parsed(R"({"rope_type":"yarn","factor":4,"original_max_position_embeddings":64})");
  EXPECT_EQ(counted->max_position, 512U) << "it says more itself";
  expect_error(parsed(R"({"rope_type":"yarn","factor":4,"beta_fast":0.5})").error(),
               Code::kInvalidArgument,
               {"beta_fast", "at least beta_slow", "0.5"});
  EXPECT_EQ(parsed(R"({"rope_type":"dynamic","factor":4})").error().code(), Code::kUnimplemented);
  EXPECT_EQ(parsed(R"({"rope_type":"linear"})").error().code(), Code::kInvalidArgument);
  expect_error(parsed(R"({"factor":4})").error(),
               Code::kInvalidArgument,
               {"rope_scaling.rope_type", "expected one beside factor"});
  expect_error(parsed(R"({"full_attention":{"rope_theta":1e6}})").error(),
               Code::kUnimplemented,
               {"rope_scaling", "full_attention"});
  EXPECT_EQ(parsed(R"({"rope_type":"linear","factor":0})").error().code(), Code::kInvalidArgument);
}

// A theta in either object, or outside of them.
TEST(Config, ReadsThetaWhereTransformers5Does) {
  const auto parsed = [](const std::string& scaling,
                         const std::string& parameters,
                         const char* outside = "\"other\":0") {
    TestShape shape;
    shape.rope_scaling = scaling + ",\"rope_parameters\":" + parameters;
    return parse_config(replaced(config_json(shape), "\"rope_theta\":10000.0", outside));
  };
  const std::string linear = R"("rope_type":"linear","factor":2)";
  const auto expect_theta = [&](const std::string& scaling, const std::string& parameters) {
    const auto config = parsed(scaling, parameters);
    ASSERT_TRUE(config.has_value()) << config.error().to_string();
    EXPECT_EQ(config->rope.theta, 1e6) << scaling << parameters;
    EXPECT_EQ(config->rope.scaling, kernels::RopeScaling::kLinear) << scaling << parameters;
  };
  const std::string with_theta = "{" + linear + R"(,"rope_theta":1e6})";
  expect_theta("null", with_theta);
  expect_theta(with_theta, "null");
  expect_theta("{" + linear + "}", with_theta);
  expect_theta(with_theta, with_theta);
  EXPECT_EQ(parsed(R"({"rope_theta":1e6})", "{}")->rope.theta, 1e6);
  EXPECT_EQ(parsed("{}", "{}", "\"rope_theta\":20000")->rope.theta, 20000);
  EXPECT_EQ(parsed("{}", "{}")->rope.theta, 10000) << "the usual one";
  EXPECT_EQ(parsed("null", with_theta, "\"rope_theta\":1e6")->rope.theta, 1e6) << "the same";
  for (const auto& [scaling, parameters] :
       {std::pair<std::string, std::string>{"null", with_theta}, {with_theta, "null"}}) {
    const auto differs = parsed(scaling, parameters, "\"rope_theta\":10000.0");
    ASSERT_FALSE(differs.has_value()) << scaling;
    expect_error(differs.error(),
                 Code::kUnimplemented,
                 {"rope_theta: expected 1000000", "as in", "found 10000."});
  }
}

// Readers disagree about which of the two counts.
TEST(Config, RefusesTwoDescriptionsOfTheRotationThatDiffer) {
  const auto error_of = [](const std::string& scaling, const std::string& parameters) {
    TestShape shape;
    shape.rope_scaling = scaling + ",\"rope_parameters\":" + parameters;
    const auto config = parse_config(config_json(shape));
    EXPECT_FALSE(config.has_value()) << scaling << parameters;
    return config ? internal_error("accepted") : config.error();
  };
  const std::string parameters = R"({"rope_type":"default","rope_theta":10000})";
  for (const char* scaling : {R"({"rope_type":"yarn","factor":4})", R"({"rope_theta":5e5})"}) {
    expect_error(
        error_of(scaling, parameters), Code::kUnimplemented, {"rope_scaling", "rope_parameters"});
  }
}

// What transformers 5 reads, and earlier ones do not.
TEST(Config, RefusesWhatReadersTakeDifferently) {
  const auto parsed = [](const std::string& rope_and_more) {
    TestShape shape;
    shape.rope_scaling = rope_and_more;
    return parse_config(config_json(shape));
  };
  const std::string yarn =
      R"({"rope_type":"yarn","factor":4,"original_max_position_embeddings":64})";
  const std::string outside = ",\"original_max_position_embeddings\":";
  EXPECT_TRUE(parsed(yarn + outside + "64"));
  expect_error(parsed(yarn + outside + "32").error(),
               Code::kUnimplemented,
               {"original_max_position_embeddings", "found 32"});
  EXPECT_TRUE(parsed(R"({"rope_type":"linear","factor":4})" + outside + "32"));
  EXPECT_TRUE(parsed(R"({"rope_type":"default"},"is_causal":true)"));
  expect_error(parsed(R"({"rope_type":"default"},"is_causal":false)").error(),
               Code::kUnimplemented,
               {"is_causal", "expected true"});
  EXPECT_TRUE(parsed(R"({"rope_type":"yarn","factor":4,"mscale":1.5})"));
  expect_error(parsed(R"({"rope_type":"yarn","factor":4,"mscale":1.5,"mscale_all_dim":1})").error(),
               Code::kUnimplemented,
               {"mscale"});
}

// What vLLM computes with, and Transformers does not.
TEST(Config, RefusesScalesThatNotAllReadersKnow) {
  const auto parsed = [](const std::string& in_yarn, const std::string& outside) {
    TestShape shape;
    shape.rope_scaling = R"({"rope_type":"yarn","factor":4)" + in_yarn + "}" + outside;
    return parse_config(config_json(shape));
  };
  EXPECT_TRUE(parsed(R"(,"attn_factor":1,"extrapolation_factor":1.0,"apply_yarn_scaling":true)",
                     R"(,"logit_scale":1.0,"llama_4_scaling":null)"));
  for (const auto& [field, value] : {std::pair{"attn_factor", "0.75"},
                                     std::pair{"extrapolation_factor", "2"},
                                     std::pair{"apply_yarn_scaling", "false"},
                                     std::pair{"truncate", "false"},
                                     std::pair{"llama_4_scaling_beta", "0.1"}}) {
    expect_error(parsed(",\"" + std::string(field) + "\":" + value, "").error(),
                 Code::kUnimplemented,
                 {"rope_scaling.", field, "expected"});
  }
  expect_error(parsed("", R"(,"logit_scale":0.0625)").error(),
               Code::kUnimplemented,
               {"logit_scale", "expected 1", "0.0625"});
  expect_error(parsed("", R"(,"llama_4_scaling":{"beta":0.1})").error(),
               Code::kUnimplemented,
               {"llama_4_scaling", "expected none"});
}

// Those of Granite, in a folder whose model_type and class were made others.
TEST(Config, RefusesMultipliersThatItsKindsOfModelDoNotHave) {
  const auto parsed = [](const std::string& field, const std::string& value) {
    TestShape shape;
    shape.rope_scaling = "null,\"" + field + "\":" + value;
    return parse_config(config_json(shape));
  };
  for (const char* field : {"embedding_multiplier", "residual_multiplier", "logits_scaling"}) {
    EXPECT_TRUE(parsed(field, "1.0")) << field;
    EXPECT_TRUE(parsed(field, "null")) << field;
    const auto scaled = parsed(field, "12.0");
    ASSERT_FALSE(scaled.has_value()) << field;
    expect_error(scaled.error(), Code::kUnimplemented, {field, "expected 1", "12"});
  }
  EXPECT_TRUE(parsed("attention_multiplier", "0.17677669529663687")) << "heads of 32";
  const auto scaled = parsed("attention_multiplier", "0.015625");
  ASSERT_FALSE(scaled.has_value());
  expect_error(scaled.error(),
               Code::kUnimplemented,
               {"attention_multiplier", "expected 0.17677", "found 0.015625"});
}

TEST(GenerationConfig, FollowsTheFileAndKeepsNeutralDefaults) {
  const ModelConfig config = parse_config(config_json({})).value();
  const auto defaults = parse_generation_config(
      R"({"do_sample":true,"temperature":0.6,"top_k":20,"top_p":0.95,"eos_token_id":12})", config);
  ASSERT_TRUE(defaults.has_value());
  EXPECT_FLOAT_EQ(defaults->temperature, 0.6F);
  EXPECT_EQ(defaults->top_k, 20);
  EXPECT_FLOAT_EQ(defaults->top_p, 0.95F);
  EXPECT_EQ(defaults->min_p, 0.0F);
  EXPECT_EQ(defaults->eos, std::vector<TokenId>{12});
  EXPECT_EQ(parse_generation_config(R"({"do_sample":false,"temperature":0.6})", config)
                .value()
                .temperature,
            0.0F);
  EXPECT_EQ(parse_generation_config("{}", config).value(), default_generation(config));
  EXPECT_FALSE(parse_generation_config(R"({"eos_token_id":[301]})", config).has_value());
  EXPECT_FALSE(parse_generation_config(R"({"top_p":2})", config).has_value());
}

// A request that says nothing gets them, so they are what a request could say.
TEST(GenerationConfig, IsBoundedAsRequestsAre) {
  const ModelConfig config = parse_config(config_json({})).value();
  for (const auto& [text, expected] :
       {std::pair{R"({"temperature":2.5})", "from 0 to 2"},
        std::pair{R"({"top_p":-0.1})", "from 0 to 1"},
        std::pair{R"({"min_p":1.1})", "from 0 to 1"},
        std::pair{R"({"repetition_penalty":0.001})", "from 0.01 to 100"},
        std::pair{R"({"repetition_penalty":101})", "from 0.01 to 100"}}) {
    const auto defaults = parse_generation_config(text, config);
    ASSERT_FALSE(defaults.has_value()) << text;
    expect_error(defaults.error(), Code::kInvalidArgument, {expected});
  }
  const auto defaults = parse_generation_config(
      R"({"temperature":1e-40,"top_p":1e-10,"repetition_penalty":0.01})", config);
  ASSERT_TRUE(defaults.has_value()) << defaults.error().to_string();
  EXPECT_EQ(defaults->temperature, 0.0F);
  EXPECT_EQ(defaults->top_p, 1e-10F);
  EXPECT_EQ(defaults->repetition_penalty, 0.01F);
  for (const char* none : {R"({"top_p":0})", R"({"top_p":1e-40})"}) {
    EXPECT_EQ(parse_generation_config(none, config).value().top_p, 1e-10F);
  }
}

TEST(Checkpoint, NamesAMissingTensor) {
  const Error error = error_after([](auto& tensors) {
    std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.name == kUp; });
  });
  expect_error(error, Code::kNotFound, {kUp, "[608, 64]", "no such tensor"});
}

TEST(Checkpoint, CountsTensorsThatAreNotUsed) {
  TestShape shape;
  std::vector<TestTensor> tensors = random_tensors(shape);
  for (const char* buffer : {"model.layers.0.self_attn.rotary_emb.inv_freq",
                             "model.layers.0.self_attn.rotary_emb.cos_cached",
                             "model.layers.0.self_attn.k_proj.k_scale",
                             "model.layers.0.self_attn.attn.v_scale",
                             "h.0.attn.masked_bias",
                             "h.0.attn.bias"}) {
    tensors.push_back({buffer, "F32", {1}, std::vector<std::byte>(4)});
  }
  TestTensor head = find(tensors, "model.embed_tokens.weight");
  head.name = "lm_head.weight";
  tensors.push_back(std::move(head));
  const auto opened = [&] {
    MemorySource files;
    files.put("config.json", config_json(shape));
    files.put("model.safetensors", write_safetensors(tensors));
    return Checkpoint::open(files).value();
  };
  EXPECT_EQ(opened().unused().text(), "");
  shape.layers = 1;  // of two
  const Checkpoint checkpoint = opened();
  EXPECT_EQ(checkpoint.unused().count, 11U);
  EXPECT_EQ(checkpoint.unused().text(),
            "11 tensors of the model not used, the first: model.layers.1.input_layernorm.weight");
}

TEST(Checkpoint, RefusesAHeadBesideTiedEmbeddingsThatIsAnother) {
  for (const bool shorter : {false, true}) {
    const Error error = error_after([&](auto& tensors) {
      TestTensor head = find(tensors, "model.embed_tokens.weight");
      head.name = "lm_head.weight";
      if (shorter) {
        head.bytes.resize(head.bytes.size() / head.shape[0]);
        head.shape[0] = 1;
      } else {
        head.bytes.back() ^= std::byte{1};
      }
      tensors.push_back(std::move(head));
    });
    expect_error(error,
                 Code::kUnimplemented,
                 {"memory/model.safetensors",
                  "lm_head.weight",
                  "model.embed_tokens.weight",
                  "set tie_word_embeddings to false",
                  "remove it"});
  }
}

TEST(Checkpoint, RefusesTensorsThatItsLayersDoNotHave) {
  for (const std::string name : {"model.layers.0.self_attn.inner_attn_ln.weight",
                                 "model.layers.0.self_attn.q_proj.bias",
                                 "model.norm.bias",
                                 "lm_head.bias"}) {
    const Error error = error_after([&](auto& tensors) {
      tensors.push_back({name, "F32", {1}, std::vector<std::byte>(4)});
    });
    expect_error(error,
                 Code::kUnimplemented,
                 {"memory/model.safetensors", name.c_str(), "\"qwen3\"", "another model"});
  }
  TestShape shape;
  std::vector<TestTensor> tensors = random_tensors(shape);
  for (const char* name : {"model.layers.2.eh_proj.weight",
                           "model.layers.00x.weight",
                           "model.layers",
                           "v_head.weight"}) {
    tensors.push_back({name, "F32", {1}, std::vector<std::byte>(4)});
  }
  MemorySource files;
  files.put("config.json", config_json(shape));
  files.put("model.safetensors", write_safetensors(tensors));
  const auto checkpoint = Checkpoint::open(files);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  EXPECT_EQ(checkpoint->unused().count, 4U) << "there are two layers";
}

// Transformers would open the model that it was made for, and put it upon that.
TEST(Checkpoint, RefusesAnAdapterBesideWeightsOrAlone) {
  for (const bool is_alone : {false, true}) {
    const auto files = random_checkpoint({});
    files->put("adapter_config.json", "{}");
    if (is_alone) {
      files->remove("config.json");
    }
    const auto checkpoint = Checkpoint::open(*files);
    ASSERT_FALSE(checkpoint.has_value());
    expect_error(
        checkpoint.error(),
        Code::kUnimplemented,
        {"memory/adapter_config.json", "expected the folder of a whole model", "merge it"});
  }
}

TEST(Checkpoint, NamesAWrongShape) {
  const Error error = error_after([](auto& tensors) { find(tensors, kUp).shape = {64, 608}; });
  expect_error(error, Code::kDataLoss, {"memory/model.safetensors", kUp, "[608, 64]", "[64, 608]"});
}

TEST(Checkpoint, NamesAWrongDtype) {
  const Error error = error_after([](auto& tensors) { find(tensors, kUp).dtype = "I16"; });
  expect_error(error, Code::kDataLoss, {kUp, "BF16, F16 or F32", "I16"});
}

TEST(Checkpoint, RefusesAFileThatWasCutAnywhere) {
  TestShape shape;
  shape.layers = 1;
  const auto files = random_checkpoint(shape);
  const std::vector<std::byte> whole = files->bytes("model.safetensors");
  for (std::size_t cut = 1; cut < whole.size(); cut = cut * 3 + 1) {
    files->put(
        "model.safetensors",
        std::vector<std::byte>(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(cut)));
    const auto checkpoint = Checkpoint::open(*files);
    ASSERT_FALSE(checkpoint.has_value()) << cut;
    EXPECT_EQ(checkpoint.error().code(), Code::kDataLoss);
  }
}

TEST(Checkpoint, NamesTheFileThatIsMissing) {
  const auto files = random_checkpoint({});
  files->remove("model.safetensors");
  expect_error(Checkpoint::open(*files).error(), Code::kNotFound, {"model.safetensors"});
  files->remove("config.json");
  expect_error(Checkpoint::open(*files).error(), Code::kNotFound, {"config.json"});
}

// The same tensors in two files and an index.
// Two shards; one has a tensor `unlisted`, of which the index says nothing.
std::unique_ptr<MemorySource> sharded(const TestShape& shape, const char* unlisted = nullptr) {
  auto files = std::make_unique<MemorySource>();
  std::vector<TestTensor> first;
  std::vector<TestTensor> second;
  std::string map;
  for (TestTensor& tensor : random_tensors(shape)) {
    const bool in_first = first.size() <= second.size();
    map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"part-" + (in_first ? "1" : "2") +
           ".safetensors\"";
    (in_first ? first : second).push_back(std::move(tensor));
  }
  if (unlisted != nullptr) {
    first.push_back({unlisted, "F32", {1}, std::vector<std::byte>(4)});
  }
  files->put("config.json", config_json(shape));
  files->put("part-1.safetensors", write_safetensors(first));
  files->put("part-2.safetensors", write_safetensors(second));
  files->put("model.safetensors.index.json",
             "{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}");
  return files;
}

std::string index_text(MemorySource& files) {
  const auto& bytes = files.bytes("model.safetensors.index.json");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Checkpoint, ReadsShardsAsItReadsOneFile) {
  const TestShape shape;
  const auto one = random_checkpoint(shape);
  const auto many = sharded(shape);
  const auto whole = Checkpoint::open(*one);
  const auto parts = Checkpoint::open(*many);
  ASSERT_TRUE(whole.has_value());
  ASSERT_TRUE(parts.has_value()) << parts.error().to_string();
  for (const WeightSpec& spec : required_weights(whole->config())) {
    const auto a = whole->weight(spec.name).bytes;
    const auto b = parts->weight(spec.name).bytes;
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << spec.name;
  }
  EXPECT_NE(whole->structure_hash(), parts->structure_hash());
}

TEST(Checkpoint, AFileWithAllWeightsGoesBeforeAnIndexOfFilesThatAreGone) {
  const auto files = random_checkpoint({});
  files->put("model.safetensors.index.json", R"({"weight_map": {"a": "gone.safetensors"}})");
  const auto checkpoint = Checkpoint::open(*files);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message();
  files->put("model.safetensors.index.json",
             R"({"weight_map": {"model.embed_tokens.weight": "model.safetensors"}})");
  EXPECT_TRUE(Checkpoint::open(*files));
}

TEST(Checkpoint, RefusesAnIndexThatLies) {
  const auto with = [](const std::string& from, const std::string& to) {
    const auto files = sharded({});
    files->put("model.safetensors.index.json", replaced(index_text(*files), from, to));
    const auto checkpoint = Checkpoint::open(*files);
    EXPECT_FALSE(checkpoint.has_value());
    return checkpoint ? internal_error("accepted") : checkpoint.error();
  };
  const std::string embed = "\"model.embed_tokens.weight\":\"";
  expect_error(with(embed + "part-1", embed + "../part-1"),
               Code::kDataLoss,
               {"model.embed_tokens.weight", "plain file name"});
  expect_error(with(embed + "part-1", embed + "part-2"),
               Code::kNotFound,
               {"model.embed_tokens.weight", "part-2.safetensors"});
  expect_error(with(embed + "part-1", embed + "part-3"), Code::kNotFound, {"part-3"});
  expect_error(with("weight_map", "weight_maps"), Code::kDataLoss, {"weight_map"});
  const std::string map = "\"weight_map\":{";
  const auto lies = sharded({});  // of a tensor that nobody needs, as the head is the embedding
  lies->put("model.safetensors.index.json",
            replaced(index_text(*lies), map, map + "\"lm_head.weight\":\"part-2.safetensors\","));
  const auto opened = Checkpoint::open(*lies);
  ASSERT_TRUE(opened) << opened.error().message();
  EXPECT_EQ(opened->unused().count, 1U);
  const auto files = sharded({});
  files->put("model.safetensors.index.json", R"({"weight_map": {}})");
  const auto empty = Checkpoint::open(*files);
  ASSERT_FALSE(empty);
  expect_error(empty.error(), Code::kDataLoss, {"weight_map", "tensor names"});
}

// Readers take all that lies in a shard.
TEST(Checkpoint, SeesTensorsOfShardsThatTheIndexDoesNotName) {
  const auto biased = Checkpoint::open(*sharded({}, "model.layers.0.self_attn.q_proj.bias"));
  ASSERT_FALSE(biased.has_value());
  expect_error(biased.error(),
               Code::kUnimplemented,
               {"part-1.safetensors", "q_proj.bias", "another model would be computed"});
  const auto other = Checkpoint::open(*sharded({}, "v_head.weight"));
  ASSERT_TRUE(other.has_value()) << other.error().message();
  EXPECT_EQ(other->unused().text(), "1 tensor of the model not used, the first: v_head.weight");
  for (const char* twice : {"model.norm.weight", "model.layers.1.input_layernorm.weight"}) {
    const auto files = sharded({});
    std::vector<TestTensor> more{{twice, "F32", {1}, std::vector<std::byte>(4)}};
    files->put("part-3.safetensors", write_safetensors(more));
    files->put("model.safetensors.index.json",
               replaced(index_text(*files),
                        "\"weight_map\":{",
                        "\"weight_map\":{\"v_head\":\"part-3.safetensors\","));
    const auto opened = Checkpoint::open(*files);
    ASSERT_FALSE(opened.has_value());
    expect_error(
        opened.error(), Code::kDataLoss, {twice, "expected in one file", "part-3.safetensors"});
  }
}

TEST(WeightTensor, RoundsToNearestEven) {
  const std::vector<float> values = {
      1.0F, 1.00390625F, 1.01171875F, -3.3895314e38F, std::numeric_limits<float>::quiet_NaN()};
  WeightTensor tensor;
  tensor.type = gguf::TensorType::kF32;
  tensor.rows = 1;
  tensor.columns = values.size();
  tensor.bytes = std::as_bytes(std::span(values));
  std::vector<tensor::Bf16> out(values.size());
  tensor.read_bf16(0, 0, out);
  EXPECT_EQ(out[0].bits, 0x3F80);
  EXPECT_EQ(out[1].bits, 0x3F80) << "a tie goes to the even neighbour below";
  EXPECT_EQ(out[2].bits, 0x3F82) << "a tie goes to the even neighbour above";
  EXPECT_EQ(out[3].bits, 0xFF7F);
  EXPECT_EQ(out[4].bits, tensor::kBf16Nan);
}

}  // namespace
}  // namespace phalanx::checkpoint
