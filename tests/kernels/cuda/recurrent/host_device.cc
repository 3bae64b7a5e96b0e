// SPDX-License-Identifier: Apache-2.0
// The CUDA device's operations of recurrent layers on the host: the threads and blocks of a launch in turn, as plain
// C++ from the device's source. Shared memory starts as NaN and ends with a guard.
#include "kernels/cuda/recurrent/causal_conv.h"
#include "kernels/cuda/recurrent/checks.h"
#include "kernels/cuda/recurrent/gates.h"
#include "kernels/cuda/recurrent/scan_block.h"
#include "tests/kernels/attention/devices.h"
#include "tests/kernels/cuda/device/thread_lanes.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels {
namespace cuda {
namespace {

struct HostDevice {
  int32_t division;
};
HostDevice& Of(DeviceContext* context) {
  return *reinterpret_cast<HostDevice*>(context);
}

KernelStatus Convolve(DeviceContext* context, const CausalConvParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const ConvPlan plan = ConvPlanOf(params, Of(context).division);
  for (int64_t sequence = 0; sequence < params.num_sequences; ++sequence) {
    for (int64_t channel = 0; channel < params.channels; ++channel) {
      // The first worker's rows come last: the others must not read the state that it writes.
      for (int32_t worker = plan.workers; worker-- > 0;) {
        ConvolveShare(params, sequence, channel, worker, plan.workers);
      }
    }
  }
  return KernelStatus::kOk;
}

template <typename Rule>
KernelStatus Scan(DeviceContext* /*context*/, const typename Rule::Params& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const ScanShape shape = Rule::ShapeOf(params);
  if (shape.rows > kStateRowsMax) return KernelStatus::kUnsupported;
  WithScanSlices<Rule>(shape, [&](auto slices) {
    using Memory = typename ScanBlock<Rule, slices()>::Memory;
    for (int64_t block = 0; block < int64_t{params.num_sequences} * shape.heads * ScanParts(shape); ++block) {
      testing::PoisonedMemory shared(sizeof(Memory));
      ScanBlock<Rule, slices()>(params, block, reinterpret_cast<Memory*>(shared.data())).Run();
      EXPECT_TRUE(shared.Intact()) << "wrote past shared memory";
    }
  });
  return KernelStatus::kOk;
}

KernelStatus ScanDelta(DeviceContext* context, const DeltaScanParams& params) {
  return params.steps == nullptr ? Scan<DeltaRule>(context, params) : Scan<ChannelDeltaRule>(context, params);
}

KernelStatus Norm(DeviceContext* context, const GatedGroupNormParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  for (int64_t row = 0; row < params.num_rows; ++row) {
    for (int64_t group = 0; group < params.num_groups; ++group) {
      RunLanes(Of(context).division,
               [&](const ThreadLanes& lanes) { NormGroup(lanes, params, row, group, TakesFours(params)); });
    }
  }
  return KernelStatus::kOk;
}

KernelStatus Gate(DeviceContext* /*context*/, const RowGateParams& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  for (int64_t row = 0; row < params.num_rows; ++row) {
    for (int64_t column = 0; column < params.columns; ++column) GateAt(params, row, column);
  }
  return KernelStatus::kOk;
}

constexpr DeviceOps OpsOnHost() {
  DeviceOps ops{};
  ops.kind = DeviceKind::kCuda;
  ops.causal_conv = Convolve;
  ops.delta_scan = ScanDelta;
  ops.ssm_scan = Scan<SsmRule>;
  ops.gated_group_norm = Norm;
  ops.row_gate = Gate;
  return ops;
}
constexpr DeviceOps kOpsOnHost = OpsOnHost();

}  // namespace
}  // namespace cuda

std::vector<std::string> RecurrentDeviceNames() {
  return {"cuda_host"};
}

// division: the multiprocessors by which rows of a convolution are divided, and the lanes of a norm.
std::unique_ptr<Device> OpenRecurrentDevice(const std::string& /*name*/, int division, std::string* /*reason*/) {
  auto device = std::make_unique<Device>();
  device->ops = &cuda::kOpsOnHost;
  device->context = reinterpret_cast<DeviceContext*>(new cuda::HostDevice{division});
  device->close = [](DeviceContext* context) { delete &cuda::Of(context); };
  return device;
}

}  // namespace dunlin::kernels
