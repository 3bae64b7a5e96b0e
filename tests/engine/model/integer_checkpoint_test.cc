// SPDX-License-Identifier: Apache-2.0
// Checkpoints with integer weights that are wrong: the goldens of tests/golden/quant with one tensor changed. Each is
// refused by name. What the intact ones compute is tested in tests/integration/model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/integer/integer_weight.h"
#include "engine/model/load/load_model.h"
#include "tests/engine/model/changed_golden.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/safetensors_writer.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class IntegerCheckpoint : public ::testing::Test {
 protected:
  // Loads a golden after `change`, with `config` merged into its quantization_config; OK, or the error.
  absl::Status Load(const std::string& golden, const GoldenChange& change, const json& config = json::object()) {
    const TempDirectory directory;
    WriteChangedGolden(golden, change, directory, {{"quantization_config", config}});
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    return LoadModel({.path = directory.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device.get())
        .status();
  }
};

constexpr const char* kUpProj = "mlp.up_proj";

TEST_F(IntegerCheckpoint, LoadsWhatIsIntact) {
  for (const char* golden :
       {"compressed_group4", "gptq_desc_act4", "awq4", "bitsandbytes_nf4", "bitsandbytes_int8", "torchao_int8_group"}) {
    EXPECT_TRUE(Load(golden, [](GoldenTensors*) {}).ok()) << golden;
  }
}

struct Case {
  const char* golden;
  const char* what;
  GoldenChange change;
  const char* message;
};

std::string Of(const char* ending) {
  return std::string(kUpProj) + ending;
}

// Several shapes of the same number of elements, so that the file itself stays valid.
const std::vector<Case>& Cases() {
  static const auto* cases = new std::vector<Case>{
      {"compressed_group4", "no shape", [](GoldenTensors* t) { t->Drop(Of(".weight_shape")); },
       ".weight_shape' is missing"},
      {"compressed_group4", "no scales", [](GoldenTensors* t) { t->Drop(Of(".weight_scale")); },
       ".weight_scale' is missing"},
      {"compressed_group4", "other columns", [](GoldenTensors* t) { t->Set<int64_t>(Of(".weight_shape"), 1, 65); },
       "is [96, 65], which 4-bit codes in"},
      {"compressed_group4", "huge columns",
       [](GoldenTensors* t) { t->Set<int64_t>(Of(".weight_shape"), 1, INT64_MAX); }, "which 4-bit codes in"},
      {"compressed_group4", "negative rows", [](GoldenTensors* t) { t->Set<int64_t>(Of(".weight_shape"), 0, -96); },
       "is [-96, 64], which 4-bit codes in"},
      {"compressed_group4", "scales of other rows",
       [](GoldenTensors* t) {
         (*t)[Of(".weight_scale")]["shape"] = {2, 96};
       },
       ".weight_scale' is F16 [2, 96]; must be F32, F16 or BF16 [96, groups]"},
      {"compressed_group4", "too many groups",
       [](GoldenTensors* t) {
         (*t)[Of(".weight_scale")]["shape"] = {1, 192};
       },
       ".weight_scale' is F16 [1, 192]; must be"},
      {"compressed_group4", "codes of another dtype",
       [](GoldenTensors* t) { (*t)[Of(".weight_packed")]["dtype"] = "F32"; },
       ".weight_packed' is F32 [96, 8]; must be I32 [rows, words]"},
      {"compressed_group4", "a scale that is NaN",
       [](GoldenTensors* t) { t->Set<uint16_t>(Of(".weight_scale"), 3, 0x7E00); },
       ".weight_scale': element 3 is not finite"},
      {"compressed_asymmetric4", "zero points of another shape",
       [](GoldenTensors* t) {
         (*t)[Of(".weight_zero_point")]["shape"] = {2, 12};
       },
       ".weight_zero_point' is I32 [2, 12]; must be I32 [12, 2]"},
      {"compressed_actorder4", "a group that is not there",
       [](GoldenTensors* t) { t->Set<int32_t>(Of(".weight_g_idx"), 5, 2); },
       ".weight_g_idx': element 5 is 2; limit is [0, 1]"},
      {"gptq_desc_act4", "a negative group", [](GoldenTensors* t) { t->Set<int32_t>(Of(".g_idx"), 63, -1); },
       ".g_idx': element 63 is -1; limit is [0, 1]"},
      {"gptq_desc_act4", "no zero points", [](GoldenTensors* t) { t->Drop(Of(".qzeros")); }, ".qzeros' is missing"},
      {"gptq_desc_act4", "zero points of another shape",
       [](GoldenTensors* t) {
         (*t)[Of(".qzeros")]["shape"] = {12, 2};
       },
       ".qzeros' is I32 [12, 2]; must be I32 [2, 12]"},
      {"gptq_symmetric4", "scales of other rows",
       [](GoldenTensors* t) {
         (*t)[Of(".scales")]["shape"] = {96, 2};
       },
       ".scales' is F16 [96, 2]; must be F32, F16 or BF16 [groups, 96]"},
      {"gptq_symmetric4", "another matrix",
       [](GoldenTensors* t) {
         (*t)[Of(".qweight")]["shape"] = {96, 8};
       },
       "must be F32, F16 or BF16 [groups, 8]"},
      {"awq4", "no scales", [](GoldenTensors* t) { t->Drop(Of(".scales")); }, ".scales' is missing"},
      {"awq4", "one dimension", [](GoldenTensors* t) { (*t)[Of(".qweight")]["shape"] = {768}; },
       "must be I32 [columns,"},
  };
  return *cases;
}
const std::vector<Case>& LibraryCases() {  // of libraries that write a format of their own
  static const auto* cases = new std::vector<Case>{
      {"bitsandbytes_nf4", "no state", [](GoldenTensors* t) { t->Drop(Of(".weight.quant_state.bitsandbytes__nf4")); },
       "quant_state.bitsandbytes__nf4' is missing"},
      {"bitsandbytes_nf4", "a state that is no JSON",
       [](GoldenTensors* t) { t->Set<char>(Of(".weight.quant_state.bitsandbytes__nf4"), 0, 'x'); },
       "quant_state.bitsandbytes__nf4"},
      {"bitsandbytes_nf4", "no map", [](GoldenTensors* t) { t->Drop(Of(".weight.absmax")); },
       ".weight.absmax' is missing"},
      {"bitsandbytes_int8", "no scales", [](GoldenTensors* t) { t->Drop(Of(".SCB")); }, ".SCB' is missing"},
      {"bitsandbytes_int8", "scales of other rows",
       [](GoldenTensors* t) {
         (*t)[Of(".SCB")]["shape"] = {48, 2};
       },
       ".SCB' is F32 [48, 2]; must be F32 [96]"},
      {"torchao_int8_group", "no scales", [](GoldenTensors* t) { t->Drop(Of("._weight_scale")); },
       "._weight_scale' is missing"},
      {"torchao_int8_group", "zero points of another shape",
       [](GoldenTensors* t) {
         (*t)[Of("._weight_zero_point")]["shape"] = {2, 96};
       },
       "._weight_zero_point' is I8 [2, 96]; must be I8 [96, 2]"},
  };
  return *cases;
}

