#include "server/convert/execution.h"

#include <optional>

#include "kernels/api/dtype.h"
#include "server/convert/field_checks.h"

namespace dunlin::server {
namespace {

using engine::AttentionBackend;
using engine::DeviceKind;
using engine::Precision;

template <class Engine, class Wire>
struct Row {
  Engine engine;
  Wire wire;
};

constexpr Row<DeviceKind, v1::Device> kDevices[] = {
    {DeviceKind::kCpu, v1::DEVICE_CPU},
    {DeviceKind::kCuda, v1::DEVICE_CUDA},
};
constexpr Row<AttentionBackend, v1::AttentionBackend> kBackends[] = {
    {AttentionBackend::kMath, v1::ATTENTION_BACKEND_MATH},
    {AttentionBackend::kFlash, v1::ATTENTION_BACKEND_FLASH},
    {AttentionBackend::kEfficient, v1::ATTENTION_BACKEND_EFFICIENT},
};
constexpr Row<Precision, v1::Precision> kPrecisions[] = {
    {Precision::kFp32, v1::PRECISION_FP32},
    {Precision::kBf16, v1::PRECISION_BF16},
    {Precision::kFp16, v1::PRECISION_FP16},
    {Precision::kFp8, v1::PRECISION_FP8},
};

template <class Engine, class Wire, size_t kRows>
std::optional<Engine> FromWire(const Row<Engine, Wire> (&table)[kRows], Wire wire) {
  for (const auto& row : table) {
    if (row.wire == wire) return row.engine;
  }
  return std::nullopt;
}

template <class Engine, class Wire, size_t kRows>
Wire Lookup(const Row<Engine, Wire> (&table)[kRows], Engine value) {
  for (const auto& row : table) {
    if (row.engine == value) return row.wire;
  }
  return Wire{};
}

}  // namespace

absl::StatusOr<engine::ExecutionChoice> ChoiceFromWire(const v1::ExecutionOptions& wire) {
  if (absl::Status s = CheckInt("execution.device", wire.device(), 0, v1::Device_MAX); !s.ok()) return s;
  if (absl::Status s = CheckInt("execution.attention_backend", wire.attention_backend(), 0, v1::AttentionBackend_MAX);
      !s.ok()) {
    return s;
  }
  if (absl::Status s = CheckInt("execution.precision", wire.precision(), 0, v1::Precision_MAX); !s.ok()) return s;
  engine::ExecutionChoice choice;
  choice.device = FromWire(kDevices, wire.device());
  choice.attention_backend = FromWire(kBackends, wire.attention_backend());
  choice.precision = FromWire(kPrecisions, wire.precision());
  choice.allow_fallback = wire.allow_fallback();
  return choice;
}

v1::Device ToWire(DeviceKind device) {
  return Lookup(kDevices, device);
}
v1::AttentionBackend ToWire(AttentionBackend backend) {
  return Lookup(kBackends, backend);
}
v1::Precision ToWire(Precision precision) {
  return Lookup(kPrecisions, precision);
}

v1::Execution ToWire(const engine::ExecutionProfile& profile) {
  v1::Execution wire;
  wire.set_device(ToWire(profile.device));
  wire.set_attention_backend(ToWire(profile.attention_backend));
  wire.set_precision(ToWire(profile.precision));
  if (profile.precision == Precision::kFp8) wire.set_recipe(engine::Traits(profile.fp8_recipe).name);
  wire.set_kv_dtype(kernels::Name(profile.kv_dtype()));
  return wire;
}

}  // namespace dunlin::server
