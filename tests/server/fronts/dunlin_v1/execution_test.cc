// SPDX-License-Identifier: Apache-2.0
// The enumerators of dunlin.v1 against the tables of kernels/api.
#include "server/fronts/dunlin_v1/execution.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/fronts/dunlin_v1/field_names.h"

namespace dunlin::server {
namespace {

// Every row has its own enumerator, and every enumerator except UNSPECIFIED and AUTO has a row.
template <typename Row, size_t kRows, typename Enum>
void ExpectOneNumberPerRow(const Row (&table)[kRows], Enum Row::*enumerator,
                           const google::protobuf::EnumDescriptor* wire) {
  std::set<int> numbers;
  for (const Row& row : table) {
    const int number = ToWire(row.*enumerator);
    EXPECT_GE(number, 2) << wire->name() << " lacks " << row.name;
    numbers.insert(number);
  }
  EXPECT_EQ(numbers.size(), kRows);
  EXPECT_EQ(wire->value_count(), static_cast<int>(kRows) + 2) << wire->name() << " names what no table has";
}

TEST(Execution, EveryRowOfATableHasAWireNumber) {
  ExpectOneNumberPerRow(kernels::kAttentionBackendTable, &kernels::AttentionBackendTraits::backend,
                        v1::AttentionBackend_descriptor());
  ExpectOneNumberPerRow(kernels::kDeviceKindTable, &kernels::DeviceKindTraits::kind, v1::Device_descriptor());
  ExpectOneNumberPerRow(kernels::kPrecisionTable, &kernels::PrecisionTraits::precision, v1::Precision_descriptor());
}

TEST(Execution, WireNumbersStay) {
  EXPECT_EQ(ToWire(engine::AttentionBackend::kMath), v1::ATTENTION_BACKEND_MATH);
  EXPECT_EQ(ToWire(engine::AttentionBackend::kFlash), v1::ATTENTION_BACKEND_FLASH);
  EXPECT_EQ(ToWire(engine::AttentionBackend::kEfficient), v1::ATTENTION_BACKEND_EFFICIENT);
  EXPECT_EQ(ToWire(engine::DeviceKind::kCpu), v1::DEVICE_CPU);
  EXPECT_EQ(ToWire(engine::DeviceKind::kCuda), v1::DEVICE_CUDA);
  EXPECT_EQ(ToWire(engine::Precision::kFp32), v1::PRECISION_FP32);
  EXPECT_EQ(ToWire(engine::Precision::kBf16), v1::PRECISION_BF16);
  EXPECT_EQ(ToWire(engine::Precision::kFp16), v1::PRECISION_FP16);
  EXPECT_EQ(ToWire(engine::Precision::kFp8), v1::PRECISION_FP8);
}

TEST(Execution, ChoicesComeBackFromTheWire) {
  for (const kernels::AttentionBackendTraits& row : kernels::kAttentionBackendTable) {
    v1::ExecutionOptions wire;
    wire.set_attention_backend(ToWire(row.backend));
    EXPECT_EQ(ChoiceFromWire(wire, kGenerateFieldNames)->attention_backend, row.backend);
  }
  for (const kernels::DeviceKindTraits& row : kernels::kDeviceKindTable) {
    v1::ExecutionOptions wire;
    wire.set_device(ToWire(row.kind));
    EXPECT_EQ(ChoiceFromWire(wire, kGenerateFieldNames)->device, row.kind);
  }
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    v1::ExecutionOptions wire;
    wire.set_precision(ToWire(row.precision));
    EXPECT_EQ(ChoiceFromWire(wire, kGenerateFieldNames)->precision, row.precision);
  }
}

TEST(Execution, UnspecifiedAndAutoAreNoChoice) {
  v1::ExecutionOptions wire;
  for (const int number : {0, 1}) {
    wire.set_attention_backend(static_cast<v1::AttentionBackend>(number));
    wire.set_device(static_cast<v1::Device>(number));
    wire.set_precision(static_cast<v1::Precision>(number));
    const auto choice = ChoiceFromWire(wire, kGenerateFieldNames);
    ASSERT_TRUE(choice.ok());
    EXPECT_FALSE(choice->attention_backend.has_value() || choice->device.has_value() || choice->precision.has_value());
  }
}

}  // namespace
}  // namespace dunlin::server