TEST_F(IntegerCheckpoint, NamesWhatIsWrong) {
  for (const std::vector<Case>* cases : {&Cases(), &LibraryCases()}) {
    for (const Case& row : *cases) {
      const absl::Status status = Load(row.golden, row.change);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << row.golden << ", " << row.what << ": " << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(row.message)) << row.golden << ", " << row.what;
    }
  }
}

TEST_F(IntegerCheckpoint, ComparesTheGroupSizeOfItsConfigWithTheScales) {
  const auto of_group_0 = [](const json& weights) {
    return json{{"config_groups", {{"group_0", {{"weights", weights}}}}}};
  };
  const json other_group = {{"weights", {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 64}}}};
  const struct {
    const char* golden;
    json config;
    const char* message;  // empty: it loads
  } cases[] = {
      {"gptq_desc_act4",
       {{"group_size", 64}},
       "mlp.down_proj.scales' is F16 [3, 64]: 3 group(s); group_size of quantization_config is 64, which divides 96 "
       "columns into 2"},
      {"gptq_symmetric4", {{"group_size", -1}}, "is -1, which divides 96 columns into 1"},
      {"gptq_v2_8", {{"group_size", 32}}, "1 group(s); group_size of quantization_config is 32, which divides 96"},
      {"awq4", {{"group_size", 16}}, "mlp.down_proj.scales' is F16 [3, 64]: 3 group(s); group_size"},
      {"compressed_actorder4", of_group_0({{"group_size", 64}}), "group_size of quantization_config is 64, which"},
      {"compressed_group4", of_group_0({{"strategy", "channel"}}), "group_size of quantization_config is -1, which"},
      {"gptq_symmetric4", {{"group_size", 0}}, "group_size is 0; must be -1 or a number of columns"},
      {"gptq_symmetric4", {{"group_size", -2}}, "group_size is -2"},
      {"gptq_v2_8", {{"group_size", 96}, {"desc_act", true}}, ""},  // of as many columns as any row has
      {"gptq_v2_8", {{"group_size", 1 << 24}}, ""},
      {"gptq_asymmetric4", {{"group_size", nullptr}}, ""},
      {"gptq_symmetric4", {{"group_size", 64}, {"dynamic", {{"+:.*", {{"group_size", 32}}}}}}, ""},
      {"compressed_group4", {{"config_groups", {{"group_1", other_group}}}}, ""},
  };
  for (const auto& row : cases) {
    const absl::Status status = Load(
        row.golden, [](GoldenTensors*) {}, row.config);
    EXPECT_EQ(status.ok(), *row.message == '\0') << row.golden << " " << row.config << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(row.message)) << row.golden << " " << row.config;
  }
}

// 96 columns in groups of 64: without the config they would be two halves.
TEST_F(IntegerCheckpoint, TheLastGroupMayHaveFewerColumns) {
  const TempDirectory directory;
  directory.Write("model.safetensors",
                  SafetensorsBytes({TestTensor{"m.qweight", {12, 8}, "I32"}, TestTensor{"m.scales", {2, 8}, "F16"},
                                    TestTensor{"m.qzeros", {2, 1}, "I32"}}));
  const absl::StatusOr<Directory> opened = Directory::Open(directory.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(*opened);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const auto& [size, group] : {std::pair<int64_t, int64_t>{64, 64}, {80, 80}, {0, 48}}) {
    const auto weights = FindIntegerWeights(
        {.layout = IntegerLayout::kGptq, .bits = 4, .zero_offset = 1, .group_size = size}, **checkpoint);
    ASSERT_TRUE(weights.ok()) << weights.status();
    ASSERT_EQ(weights->size(), 1U);
    EXPECT_EQ(weights->front().num_groups, 2);
    EXPECT_EQ(weights->front().group, group);
  }
}

TEST_F(IntegerCheckpoint, NeedsTheLayoutThatItsConfigNames) {
  const absl::Status status = Load("awq4", [](GoldenTensors* tensors) {
    json renamed = json::object();
    for (const auto& [name, value] : tensors->header.items()) {
      const size_t ending = name.rfind(".qweight");
      renamed[ending == std::string::npos ? name : name.substr(0, ending) + ".codes"] = value;
    }
    tensors->header = renamed;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no weight of its layout"));
}

}  // namespace
}  // namespace dunlin::engine
