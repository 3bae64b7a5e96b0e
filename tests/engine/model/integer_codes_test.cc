// SPDX-License-Identifier: Apache-2.0
// Codes of checkpoints with integer weights: which formats hold them, that their values are those of the dequantised
// tensors bit for bit, also where rows change places, and what has none and why.
#include "engine/model/checkpoint/integer/integer_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/model/checkpoint/expert_tensors.h"
#include "engine/model/checkpoint/rotary_rows.h"
#include "engine/model/load/opened_model.h"
#include "tests/engine/model/changed_golden.h"

namespace dunlin::engine {
namespace {

using kernels::WeightFormat;
using ::testing::HasSubstr;

const std::string kUp = "mlp.up_proj";
const std::string kUpWeight = "model.layers.0.mlp.up_proj.weight";

void Unchanged(GoldenTensors* /*tensors*/) {}

// The codes of a tensor, in pieces, against its values.
void ExpectCodesHaveTheValues(const TensorSource& source, const std::string& name) {
  SCOPED_TRACE(name);
  const TensorInfo& tensor = *source.Find(name);
  ASSERT_TRUE(source.CodesOf(tensor).has_value());
  const int64_t columns = tensor.shape[1];
  int64_t first = 0;
  for (const int64_t end : {int64_t{1}, int64_t{4}, tensor.shape[0]}) {
    const int64_t rows = end - first;
    CodedRows codes;
    ASSERT_EQ(source.ReadCodes(tensor, first, rows, &codes), absl::OkStatus());
    EXPECT_EQ(codes.traits, *source.CodesOf(tensor));
    std::vector<float> values(static_cast<size_t>(rows * columns));
    codes.Dequantize(values.data());
    std::vector<float> expected(values.size());
    const auto first_byte = static_cast<uint64_t>(first * columns) * sizeof(float);
    ASSERT_EQ(source.Read(tensor, first_byte, std::as_writable_bytes(std::span(expected))), absl::OkStatus());
    EXPECT_EQ(values, expected) << first;
    first = end;
  }
}

absl::StatusOr<OpenedModel> Open(const std::string& golden, const GoldenChange& change,
                                 const nlohmann::json& config = nlohmann::json::object()) {
  const TempDirectory directory;
  WriteChangedGolden(golden, change, directory, config);
  ModelSource source;
  source.path = directory.path();
  return OpenModelSource(source, false);
}

// What holds the codes of one tensor; none: it has none.
std::optional<WeightFormat> FormatOf(const OpenedModel& model, const std::string& tensor) {
  const auto codes = model.tensors->CodesOf(*model.tensors->Find(tensor));
  if (!codes) return std::nullopt;
  return SmallestFormatOf(std::vector{*codes});
}

struct GoldenFormat {
  const char* golden;
  std::optional<WeightFormat> format;
};
constexpr GoldenFormat kGoldenFormats[] = {
    {"awq4", WeightFormat::kQ4Zero},
    {"bitsandbytes_int8", WeightFormat::kQ8Wide},
    {"bitsandbytes_nf4", std::nullopt},
    {"compressed_actorder4", std::nullopt},
    {"compressed_asymmetric4", WeightFormat::kQ4Zero},
    {"compressed_channel4_bf16", WeightFormat::kQ4},
    {"compressed_channel8", WeightFormat::kQ8},
    {"compressed_group4", WeightFormat::kQ4},
    {"compressed_int8", WeightFormat::kQ8Wide},
    {"gptq_asymmetric4", WeightFormat::kQ4Zero},
    {"gptq_desc_act4", std::nullopt},
    {"gptq_symmetric4", WeightFormat::kQ4},
    {"gptq_v2_8", WeightFormat::kQ8Wide},
    {"torchao_int8", WeightFormat::kQ8Wide},
    {"torchao_int8_group", WeightFormat::kQ8Wide},
};

TEST(IntegerCodes, HaveTheValuesOfTheDequantisedTensors) {
  for (const GoldenFormat& row : kGoldenFormats) {
    SCOPED_TRACE(row.golden);
    const absl::StatusOr<OpenedModel> model = Open(row.golden, Unchanged);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(model->encodings.own_precision().has_value(), row.format.has_value());
    int coded = 0;
    for (const WeightPart& part : model->parts) {
      if (part.is_vector() || !IsPerLayer(part.slot)) continue;
      EXPECT_EQ(FormatOf(*model, part.tensor), row.format) << part.tensor;
      if (!row.format) continue;
      ExpectCodesHaveTheValues(*model->tensors, part.tensor);
      ++coded;
    }
    EXPECT_EQ(coded, row.format ? 7 : 0);
  }
}

TEST(IntegerCodes, KeepScalesThatAreNoFp16Numbers) {
  constexpr uint16_t kTiny = 0x2500;  // BF16, 2^-53
  const std::vector<uint16_t> usual(192, 0x3D8F);
  std::vector<uint16_t> with_tiny = usual;
  with_tiny[77] = kTiny;
  for (const auto& [golden, scales, format] : {std::tuple{"compressed_group4", usual, WeightFormat::kQ4},
                                               {"compressed_group4", with_tiny, WeightFormat::kQ8Wide},
                                               {"compressed_asymmetric4", usual, WeightFormat::kQ4Zero},
                                               {"compressed_asymmetric4", with_tiny, WeightFormat::kQ8Wide}}) {
    const absl::StatusOr<OpenedModel> model = Open(golden, [&scales = scales](GoldenTensors* tensors) {
      tensors->Replace(kUp + ".weight_scale", "BF16", {96, 2}, scales);
    });
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ(FormatOf(*model, kUpWeight), format) << golden;
    ExpectCodesHaveTheValues(*model->tensors, kUpWeight);
    // The fused gate has its own scales, in the format that holds both.
    EXPECT_EQ(model->encodings.Of(model->parsed.config, WeightSlot::kMlpUp, 0, Precision::kInt4).format, format);
  }
}

// A config with a second group, so that the scales alone tell which one a matrix is of.
nlohmann::json AlsoGroupsOf(int32_t columns) {
  const nlohmann::json weights = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", columns}};
  return {{"quantization_config", {{"config_groups", {{"group_1", {{"weights", weights}}}}}}}};
}

TEST(IntegerCodes, HaveGroupsOf16ColumnsAndMultiples) {
  const absl::StatusOr<OpenedModel> model = Open(
      "compressed_group4",
      [](GoldenTensors* tensors) {
        tensors->Replace(kUp + ".weight_scale", "F16", {96, 4}, std::vector<uint16_t>(384, 0x2C01));
      },
      AlsoGroupsOf(16));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(FormatOf(*model, kUpWeight), WeightFormat::kQ8Wide);
  ExpectCodesHaveTheValues(*model->tensors, kUpWeight);
}

struct WithoutCodes {
  const char* golden;
  GoldenChange change;
  nlohmann::json config;
  const char* reason;
};

std::vector<WithoutCodes> AllWithoutCodes() {
  const nlohmann::json none = nlohmann::json::object();
  return {
      {"gptq_symmetric4", [](GoldenTensors* t) { t->Set<int32_t>(kUp + ".g_idx", 3, 1); }, none,
       "columns are not in the order of their groups"},
      {"compressed_group4",
       [](GoldenTensors* t) {
         t->Replace(kUp + ".weight_scale", "F16", {96, 8}, std::vector<uint16_t>(768, 0x2C01));
       },
       AlsoGroupsOf(8), "groups have 8 columns; limit is a multiple of 16"},
      {"torchao_int8_group", [](GoldenTensors* t) { t->Set<int8_t>(kUp + "._weight_zero_point", 5, 3); }, none,
       "products of scales and zero points are not exact"},
      {"compressed_asymmetric4",
       [](GoldenTensors* t) {
         t->Replace(kUp + ".weight_scale", "BF16", {96, 2}, std::vector<uint16_t>(192, 0x7F00));  // 2^127
       },
       none, "products of scales and zero points are not exact"},
      {"gptq_v2_8",
       [](GoldenTensors* t) { t->Set<uint8_t>(kUp + ".qzeros", 95, 0xFF); },
       {{"quantization_config", {{"checkpoint_format", "gptq"}}}},
       "a zero point is above the codes"},
  };
}

TEST(IntegerCodes, AreMissingForAReasonThatIsAWarning) {
  for (const WithoutCodes& row : AllWithoutCodes()) {
    SCOPED_TRACE(row.reason);
    const absl::StatusOr<OpenedModel> model = Open(row.golden, row.change, row.config);
    ASSERT_TRUE(model.ok()) << model.status();
    const TensorInfo& tensor = *model->tensors->Find(kUpWeight);
    EXPECT_EQ(model->tensors->CodesOf(tensor), std::nullopt);
    EXPECT_EQ(model->tensors->WhyNoCodes(tensor), row.reason);
    const std::string warning =
        "1 quantised matrix(es) are dequantised: " + std::string(row.reason) + " (" + kUpWeight + ")";
    EXPECT_EQ(std::count(model->parsed.warnings.begin(), model->parsed.warnings.end(), warning), 1);
    const TensorInfo& other = *model->tensors->Find("model.layers.0.mlp.down_proj.weight");
    EXPECT_TRUE(model->tensors->CodesOf(other).has_value());
    EXPECT_EQ(model->tensors->WhyNoCodes(other), "");
  }
}

TEST(IntegerCodes, RefuseScalesThatAreNotFinite) {
  std::vector<uint16_t> scales(192, 0x3D8F);
  scales[7] = 0x7FC0;
  const absl::StatusOr<OpenedModel> model = Open("compressed_group4", [&scales](GoldenTensors* tensors) {
    tensors->Replace(kUp + ".weight_scale", "BF16", {96, 2}, scales);
  });
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("up_proj.weight_scale': element 7 is not finite"));
}

TEST(OwnPrecision, KeepsWhatHasNoCodesInBf16) {
  const absl::StatusOr<OpenedModel> model = Open("gptq_symmetric4", [](GoldenTensors* tensors) {
    tensors->Set<int32_t>(kUp + ".g_idx", 3, 1);
    nlohmann::json& head = tensors->header["lm_head.weight"];
    tensors->header["unused"] = head;
    const size_t begin = tensors->data.size();
    tensors->data.append(size_t{67} * 64 * sizeof(float), '\0');
    head = {{"dtype", "F32"}, {"shape", {67, 64}}, {"data_offsets", {begin, tensors->data.size()}}};
  });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->encodings.own_precision(), Precision::kInt4);
  const auto format = [&](WeightSlot slot, Precision precision) {
    return model->encodings.Of(model->parsed.config, slot, 0, precision).format;
  };
  EXPECT_EQ(format(WeightSlot::kQkv, Precision::kInt4), WeightFormat::kQ4);
  EXPECT_EQ(format(WeightSlot::kMlpDown, Precision::kInt4), WeightFormat::kQ4);
  EXPECT_EQ(format(WeightSlot::kMlpUp, Precision::kInt4), WeightFormat::kBf16);     // one of its parts has no codes
  EXPECT_EQ(format(WeightSlot::kHead, Precision::kInt4), WeightFormat::kBf16);      // of FP32
  EXPECT_EQ(format(WeightSlot::kEmbedding, Precision::kInt4), WeightFormat::kF16);  // as the file has it
  EXPECT_EQ(format(WeightSlot::kMlpUp, Precision::kInt8), WeightFormat::kInt8);     // rounded
}

