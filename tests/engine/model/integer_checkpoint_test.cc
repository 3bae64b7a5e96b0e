// SPDX-License-Identifier: Apache-2.0
// Checkpoints with integer weights that are wrong: the goldens of tests/golden/quant with one tensor changed. Each is
// refused by name. What the intact ones compute is tested in tests/integration/model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "tests/engine/model/changed_golden.h"
#include "tests/engine/model/plain_device.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class IntegerCheckpoint : public ::testing::Test {
 protected:
  // Loads a golden after `change`; OK, or the error.
  absl::Status Load(const std::string& golden, const GoldenChange& change) {
    const TempDirectory directory;
    WriteChangedGolden(golden, change, directory);
    PlainDeviceState state;
    const auto device = MakePlainDevice(&state);
    return Model::Load({.path = directory.path(), .random_shape = "", .precisions = {Precision::kFp32}}, device.get())
        .status();
  }
};

constexpr const char* kUp = "mlp.up_proj";

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
  return std::string(kUp) + ending;
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
