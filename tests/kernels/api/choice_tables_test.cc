// SPDX-License-Identifier: Apache-2.0
// The tables of attention backends, devices and precisions: what is derived from their rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "kernels/api/attention_backend.h"
#include "kernels/api/choice_table.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"

namespace dunlin::kernels {
namespace {

using ::testing::ElementsAre;

TEST(ChoiceTables, RowsStandAtTheirEnumerators) {
  for (const AttentionBackendTraits& row : kAttentionBackendTable) EXPECT_EQ(&Traits(row.backend), &row);
  for (const DeviceKindTraits& row : kDeviceKindTable) EXPECT_EQ(&Traits(row.kind), &row);
  for (const PrecisionTraits& row : kPrecisionTable) EXPECT_EQ(&Traits(row.precision), &row);
}

TEST(ChoiceTables, LabelsAreTheNamesInCapitals) {
  const auto capitals = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return text;
  };
  for (const AttentionBackendTraits& row : kAttentionBackendTable) EXPECT_EQ(row.label, capitals(row.name));
  for (const DeviceKindTraits& row : kDeviceKindTable) EXPECT_EQ(row.label, capitals(row.name));
}

TEST(ChoiceTables, AutoPrefersFlashThenEfficientThenMath) {
  EXPECT_THAT(kAutoOrder, ElementsAre(AttentionBackend::kFlash, AttentionBackend::kEfficient, AttentionBackend::kMath));
}

TEST(ChoiceTables, AutoPrefersCudaToTheCpu) {
  EXPECT_THAT(kDeviceAutoOrder, ElementsAre(DeviceKind::kCuda, DeviceKind::kCpu));
}

TEST(ChoiceTables, FindsRowsByTheirExactName) {
  for (const PrecisionTraits& row : kPrecisionTable) EXPECT_EQ(FindByName(kPrecisionTable, row.name), &row);
  for (const char* name : {"", "auto", "FP32", "fp", "fp320"}) EXPECT_EQ(FindByName(kPrecisionTable, name), nullptr);
}

TEST(ChoiceTables, ListsNames) {
  EXPECT_THAT(NamesOf(kAttentionBackendTable), ElementsAre("math", "flash", "efficient"));
  EXPECT_EQ(JoinNames(kPrecisionTable, ", "), "fp32, bf16, fp16, fp8, int8, int4");
  EXPECT_EQ(ListInWords({}), "");
  EXPECT_EQ(ListInWords({"a"}), "a");
  EXPECT_EQ(ListInWords({"a", "b"}), "a and b");
  EXPECT_EQ(ListInWords({"a", "b", "c"}), "a, b and c");
}

struct Row {
  DeviceKind kind;
  const char* name;
};

TEST(ChoiceTables, FaultyTablesAreDetected) {
  constexpr Row kMisplaced[] = {{DeviceKind::kCuda, "a"}, {DeviceKind::kCpu, "b"}};
  constexpr Row kNameless[] = {{DeviceKind::kCpu, "a"}, {DeviceKind::kCuda, nullptr}};
  constexpr Row kEmpty[] = {{DeviceKind::kCpu, "a"}, {DeviceKind::kCuda, ""}};
  constexpr Row kCapital[] = {{DeviceKind::kCpu, "a"}, {DeviceKind::kCuda, "B"}};
  constexpr Row kTwins[] = {{DeviceKind::kCpu, "a"}, {DeviceKind::kCuda, "a"}};
  constexpr Row kGood[] = {{DeviceKind::kCpu, "a"}, {DeviceKind::kCuda, "b_1"}};
  for (const auto* table : {&kMisplaced, &kNameless, &kEmpty, &kCapital, &kTwins}) {
    EXPECT_FALSE(IsChoiceTable(*table, &Row::kind));
  }
  EXPECT_TRUE(IsChoiceTable(kGood, &Row::kind));
}

}  // namespace
}  // namespace dunlin::kernels
