// SPDX-License-Identifier: Apache-2.0
// What is read of an adapter's files, where its rows go, and what is refused, by name.
#include "engine/adapters/load_adapter.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/adapters/adapter_config.h"
#include "kernels/api/float_formats.h"
#include "tests/engine/adapters/adapter_files.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

class LoadAdapterTest : public AdapterFiles {
 protected:
  std::string Message(const std::string& config, const std::vector<TestTensor>& tensors) {
    const auto loaded = LoadAs("tone", config, tensors);
    EXPECT_FALSE(loaded.ok());
    if (loaded.ok()) (void)set_->Unload("tone");
    return std::string(loaded.status().message());
  }
};

TEST_F(LoadAdapterTest, PutsMatricesWhereTheProjectionHasTheModulesRows) {
  ASSERT_TRUE(LoadAs("tone", kConfig, QueryAndValue()).ok());
  const AdapterLease lease = set_->Lookup("tone");
  EXPECT_TRUE(lease.adapter->pairs(Projection::kQkv, 0).empty());
  EXPECT_TRUE(lease.adapter->pairs(Projection::kMlpUp, 1).empty());
  const std::span pairs = lease.adapter->pairs(Projection::kQkv, 1);
  ASSERT_EQ(pairs.size(), 2U);
  EXPECT_EQ(pairs[0].first_column, 0);
  EXPECT_EQ(pairs[0].out_features, 16);
  EXPECT_EQ(pairs[1].first_column, 24);
  EXPECT_EQ(pairs[1].out_features, 8);
  EXPECT_EQ(pairs[1].scale, 1.5F);
  EXPECT_EQ(pairs[1].dtype, kernels::DType::kF32);
  const std::string down = TensorName("model.layers.1.self_attn.v_proj", 'A');
  const std::string up = TensorName("model.layers.1.self_attn.v_proj", 'B');
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t k = 0; k < 6; ++k) {
      EXPECT_EQ(static_cast<const float*>(pairs[1].down)[r * 32 + k], ValueOf(down, r * 6 + k));
    }
    for (int64_t n = 0; n < 8; ++n) {
      EXPECT_EQ(static_cast<const float*>(pairs[1].up)[r * 64 + n], ValueOf(up, n * 2 + r));
    }
  }
}

// The values of the test's tensors are exact in all three.
TEST_F(LoadAdapterTest, KeepsTheDtypeThatBothMatricesHave) {
  std::vector<TestTensor> mixed = QueryAndValue("F16");
  for (size_t i = 1; i < mixed.size(); i += 2) mixed[i].dtype = "BF16";
  ASSERT_TRUE(LoadAs("bf16", kConfig, QueryAndValue("BF16")).ok());
  ASSERT_TRUE(LoadAs("fp16", kConfig, QueryAndValue("F16")).ok());
  ASSERT_TRUE(LoadAs("mixed", kConfig, mixed).ok());
  const AdapterLease leases[] = {set_->Lookup("bf16"), set_->Lookup("fp16"), set_->Lookup("mixed")};
  const kernels::LowRankPair& bf16 = leases[0].adapter->pairs(Projection::kQkv, 1)[0];
  const kernels::LowRankPair& fp16 = leases[1].adapter->pairs(Projection::kQkv, 1)[0];
  const kernels::LowRankPair& wide = leases[2].adapter->pairs(Projection::kQkv, 1)[0];
  EXPECT_EQ(bf16.dtype, kernels::DType::kBF16);
  EXPECT_EQ(fp16.dtype, kernels::DType::kF16);
  EXPECT_EQ(wide.dtype, kernels::DType::kF32);
  EXPECT_EQ(leases[0].adapter->bytes(), leases[1].adapter->bytes());
  EXPECT_EQ(2 * leases[0].adapter->bytes(), leases[2].adapter->bytes());
  for (int64_t k = 0; k < 6; ++k) {
    const float value = static_cast<const float*>(wide.down)[k];
    EXPECT_EQ(kernels::Bf16ToFloat(static_cast<const uint16_t*>(bf16.down)[k]), value);
    EXPECT_EQ(kernels::Fp16ToFloat(static_cast<const uint16_t*>(fp16.down)[k]), value);
  }
}