TEST(RotaryRows, PutCodesInTheOrderOfTheValues) {
  absl::StatusOr<OpenedModel> model = Open("awq4", Unchanged);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string query = "model.layers.0.self_attn.q_proj.weight";
  CodedRows stored;
  ASSERT_EQ(model->tensors->ReadCodes(*model->tensors->Find(query), 0, 64, &stored), absl::OkStatus());
  const auto ordered = RotaryRows::Open(std::move(model->tensors), {{query, 16, 0}}, 12);
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  ExpectCodesHaveTheValues(**ordered, query);
  ExpectCodesHaveTheValues(**ordered, kUpWeight);
  // Row 20 is the fifth of the second head's first half: stored row 8 of that head.
  CodedRows row;
  ASSERT_EQ((*ordered)->ReadCodes(*(*ordered)->Find(query), 20, 1, &row), absl::OkStatus());
  EXPECT_TRUE(std::equal(row.codes.begin(), row.codes.end(), stored.codes.begin() + 24 * 64));
  EXPECT_TRUE(std::equal(row.factors.begin(), row.factors.end(), stored.factors.begin() + 24 * 2));
  EXPECT_TRUE(std::equal(row.zero_points.begin(), row.zero_points.end(), stored.zero_points.begin() + 24 * 2));
}

