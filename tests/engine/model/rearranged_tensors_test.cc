// SPDX-License-Identifier: Apache-2.0
// Tensors by name in checkpoints some of whose tensors are given in another form: those that have one, those that have
// none, and names that do not exist.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/padded_heads.h"
#include "engine/model/checkpoint/quantization.h"
#include "engine/model/checkpoint/rotary_rows.h"
#include "engine/model/weights/widened_tensors.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

constexpr int kCount = 500;  // tensors of each kind

std::string Name(const char* kind, int i) {
  return absl::StrCat("model.", kind, ".", i, ".weight");
}

std::unique_ptr<TensorSource> OpenFile(const std::vector<TestTensor>& tensors) {
  const TempDirectory directory;
  WriteModel(directory, "{}", tensors);
  absl::StatusOr<Directory> opened = Directory::Open(directory.path());
  EXPECT_TRUE(opened.ok()) << opened.status();
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(*opened);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

// How often each name is listed; every listed tensor is the one that its name finds.
std::map<std::string, int> Listed(const TensorSource& source) {
  std::map<std::string, int> names;
  for (const TensorInfo* tensor : source.List()) {
    ++names[tensor->name];
    EXPECT_EQ(source.Find(tensor->name), tensor) << tensor->name;
  }
  return names;
}

float FirstValue(const TensorSource& source, const TensorInfo& tensor, int64_t row) {
  float value = 0.0F;
  const auto row_bytes = static_cast<uint64_t>(tensor.shape[1]) * sizeof(float);
  const std::span<std::byte> out = std::as_writable_bytes(std::span(&value, 1));
  EXPECT_TRUE(source.Read(tensor, static_cast<uint64_t>(row) * row_bytes, out).ok());
  return value;
}

TEST(RotaryRows, AreFoundByName) {
  std::vector<TestTensor> tensors;
  std::vector<RotatedTensor> rotated = {{"model.absent.weight", 4, 0}};
  for (int i = 0; i < kCount; ++i) {
    tensors.push_back({Name("query", i), {4, 2}});
    tensors.push_back({Name("plain", i), {4, 2}});
    for (int parts = i % 3; parts >= 0; --parts) rotated.push_back({Name("query", i), 4, 0});  // up to three share one
  }
  const absl::StatusOr<std::unique_ptr<TensorSource>> rows = RotaryRows::Open(OpenFile(tensors), rotated, 4);
  ASSERT_TRUE(rows.ok()) << rows.status();
  for (int i = 0; i < kCount; ++i) {
    const TensorInfo* query = (*rows)->Find(Name("query", i));
    const TensorInfo* plain = (*rows)->Find(Name("plain", i));
    ASSERT_NE(query, nullptr);
    ASSERT_NE(plain, nullptr);
    EXPECT_EQ(query->name, Name("query", i));
    // Row 1 of the halves is row 2 of the file.
    EXPECT_EQ(FirstValue(**rows, *query, 1), ValueOf(query->name, 2 * 2));
    EXPECT_EQ(FirstValue(**rows, *plain, 1), ValueOf(plain->name, 1 * 2));
  }
  for (const char* name : {"model.absent.weight", "model.query.0", "model.query.500.weight", ""}) {
    EXPECT_EQ((*rows)->Find(name), nullptr) << name;
  }
  const std::map<std::string, int> names = Listed(**rows);
  EXPECT_EQ(names.size(), size_t{2} * kCount);
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
}

TEST(WidenedTensors, AreFoundByName) {
  std::vector<TestTensor> tensors;
  std::vector<std::string> widened = {"model.absent.weight"};
  for (int i = 0; i < kCount; ++i) {
    tensors.push_back({Name("cut", i), {3, 2}, "F8_E4M3", {2.0F}});
    tensors.push_back({absl::StrCat("model.cut.", i, ".weight_scale"), {}, "F32", {0.5F + static_cast<float>(i)}});
    tensors.push_back({Name("kept", i), {3, 2}, "F8_E4M3"});
    tensors.push_back({Name("wide", i), {3, 2}});
    widened.push_back(Name("cut", i));
    widened.push_back(Name("wide", i));  // stays as it is
  }
  Quantization quantization;
  for (const QuantizationFormat& format : QuantizationFormats()) {
    if (std::string_view(format.name) == "compressed-tensors") quantization.format = &format;
  }
  const absl::StatusOr<std::unique_ptr<TensorSource>> source =
      WidenedTensors::Open(OpenFile(tensors), quantization, widened);
  ASSERT_TRUE(source.ok()) << source.status();
  for (int i = 0; i < kCount; ++i) {
    const TensorInfo* cut = (*source)->Find(Name("cut", i));
    ASSERT_NE(cut, nullptr);
    EXPECT_EQ(cut->name, Name("cut", i));
    EXPECT_STREQ(cut->dtype->name, "F32");
    EXPECT_EQ(FirstValue(**source, *cut, 2), 1.0F + 2.0F * static_cast<float>(i));
    EXPECT_STREQ((*source)->Find(Name("kept", i))->dtype->name, "F8_E4M3");
    EXPECT_EQ((*source)->Find(Name("wide", i))->file_index, 0);
  }
  for (const char* name : {"model.absent.weight", "model.cut.500.weight", ""}) {
    EXPECT_EQ((*source)->Find(name), nullptr) << name;
  }
  const std::map<std::string, int> names = Listed(**source);
  EXPECT_EQ(names.size(), size_t{3} * kCount) << "without the scales of those that are widened";
  for (const auto& [name, count] : names) EXPECT_EQ(count, 1) << name;
}

// Each knows its own tensors from those of the one below, in any order.
TEST(DerivedTensors, LieAboveEachOther) {
  const std::vector<TestTensor> file = {{"query", {4, 2}}, {"value", {2, 2}}, {"plain", {4, 2}}};
  Quantization quantization;
  for (const bool padded_first : {true, false}) {
    std::unique_ptr<TensorSource> source = OpenFile(file);
    for (const bool pads : {padded_first, !padded_first}) {
      absl::StatusOr<std::unique_ptr<TensorSource>> next =
          pads ? PaddedHeads::Open(std::move(source), {{"value", false}}, 1, 2)
               : RotaryRows::Open(std::move(source), {{"query", 4, 0}}, 4);
      ASSERT_TRUE(next.ok()) << next.status();
      next = WidenedTensors::Open(*std::move(next), quantization, {"query", "value", "plain"});
      ASSERT_TRUE(next.ok()) << next.status();
      source = *std::move(next);
    }
    EXPECT_EQ(Listed(*source), (std::map<std::string, int>{{"query", 1}, {"value", 1}, {"plain", 1}}));
    EXPECT_EQ(FirstValue(*source, *source->Find("query"), 1), ValueOf("query", 2 * 2));
    EXPECT_EQ(source->Find("value")->shape, (std::vector<int64_t>{4, 2}));
    EXPECT_EQ(FirstValue(*source, *source->Find("value"), 1), 0.0F);
    EXPECT_EQ(FirstValue(*source, *source->Find("value"), 2), ValueOf("value", 1 * 2));
    EXPECT_EQ(FirstValue(*source, *source->Find("plain"), 1), ValueOf("plain", 1 * 2));
    EXPECT_NE(source->Find("query")->file_index, source->Find("value")->file_index);
    EXPECT_EQ(source->FileOf(*source->Find("value")), source->FileOf(*source->Find("plain")));
  }
}

TEST(IgnoredModules, AreFullNamesOrTheirEnds) {
  Quantization quantization;
  quantization.ignored = {"a.b", "head", "model.layers.1.mlp"};
  for (const char* module : {"a.b", "x.a.b", "head", "model.head", "model.layers.1.mlp"}) {
    EXPECT_TRUE(IsIgnored(quantization, module)) << module;
  }
  for (const char* module : {"", "b", "xa.b", "a.b.c", "ahead", "head.x", "layers.1.mlp", "model.layers.11.mlp"}) {
    EXPECT_FALSE(IsIgnored(quantization, module)) << module;
  }
}

}  // namespace
}  // namespace dunlin::engine