TEST_F(LoadAdapterTest, ReadsRanksAndScalesOfSingleModules) {
  std::vector<TestTensor> tensors = QueryAndValue();
  for (TestTensor& tensor : Pair("model.layers.0.mlp.down_proj", 5, 10, 6)) tensors.push_back(tensor);
  const std::string config = R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "use_rslora": true,
      "rank_pattern": {"down_proj": 5}, "alpha_pattern": {"^model.layers.1.self_attn.q_proj$": 7},
      "target_modules": ["q_proj", "v_proj", "mlp.down_proj"], "fan_in_fan_out": false, "bias": "none"})";
  ASSERT_TRUE(LoadAs("tone", config, tensors).ok());
  const AdapterLease lease = set_->Lookup("tone");
  EXPECT_EQ(lease.adapter->rank(), 5);
  EXPECT_FLOAT_EQ(lease.adapter->pairs(Projection::kQkv, 1)[0].scale, 7.0F / std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(lease.adapter->pairs(Projection::kQkv, 1)[1].scale, 3.0F / std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(lease.adapter->pairs(Projection::kMlpDown, 0)[0].scale, 3.0F / std::sqrt(5.0F));
}

TEST_F(LoadAdapterTest, RefusesConfigsByField) {
  const struct {
    const char* field;
    const char* message;
  } cases[] = {
      {R"("use_dora": true)", "use_dora is true"},
      {R"("lora_bias": true)", "lora_bias is true"},
      {R"("bias": "all")", "bias is 'all'"},
      {R"("modules_to_save": ["lm_head"])", "modules_to_save is given"},
      {R"("trainable_token_indices": [1])", "trainable_token_indices is given"},
      {R"("target_parameters": "experts.up")", "target_parameters is"},
      {R"("init_lora_weights": "pissa_niter_4")", "init_lora_weights is 'pissa_niter_4'"},
      {R"("rank_pattern": {"q_proj": 300})", "q_proj is 300; limit is [1, 256]"},
      {R"("alpha_pattern": {".*q_proj": 2})", "'.*q_proj' is an expression"},
      {R"("target_modules": ["q_proj"])", "has module 'model.layers.1.self_attn.v_proj', which target_modules"},
      {R"("use_rslora": 1)", "use_rslora is 1"},
  };
  for (const auto& [field, message] : cases) {
    const std::string config = absl::StrCat(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3, )", field, "}");
    EXPECT_THAT(Message(config, QueryAndValue()), HasSubstr(message)) << field;
  }
  EXPECT_THAT(Message(R"({"peft_type": "LOHA", "r": 2, "lora_alpha": 3})", QueryAndValue()),
              HasSubstr("peft_type is 'LOHA'"));
  EXPECT_THAT(Message(R"({"peft_type": "LORA", "r": 0, "lora_alpha": 3})", QueryAndValue()),
              HasSubstr("r is 0; limit is [1, 256]"));
  EXPECT_THAT(Message(R"({"peft_type": "LORA", "r": 2})", QueryAndValue()), HasSubstr("lora_alpha"));
  EXPECT_THAT(Message("[]", QueryAndValue()), HasSubstr("adapter_config.json"));
}