// A stack of 3 experts [5, 32] whose elements are the row in the stack.
class CodedStack final : public TensorSource {
 public:
  CodedStack() {
    info_ = {.name = "experts", .dtype = &TensorDTypeOf(kernels::DType::kF32), .shape = {3, 5, 32}, .end = 1920};
  }
  const TensorInfo* Find(std::string_view name) const override { return name == info_.name ? &info_ : nullptr; }
  absl::Status Read(const TensorInfo&, uint64_t first_byte, std::span<std::byte> out) const override {
    auto* values = reinterpret_cast<float*>(out.data());
    for (size_t i = 0; i < out.size() / sizeof(float); ++i) {
      values[i] = static_cast<float>((first_byte / sizeof(float) + i) / 32);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<std::byte*> ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                      PageBuffer* buffer) const override {
    return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
  }
  std::optional<kernels::CodeTraits> CodesOf(const TensorInfo&) const override { return kTraits; }
  absl::Status ReadCodes(const TensorInfo&, int64_t first_row, int64_t num_rows, CodedRows* out) const override {
    out->Resize(kTraits, num_rows, 32);
    for (int64_t i = 0; i < num_rows * 32; ++i) {
      out->codes[static_cast<size_t>(i)] = static_cast<int8_t>(first_row + i / 32);
    }
    std::fill(out->factors.begin(), out->factors.end(), uint16_t{0x3C00});
    return absl::OkStatus();
  }
  std::string FileOf(const TensorInfo&) const override { return "memory"; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }
  std::vector<const TensorInfo*> List() const override { return {&info_}; }

 private:
  static constexpr kernels::CodeTraits kTraits = {-128, 127, 32, 32, false, false};
  TensorInfo info_;
};

TEST(ExpertTensors, HaveTheCodesOfTheirRowsOfTheStack) {
  const auto experts = ExpertTensors::Open(std::make_unique<CodedStack>(), {{"experts", "expert.@"}}, 3);
  ASSERT_TRUE(experts.ok()) << experts.status();
  for (const char* name : {"expert.0", "expert.1", "expert.2"}) ExpectCodesHaveTheValues(**experts, name);
}

}  // namespace
}  // namespace dunlin::engine
