// SPDX-License-Identifier: Apache-2.0
// The devices of modules as those of the tests of recurrent layers' operations: each call's arrays are copied from host
// memory to the device, and back.
#include "tests/kernels/recurrent/recurrent_devices.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/api/ssm_scan.h"
#include "tests/kernels/loader/device_memory.h"
#include "tests/kernels/loader/open_module.h"

namespace dunlin::kernels {
namespace {

// A module's device behind operations on host memory.
struct Staging {
  std::unique_ptr<Device> device;
};

// The arrays of a call. What lies where in 16 bytes stays so.
class Arrays {
 public:
  explicit Arrays(DeviceContext* context) : device_(*reinterpret_cast<Staging*>(context)->device) {}

  // Replaces a host address, null stays null.
  void Copy(const float** host, int64_t count) {
    if (*host == nullptr) return;
    const int64_t before = static_cast<int64_t>(reinterpret_cast<uintptr_t>(*host) % 16 / sizeof(float));
    std::vector<float> values(static_cast<size_t>(before));
    values.insert(values.end(), *host, *host + count);
    floats_.push_back(std::make_unique<Array<float>>(device_, values));
    *host = floats_.back()->data() + before;
  }
  void Copy(const int32_t** host, int64_t count) {
    if (*host == nullptr) return;
    indices_.push_back(std::make_unique<Array<int32_t>>(device_, std::vector<int32_t>(*host, *host + count)));
    *host = indices_.back()->data();
  }
  // Of an array that the call changes.
  void CopyAndReturn(float** host, int64_t count) {
    float* const to = *host;
    const float* from = to;
    Copy(&from, count);
    *host = const_cast<float*>(from);
    returned_.push_back({floats_.back().get(), to, count});
  }

  // The sequences of a call, their slots and states of `floats` each. Returns the rows of the call.
  int64_t CopySequences(const SequenceSpan** spans, int32_t num_sequences, StateSlots* state, int64_t floats) {
    int64_t rows = 0;
    int64_t slots = 0;
    for (int32_t i = 0; i < num_sequences; ++i) {
      rows = std::max<int64_t>(rows, (*spans)[i].query_start + (*spans)[i].query_len);
      slots = std::max<int64_t>(slots, state->slots[i] + 1);
    }
    spans_ = std::make_unique<Array<SequenceSpan>>(device_, std::vector<SequenceSpan>(*spans, *spans + num_sequences));
    *spans = spans_->data();
    if (slots == 0) return rows;
    CopyAndReturn(&state->pool, (slots - 1) * state->slot_stride + std::min(floats, state->slot_stride));
    Copy(&state->slots, num_sequences);
    return rows;
  }

  template <typename Params>
  KernelStatus Run(KernelStatus (*DeviceOps::*operation)(DeviceContext*, const Params&), const Params& params) {
    const KernelStatus status = (device_.ops->*operation)(device_.context, params);
    for (const Returned& array : returned_) {
      const std::vector<float> values = array.on_device->Read();
      std::copy(values.end() - array.count, values.end(), array.host);
    }
    return status;
  }

 private:
  struct Returned {
    const Array<float>* on_device;
    float* host;
    int64_t count;
  };

