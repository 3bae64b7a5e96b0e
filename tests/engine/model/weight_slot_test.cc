// SPDX-License-Identifier: Apache-2.0
// The rows of kWeightSlotTable: names are unique, and each row's field is of the row's kind.
#include "engine/model/spec/weight_slot.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "engine/model/spec/model_weights.h"

namespace dunlin::engine {
namespace {

PrecisionWeights OneOfEach() {
  PrecisionWeights weights;
  weights.layers.resize(1);
  weights.layers[0].experts.up.resize(1);
  weights.layers[0].experts.down.resize(1);
  weights.layers[0].latent.key_up.resize(1);
  weights.layers[0].latent.value_up.resize(1);
  weights.layers[0].compressed.out_down.resize(1);
  return weights;
}

TEST(WeightSlots, FieldsAreOfTheRowsKind) {
  PrecisionWeights weights = OneOfEach();
  for (const WeightSlotRow& row : kWeightSlotTable) {
    const WeightField field = row.field(&weights, {row.slot});
    EXPECT_EQ(field.matrix != nullptr, row.kind == SlotKind::kMatrix) << row.name;
    EXPECT_EQ(field.vector != nullptr, row.kind != SlotKind::kMatrix) << row.name;
    EXPECT_TRUE(row.has_bias == nullptr || field.bias != nullptr) << row.name;
  }
}

TEST(WeightSlots, EachHasANameAndAFieldOfItsOwn) {
  PrecisionWeights weights = OneOfEach();
  std::set<std::string> names;
  std::set<const void*> fields;
  for (const WeightSlotRow& row : kWeightSlotTable) {
    const WeightField field = row.field(&weights, {row.slot});
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    const void* place = field.matrix != nullptr ? static_cast<const void*>(field.matrix) : field.vector;
    EXPECT_TRUE(fields.insert(place).second) << row.name;
  }
}

}  // namespace
}  // namespace dunlin::engine
