// SPDX-License-Identifier: Apache-2.0
// What the operations of recurrent layers refuse before they run. Not of devices that find out while they run, as the
// fake one does.
#include <gtest/gtest.h>

#include <limits>

#include "kernels/api/recurrent.h"
#include "kernels/api/ssm_scan.h"
#include "tests/kernels/recurrent/recurrent_batch.h"
#include "tests/kernels/recurrent/recurrent_devices.h"

namespace dunlin::kernels::testing_recurrent {
namespace {

class RecurrentRefusals : public RecurrentDevices {
 protected:
  // Long enough for every array of a call.
  std::vector<float> floats_ = RandomMatrix(1, 4096, 19);
  std::vector<float> state_ = std::vector<float>(4096);
  std::vector<float> out_ = std::vector<float>(1024);
  Batch batch_ = BatchOf({{0, 1}});
};

TEST_P(RecurrentRefusals, DeltaRule) {
  const DeltaShape shape{2, 4, 8, 12};
  const DeltaScanParams valid{.shape = shape,
                              .in = floats_.data(),
                              .gates = floats_.data(),
                              .rate = floats_.data(),
                              .dt_bias = floats_.data(),
                              .state = {state_.data(), shape.value_heads * DeltaHeadFloats(shape), batch_.slots.data()},
                              .sequences = batch_.spans.data(),
                              .num_sequences = 1,
                              .out = out_.data()};
  const auto status_with = [&](auto change) {
    DeltaScanParams params = valid;
    change(&params);
    return device_->ops->delta_scan(device_->context, params);
  };
  EXPECT_EQ(status_with([](DeltaScanParams*) {}), KernelStatus::kOk);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { --p->state.slot_stride; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->shape.value_heads = 3; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->gates = nullptr; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->beta_scale = 2.0F; }), KernelStatus::kOk);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->beta_scale = 3.0F; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->decay_bound = -5.0F; }), KernelStatus::kInvalidArgument);
  // With a decay of each row a row of gates has no a.
  EXPECT_EQ(status_with([](DeltaScanParams* p) { p->gates_stride = 4; }), KernelStatus::kInvalidArgument);
  const float* steps = floats_.data();
  const auto own_decays = [&](auto change) {
    return status_with([&](DeltaScanParams* p) {
      p->steps = steps;
      p->gates_stride = 4;
      change(p);
    });
  };
  EXPECT_EQ(own_decays([](DeltaScanParams*) {}), KernelStatus::kOk);
  EXPECT_EQ(own_decays([](DeltaScanParams* p) { p->decay_bound = -5.0F; }), KernelStatus::kOk);
  EXPECT_EQ(own_decays([](DeltaScanParams* p) { p->decay_bound = 5.0F; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(own_decays([](DeltaScanParams* p) { p->gates_stride = 3; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(own_decays([](DeltaScanParams* p) { p->shape.key_dim = kChannelDecaysMax + 1; }),
            KernelStatus::kInvalidArgument);
}

TEST_P(RecurrentRefusals, RowGate) {
  const auto status_with = [&](int32_t width) {
    const RowGateParams params{out_.data(), floats_.data(), nullptr, 2, 45, width};
    return device_->ops->row_gate(device_->context, params);
  };
  EXPECT_EQ(status_with(9), KernelStatus::kOk);
  EXPECT_EQ(status_with(4), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with(0), KernelStatus::kInvalidArgument);
}

TEST_P(RecurrentRefusals, Mamba2Scan) {
  const SsmShape shape{6, 2, 16, 8};
  const SsmScanParams valid{.shape = shape,
                            .in = floats_.data(),
                            .step = floats_.data(),
                            .step_stride = shape.num_heads + 3,
                            .rate = floats_.data(),
                            .step_bias = floats_.data(),
                            .skip = floats_.data(),
                            .step_min = 0.0F,
                            .step_max = std::numeric_limits<float>::infinity(),
                            .state = {state_.data(), shape.num_heads * SsmHeadFloats(shape), batch_.slots.data()},
                            .sequences = batch_.spans.data(),
                            .num_sequences = 1,
                            .out = out_.data()};
  const auto status_with = [&](auto change) {
    SsmScanParams params = valid;
    change(&params);
    return device_->ops->ssm_scan(device_->context, params);
  };
  EXPECT_EQ(status_with([](SsmScanParams*) {}), KernelStatus::kOk);
  EXPECT_EQ(status_with([](SsmScanParams* p) { --p->state.slot_stride; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](SsmScanParams* p) { p->shape.num_groups = 4; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](SsmScanParams* p) { p->step_stride = 5; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](SsmScanParams* p) { p->step_max = -1.0F; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](SsmScanParams* p) { p->skip = nullptr; }), KernelStatus::kInvalidArgument);
}

TEST_P(RecurrentRefusals, ASigmoidBeforeTheNorm) {
  GatedGroupNormParams params{.in = floats_.data(),
                              .gate = floats_.data(),
                              .gate_stride = 8,
                              .rows = nullptr,
                              .weight = floats_.data(),
                              .epsilon = 1e-5F,
                              .num_groups = 2,
                              .columns = 4,
                              .out = out_.data(),
                              .num_rows = 2,
                              .sigmoid_gate = true};
  EXPECT_EQ(device_->ops->gated_group_norm(device_->context, params), KernelStatus::kOk);
  params.gate_first = true;
  EXPECT_EQ(device_->ops->gated_group_norm(device_->context, params), KernelStatus::kInvalidArgument);
}

TEST_P(RecurrentRefusals, Convolution) {
  const CausalConvParams valid{.in = floats_.data(),
                               .in_stride = 8,
                               .weight = floats_.data(),
                               .channels = 8,
                               .taps = kConvTapsMax,
                               .state = {state_.data(), 56, batch_.slots.data()},
                               .sequences = batch_.spans.data(),
                               .num_sequences = 1,
                               .out = out_.data()};
  const auto status_with = [&](auto change) {
    CausalConvParams params = valid;
    change(&params);
    return device_->ops->causal_conv(device_->context, params);
  };
  EXPECT_EQ(status_with([](CausalConvParams*) {}), KernelStatus::kOk);
  EXPECT_EQ(status_with([](CausalConvParams* p) { p->taps = kConvTapsMax + 1; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](CausalConvParams* p) { --p->state.slot_stride; }), KernelStatus::kInvalidArgument);
  EXPECT_EQ(status_with([](CausalConvParams* p) { p->in_stride = 7; }), KernelStatus::kInvalidArgument);
}

DUNLIN_FOR_EVERY_RECURRENT_DEVICE(RecurrentRefusals);

}  // namespace
}  // namespace dunlin::kernels::testing_recurrent