  Device& device_;
  std::vector<std::unique_ptr<Array<float>>> floats_;
  std::vector<std::unique_ptr<Array<int32_t>>> indices_;
  std::unique_ptr<Array<SequenceSpan>> spans_;
  std::vector<Returned> returned_;
};

KernelStatus Convolve(DeviceContext* context, const CausalConvParams& given) {
  CausalConvParams params = given;
  Arrays arrays(context);
  const int64_t rows = arrays.CopySequences(&params.sequences, params.num_sequences, &params.state,
                                            int64_t{params.taps - 1} * params.channels);
  const int64_t floats = (rows - 1) * params.in_stride + params.channels;
  for (const float** in : {&params.in, &params.in_gate, &params.out_gate}) arrays.Copy(in, floats);
  arrays.Copy(&params.weight, int64_t{params.taps} * params.channels);
  arrays.Copy(&params.bias, params.channels);
  arrays.CopyAndReturn(&params.out, rows * params.channels);
  return arrays.Run(&DeviceOps::causal_conv, params);
}

KernelStatus ScanDelta(DeviceContext* context, const DeltaScanParams& given) {
  DeltaScanParams params = given;
  const DeltaShape& shape = params.shape;
  Arrays arrays(context);
  const int64_t rows = arrays.CopySequences(&params.sequences, params.num_sequences, &params.state,
                                            shape.value_heads * DeltaHeadFloats(shape));
  arrays.Copy(&params.in, rows * shape.channels());
  const bool row_decays = params.steps != nullptr;
  const int64_t stride = params.gates_stride > 0 ? params.gates_stride : 2 * int64_t{shape.value_heads};
  arrays.Copy(&params.gates, (rows - 1) * stride + (row_decays ? 1 : 2) * int64_t{shape.value_heads});
  arrays.Copy(&params.rate, shape.value_heads);
  arrays.Copy(&params.dt_bias, shape.value_heads * (row_decays ? int64_t{shape.key_dim} : 1));
  arrays.Copy(&params.steps, rows * shape.value_heads * shape.key_dim);
  arrays.CopyAndReturn(&params.out, rows * shape.value_features());
  return arrays.Run(&DeviceOps::delta_scan, params);
}

KernelStatus ScanSsm(DeviceContext* context, const SsmScanParams& given) {
  SsmScanParams params = given;
  const SsmShape& shape = params.shape;
  Arrays arrays(context);
  const int64_t rows = arrays.CopySequences(&params.sequences, params.num_sequences, &params.state,
                                            shape.num_heads * SsmHeadFloats(shape));
  arrays.Copy(&params.in, rows * shape.channels());
  arrays.Copy(&params.step, (rows - 1) * params.step_stride + shape.num_heads);
  for (const float** numbers : {&params.rate, &params.step_bias, &params.skip}) {
    arrays.Copy(numbers, shape.num_heads);
  }
  arrays.CopyAndReturn(&params.out, rows * shape.features());
  return arrays.Run(&DeviceOps::ssm_scan, params);
}

// Rows of the inputs: those that are picked, or as many as come out.
int64_t SourceRows(const int32_t* rows, int32_t num_rows) {
  return rows == nullptr ? num_rows : *std::max_element(rows, rows + num_rows) + 1;
}

KernelStatus Norm(DeviceContext* context, const GatedGroupNormParams& given) {
  GatedGroupNormParams params = given;
  const int64_t width = int64_t{params.num_groups} * params.columns;
  const int64_t sources = SourceRows(params.rows, params.num_rows);
  Arrays arrays(context);
  arrays.Copy(&params.in, sources * width);
  arrays.Copy(&params.gate, (sources - 1) * params.gate_stride + width);
  arrays.Copy(&params.rows, params.num_rows);
  arrays.Copy(&params.weight, (params.num_groups - 1) * params.weight_stride + params.columns);
  arrays.CopyAndReturn(&params.out, params.num_rows * width);
  return arrays.Run(&DeviceOps::gated_group_norm, params);
}

KernelStatus Gate(DeviceContext* context, const RowGateParams& given) {
  RowGateParams params = given;
  const int64_t columns = params.columns;
  Arrays arrays(context);
  const int64_t width = std::max(params.width, 1);  // what the device refuses is no divisor here
  arrays.Copy(&params.gate, SourceRows(params.rows, params.num_rows) * (columns / width));
  arrays.Copy(&params.rows, params.num_rows);
  arrays.CopyAndReturn(&params.values, params.num_rows * columns);
  return arrays.Run(&DeviceOps::row_gate, params);
}

constexpr DeviceOps StagedOps() {
  DeviceOps ops{};
  ops.kind = DeviceKind::kCuda;
  ops.causal_conv = Convolve;
  ops.delta_scan = ScanDelta;
  ops.ssm_scan = ScanSsm;
  ops.gated_group_norm = Norm;
  ops.row_gate = Gate;
  return ops;
}
constexpr DeviceOps kStagedOps = StagedOps();

// Names of tests and the modules behind them.
const std::vector<std::pair<std::string, std::string>>& Modules() {
  static const std::vector<std::pair<std::string, std::string>> modules = {
      {"fake", DUNLIN_MODULE_DIR "/libfake_cuda.so"},
#ifdef DUNLIN_CUDA_MODULE
      {"cuda", DUNLIN_CUDA_MODULE},
#endif
  };
  return modules;
}

}  // namespace

std::vector<std::string> RecurrentDeviceNames() {
  std::vector<std::string> names;
  for (const auto& [name, path] : Modules()) names.push_back(name);
  return names;
}

// A GPU divides its launches by its own multiprocessors alone.
std::unique_ptr<Device> OpenRecurrentDevice(const std::string& name, int /*division*/, std::string* reason) {
  const auto module =
      std::find_if(Modules().begin(), Modules().end(), [&](const auto& of) { return of.first == name; });
  auto behind = OpenModule(module->second, reason);
  if (behind == nullptr) {
    *reason = "no device behind " + module->second + ": " + *reason;
    return nullptr;
  }
  auto device = std::make_unique<Device>();
  device->ops = &kStagedOps;
  device->context = reinterpret_cast<DeviceContext*>(new Staging{std::move(behind)});
  device->close = [](DeviceContext* context) { delete reinterpret_cast<Staging*>(context); };
  return device;
}

}  // namespace dunlin::kernels
