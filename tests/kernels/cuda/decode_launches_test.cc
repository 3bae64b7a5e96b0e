// SPDX-License-Identifier: Apache-2.0
// The kernels that a decode step of a dense layer launches, counted: the engine's operations on a device that computes
// nothing and fuses what compute capability 9.0 fuses, times the launches that the CUDA device makes of each.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/attention/kernel.h"
#include "kernels/cuda/attention/rounded_outputs.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"
#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

namespace cuda = kernels::cuda;
using kernels::DeviceContext;
using kernels::KernelStatus;

// The table's functions have no state of their own.
struct CountedDevice {
  cuda::DeviceShape shape;
  const kernels::DeviceOps* fake;
  int launches;  // that an operation makes in addition to its first
};
CountedDevice counted;

bool CountedGemmFuses(DeviceContext* /*context*/, const kernels::GemmParams& params) {
  return cuda::FusesPairs(counted.shape.sm_version, params);
}
KernelStatus CountedGemm(DeviceContext* context, const kernels::GemmParams& params) {
  const cuda::GemmKernel* kernel = cuda::FindGemmKernel(counted.shape.sm_version, *params.weight,
                                                        cuda::GemmPhase::kDecode, 0, cuda::OutputsOf(params));
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(params.decode_rows, params.num_rows);
  // A second kernel merges slices of K.
  counted.launches += kernel->divides_depth && cuda::PartFloatsPerRow(*params.weight, true) > 0 ? 1 : 0;
  return counted.fake->gemm(context, params);
}
KernelStatus CountedRotate(DeviceContext* context, const kernels::RotateAndStoreKvParams& params) {
  counted.launches += params.joint_norms ? 1 : 0;
  return counted.fake->rotate_and_store_kv(context, params);
}
bool CountedAttentionFuses(DeviceContext* /*context*/, const kernels::PagedAttentionParams& params) {
  return cuda::RoundsOutputsOn(counted.shape, params);
}
// A merge completes a launch whose keys are divided.
KernelStatus CountedAttend(DeviceContext* context, const kernels::PagedAttentionParams& params) {
  const cuda::AttentionCall call = cuda::CallOf(params);
  const cuda::AttentionKernel* kernel =
      cuda::FindKernel(cuda::AttentionKernels(), counted.shape, params.backend, cuda::AttentionPhase::kDecode,
                       kernels::TraitsOf(params), &call);
  EXPECT_NE(kernel, nullptr);
  EXPECT_EQ(params.num_one_token_sequences, params.num_sequences);
  counted.launches += cuda::PartBytes(kernel->geometry, call, counted.shape) > 0 ? 1 : 0;
  return counted.fake->paged_attention(context, params);
}

// Llama 3.2 1B's layer.
ModelConfig LlamaConfig(int32_t num_layers) {
  ModelConfig config = SmallLlamaConfig();
  config.num_layers = num_layers;
  config.hidden_dim = 2048;
  config.attention.num_heads = 32;
  config.attention.num_kv_heads = 8;
  config.attention.head_dim = 64;
  config.attention.scale = 0.125F;
  config.mlp.ffn_dim = 8192;
  config.rotary.dim = 64;
  config.rotary.inv_freq.assign(32, 0.5F);
  config.max_context = 8192;
  return config;
}

