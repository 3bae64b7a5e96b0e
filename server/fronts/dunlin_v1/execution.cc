// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/execution.h"

#include <array>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/request/field_checks.h"
#include "engine/request/speculation.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using engine::AttentionBackend;
using engine::DeviceKind;
using engine::Precision;
using kernels::AttentionBackendTraits;
using kernels::DeviceKindTraits;
using kernels::PrecisionTraits;

// The wire enumerators of a table's rows, by row: a prefix and the row's name in upper case, ATTENTION_BACKEND_FLASH.
// UNSPECIFIED for a row that is missing in the .proto file (a test compares the two).
template <class Enum, class Wire, class Row, size_t kRows>
class WireMap {
 public:
  using Parse = bool (*)(const std::string&, Wire*);

  WireMap(const Row (&table)[kRows], Enum Row::*enumerator, const char* prefix, Parse parse) {
    for (size_t i = 0; i < kRows; ++i) {
      engine_[i] = table[i].*enumerator;
      parse(absl::StrCat(prefix, absl::AsciiStrToUpper(table[i].name)), &wire_[i]);
    }
  }

  std::optional<Enum> FromWire(Wire wire) const {
    for (size_t i = 0; i < kRows; ++i) {
      if (wire_[i] == wire && wire != Wire{}) return engine_[i];
    }
    return std::nullopt;
  }
  Wire ToWire(Enum value) const { return wire_[static_cast<size_t>(value)]; }

 private:
  std::array<Enum, kRows> engine_{};
  std::array<Wire, kRows> wire_{};
};

const auto& WireDevices() {
  static const WireMap<DeviceKind, v1::Device, DeviceKindTraits, kernels::kNumDeviceKinds> map(
      kernels::kDeviceKindTable, &DeviceKindTraits::kind, "DEVICE_", v1::Device_Parse);
  return map;
}
const auto& Backends() {
  static const WireMap<AttentionBackend, v1::AttentionBackend, AttentionBackendTraits, kernels::kNumAttentionBackends>
      map(kernels::kAttentionBackendTable, &AttentionBackendTraits::backend, "ATTENTION_BACKEND_",
          v1::AttentionBackend_Parse);
  return map;
}
const auto& Precisions() {
  static const WireMap<Precision, v1::Precision, PrecisionTraits, kernels::kNumPrecisions> map(
      kernels::kPrecisionTable, &PrecisionTraits::precision, "PRECISION_", v1::Precision_Parse);
  return map;
}

}  // namespace

absl::StatusOr<engine::ExecutionChoice> ChoiceFromWire(const v1::ExecutionOptions& wire, const FieldNames& names) {
  using C = ClientField;
  using F = engine::RequestField;
  auto violation = engine::CheckInt(C::kDevice, wire.device(), 0, v1::Device_MAX);
  if (!violation.has_value()) {
    violation = engine::CheckInt(C::kAttentionBackend, wire.attention_backend(), 0, v1::AttentionBackend_MAX);
  }
  if (!violation.has_value()) violation = engine::CheckInt(F::kPrecision, wire.precision(), 0, v1::Precision_MAX);
  const std::optional<int32_t> max_drafts = engine::MaxDraftsNamed(wire.speculation());
  if (!violation.has_value() && !wire.speculation().empty() && !max_drafts.has_value()) {
    violation =
        engine::Violation::Of(C::kSpeculation, UnknownName(wire.speculation(), "word"), engine::kSpeculationWords);
  }
  if (violation.has_value()) return InvalidField(*violation, names);
  engine::ExecutionChoice choice;
  choice.max_drafts = max_drafts;
  choice.device = WireDevices().FromWire(wire.device());
  choice.attention_backend = Backends().FromWire(wire.attention_backend());
  choice.precision = Precisions().FromWire(wire.precision());
  choice.allow_fallback = wire.allow_fallback();
  return choice;
}

v1::Device ToWire(DeviceKind device) {
  return WireDevices().ToWire(device);
}
v1::AttentionBackend ToWire(AttentionBackend backend) {
  return Backends().ToWire(backend);
}
v1::Precision ToWire(Precision precision) {
  return Precisions().ToWire(precision);
}

v1::Execution ToWire(const engine::ExecutionProfile& profile) {
  v1::Execution wire;
  wire.set_device(ToWire(profile.device));
  wire.set_attention_backend(ToWire(profile.attention_backend));
  wire.set_precision(ToWire(profile.precision));
  if (profile.precision == Precision::kFp8) wire.set_recipe(engine::Traits(profile.fp8_recipe).name);
  wire.set_kv_dtype(kernels::Name(profile.kv_dtype()));
  wire.set_checkpoint_quantization(profile.checkpoint_quantization);
  wire.set_int8_inputs(profile.int8_inputs);
  wire.set_ranks(1);
  return wire;
}

}  // namespace dunlin::server