TEST_F(LoadAdapterTest, RefusesTensorsByName) {
  const auto with = [](const std::string& name) {
    std::vector<TestTensor> tensors = QueryAndValue();
    tensors.push_back({.name = name, .shape = {2, 6}});
    return tensors;
  };
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj";
  EXPECT_THAT(Message(kConfig, with(module + ".lora_magnitude_vector")), HasSubstr("is of DoRA"));
  EXPECT_THAT(Message(kConfig, with("base_model.model.model.embed_tokens.lora_embedding_A")),
              HasSubstr("adapts an embedding"));
  EXPECT_THAT(Message(kConfig, with("base_model.model.lm_head.weight")), HasSubstr("is no half of a pair"));
  EXPECT_THAT(Message(kConfig, with("base_model.model.lm_head.base_layer.weight")), HasSubstr("is no half of a pair"));
  EXPECT_THAT(Message(kConfig, with("model.layers.0.self_attn.q_proj.lora_A.weight")),
              HasSubstr("does not begin with base_model.model."));
  EXPECT_THAT(Message(kConfig, with(module + ".lora_A.weight")), HasSubstr("lacks its lora_B.weight"));
  EXPECT_THAT(Message(kConfig, with(module + ".lora_B.weight")), HasSubstr("lacks its lora_A.weight"));
  EXPECT_THAT(
      Message(kConfig, Pair("model.embed_tokens", 2, 6, 9)),
      HasSubstr("module 'model.embed_tokens' is none that adapters of this model may change; those of its layers are "
                "down_proj, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj"));
  EXPECT_THAT(Message(kConfig, Pair("model.layers.2.self_attn.q_proj", 2, 6, 16)),
              HasSubstr("module 'model.layers.2.self_attn.q_proj' is none"));
  std::vector<TestTensor> twice = QueryAndValue();
  for (const TestTensor& tensor : Pair("layers.1.self_attn.q_proj", 2, 6, 16)) twice.push_back(tensor);
  EXPECT_THAT(Message(kConfig, twice),
              HasSubstr("adapts 'layers.1.self_attn.q_proj', which it does under another name"));
}

TEST_F(LoadAdapterTest, RefusesShapesTypesAndValues) {
  const std::string module = "model.layers.0.self_attn.q_proj";
  EXPECT_THAT(Message(kConfig, Pair(module, 2, 7, 16)), HasSubstr("has shape [2, 7]; the model makes it [2, 6]"));
  EXPECT_THAT(Message(kConfig, Pair(module, 2, 6, 15)), HasSubstr("has shape [15, 2]; the model makes it [16, 2]"));
  EXPECT_THAT(Message(kConfig, Pair(module, 3, 6, 16)), HasSubstr("has rank 3; adapter_config.json makes it 2"));
  EXPECT_THAT(Message(R"({"peft_type": "LORA", "r": 9, "lora_alpha": 3})", Pair(module, 9, 6, 16)),
              HasSubstr("has rank 9; limit is [1, 8]"));
  EXPECT_THAT(Message(kConfig, Pair(module, 2, 6, 16, "F64")),
              HasSubstr("has dtype F64; adapters are loaded from F32, F16 and BF16"));
  std::vector<TestTensor> infinite = Pair(module, 2, 6, 16);
  infinite[1].values = {INFINITY};
  EXPECT_THAT(Message(kConfig, infinite), HasSubstr("has a value that is not finite"));
}

TEST_F(LoadAdapterTest, RefusesWhatIsNotThere) {
  const auto no_directory = set_->Load("tone", adapter_.path() + "/none");
  EXPECT_EQ(no_directory.status().code(), absl::StatusCode::kNotFound);
  const auto no_config = set_->Load("tone", adapter_.path());
  EXPECT_EQ(no_config.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_config.status().message()), HasSubstr("adapter_config.json"));
  adapter_.Write("adapter_config.json", kConfig);
  const auto no_weights = set_->Load("tone", adapter_.path());
  EXPECT_EQ(no_weights.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_weights.status().message()), HasSubstr("adapter_model.safetensors"));
  EXPECT_THAT(Message(kConfig, {}), HasSubstr("has no low-rank matrices"));
  EXPECT_TRUE(set_->List().empty());
}

// A model that is a directory takes no GGUF adapter: names and the order of rows are those of its own form.
TEST_F(LoadAdapterTest, RefusesTheOtherForm) {
  adapter_.Write("adapter.gguf", "GGUF");
  EXPECT_THAT(std::string(set_->Load("tone", adapter_.File("adapter.gguf")).status().message()),
              HasSubstr("is a GGUF adapter; this model is a directory"));
}

}  // namespace
}  // namespace dunlin::engine