class DecodeLaunchesTest : public ::testing::Test {
 protected:
  // Of a step of `rows` sequences with `keys` each.
  int LaunchesOf(const ModelConfig& config, Precision precision, int32_t rows, int32_t keys) {
    FakeDeviceLog log;
    const FakeSupport support;
    const auto device = MakeFakeDevice(&log, &support);
    counted = {{132, 227 * 1024, 90}, device->ops, 0};
    kernels::DeviceOps ops = *device->ops;
    ops.gemm_fuses = CountedGemmFuses;
    ops.gemm = CountedGemm;
    ops.rotate_and_store_kv = CountedRotate;
    ops.attention_fuses = CountedAttentionFuses;
    ops.paged_attention = CountedAttend;
    device->ops = &ops;
    EngineOptions options;
    options.max_tokens_per_step = 32;
    options.max_sequences = 32;
    options.kv_memory_bytes = size_t{64} << 20;
    const MemoryPlan plan = *PlanMemory(config, {precision}, *device, options);
    const auto buffers = *StepBuffers::Allocate(plan, config.position_constants(), device.get());
    const ExecutionProfile profile{.precision = precision};
    PlanBuilder builder(profile);
    for (int32_t i = 0; i < rows; ++i) {
      builder.Add(1, 1, keys - 1, 1, std::vector<PageId>(static_cast<size_t>(keys / 8 + 1), 1), true);
    }
    const StepPlan step = builder.plan();
    StepInputs inputs(plan);
    inputs.Stage(step, step.sub_batches[0], KvLayoutOf(config, precision, false).tokens_per_page);
    EXPECT_EQ(inputs.Upload(buffers.get()), KernelStatus::kOk);
    const PrecisionWeights weights = WeightsOf(config, precision);
    ForwardPass pass(config, weights, profile, inputs.pass_inputs(), buffers->layers());
    EXPECT_TRUE(pass.RunLayers().ok());
    return static_cast<int>(log.lines.size()) + counted.launches;
  }
  // Of one more layer.
  int PerLayer(Precision precision, int32_t rows, int32_t keys, bool qk_norm = false) {
    ModelConfig one = LlamaConfig(1);
    ModelConfig two = LlamaConfig(2);
    one.attention.qk_norm = two.attention.qk_norm = qk_norm;
    return LaunchesOf(two, precision, rows, keys) - LaunchesOf(one, precision, rows, keys);
  }

 private:
  static PrecisionWeights WeightsOf(const ModelConfig& config, Precision precision) {
    static const float bias = 0.0F;
    const kernels::WeightFormat format = kernels::Traits(precision).format;
    PrecisionWeights weights = ShapesOf(config, kernels::Traits(format).compute, &bias);
    for (LayerWeights& layer : weights.layers) {
      for (LinearWeights* matrix : {&layer.qkv, &layer.attention_out, &layer.mlp_up, &layer.mlp_down}) {
        matrix->weight.format = format;
      }
      layer.mlp_up.weight.gated = config.mlp.gated;
    }
    return weights;
  }
};

// Norm, QKV into rotation and pages, attention, output product, norm, gate and up into their activation, down product.
// Keys of more than a split have a merge.
TEST_F(DecodeLaunchesTest, ALayerOf16BitsTakesSeven) {
  for (const Precision precision : {Precision::kBf16, Precision::kFp16}) {
    EXPECT_EQ(PerLayer(precision, 1, 900), 7) << Name(precision);
    EXPECT_EQ(PerLayer(precision, 32, 900), 7) << Name(precision);
    EXPECT_EQ(PerLayer(precision, 1, 4000), 8) << Name(precision);
  }
}

// In addition what attention gives is quantised, and the activation is, by rows whose scale no block knows alone.
TEST_F(DecodeLaunchesTest, ALayerOfFp8TakesNine) {
  EXPECT_EQ(PerLayer(Precision::kFp8, 1, 900), 9);
  EXPECT_EQ(PerLayer(Precision::kFp8, 32, 900), 9);
  EXPECT_EQ(PerLayer(Precision::kFp8, 32, 4000), 10) << "and a merge";
}

// Norms of heads stand between the product and the rotation.
TEST_F(DecodeLaunchesTest, NormsOfHeadsTakeOneMore) {
  EXPECT_EQ(PerLayer(Precision::kBf16, 1, 900, true), 8);
}

// Rotation and activation are kernels of their own.
TEST_F(DecodeLaunchesTest, ALayerOfCodesTakesNine) {
  EXPECT_EQ(PerLayer(Precision::kInt4, 1, 900), 9);
  EXPECT_EQ(PerLayer(Precision::kInt8, 32, 900), 9);
}

}  // namespace
}  // namespace dunlin::engine
