// SPDX-License-Identifier: Apache-2.0
// What attention over pages of the CUDA device refuses, before a launch.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/attention/gathered_keys.h"
#include "kernels/cuda/attention/paged_attention.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::cuda {
namespace {

using testing::HeadShape;
using testing::PagedBatch;
using testing::PoisonedMemory;

constexpr DeviceShape kRefusingDevice{132, 227 * 1024, 90};
constexpr HeadShape kRefusedShape = {4, 2, 64};

struct Refusal {
  const char* what;
  std::function<void(PagedAttentionParams*)> change;
  KernelStatus status = KernelStatus::kInvalidArgument;
};

class PagedRefusals : public ::testing::Test {
 protected:
  // Of rows that choose their first key, or of all keys.
  KernelStatus Run(DType dtype, bool selects, const std::function<void(PagedAttentionParams*)>& change) {
    const PagedBatch batch(dtype, kRefusedShape, {{1, 70, 1}, {2, 0, 5}}, 1, testing::kCudaPages);
    std::vector<float> out(batch.out_floats());
    PagedAttentionParams params = batch.Params(AttentionBackend::kEfficient, out.data());
    PagedAttentionPlan plan = batch.Plan();
    const std::vector<uint32_t> bits(6 * 3, 1);
    if (selects) {
      params.selection = {.bits = bits.data(), .stride = 3, .most = 1};
      plan.selected_keys = 1;
    }
    PoisonedMemory workspace(PagedWorkspaceBytes(kRefusingDevice, params.backend, plan));
    params.workspace = workspace.data();
    params.workspace_bytes = workspace.size();
    change(&params);
    return RunPagedAttention(kRefusingDevice, params, nullptr);
  }
  void ExpectRefused(bool selects, const std::vector<Refusal>& refusals) {
    EXPECT_EQ(Run(DType::kBF16, selects, [](PagedAttentionParams*) {}), KernelStatus::kOk);
    for (const Refusal& refusal : refusals) {
      EXPECT_EQ(Run(DType::kBF16, selects, refusal.change), refusal.status) << refusal.what;
    }
  }

  const float slope_ = 0.0F;
};

TEST_F(PagedRefusals, SelectionsThatTheContractDoesNotHave) {
  ExpectRefused(
      true,
      {{"no keys", [](PagedAttentionParams* params) { params->selection.most = 0; }},
       {"by KV head", [](PagedAttentionParams* params) { params->selection.head_stride = 3; }},
       {"rows of fewer words than keys", [](PagedAttentionParams* params) { params->selection.stride = 2; }},
       {"a window", [](PagedAttentionParams* params) { params->window = 4; }},
       {"an encoder's", [](PagedAttentionParams* params) { params->causal = false; }},
       {"slopes", [this](PagedAttentionParams* params) { params->alibi_slopes = &slope_; }},
       {"a bias", [this](PagedAttentionParams* params) { params->bias.data = &slope_; }},
       {"no room for lists", [](PagedAttentionParams* params) { params->workspace_bytes = GatheredListBytes(1) - 1; },
        KernelStatus::kOutOfMemory}});
  const auto nothing = [](PagedAttentionParams*) {};
  EXPECT_EQ(Run(DType::kF8E4M3, false, nothing), KernelStatus::kOk);
  EXPECT_EQ(Run(DType::kF8E4M3, true, nothing), KernelStatus::kInvalidArgument);
}

TEST_F(PagedRefusals, BoundsThatCannotBe) {
  for (const bool selects : {false, true}) {
    ExpectRefused(
        selects, {{"rows", [](PagedAttentionParams* params) { params->num_rows = -1; }},
                  {"no rows", [](PagedAttentionParams* params) { params->num_rows = 0; }},
                  {"sequences", [](PagedAttentionParams* params) { params->num_sequences = -1; }},
                  {"sequences of one token", [](PagedAttentionParams* params) { params->num_one_token_sequences = 3; }},
                  {"tokens", [](PagedAttentionParams* params) { params->max_query_tokens = -1; }},
                  {"keys", [](PagedAttentionParams* params) { params->max_kv_tokens = params->max_query_tokens - 1; }},
                  {"pages", [](PagedAttentionParams* params) { params->num_pages = 0; }},
                  {"layer", [](PagedAttentionParams* params) { params->layer = params->layout.shape.num_layers; }},
                  {"queries", [](PagedAttentionParams* params) { --params->query_stride; }},
                  {"values", [](PagedAttentionParams* params) { params->layout.shape.v_head_dim = 32; }},
                  {"output", [](PagedAttentionParams* params) { params->out = nullptr; }}});
  }
}

// Only their number is read.
TEST_F(PagedRefusals, NoSequencesAreNoWork) {
  for (const bool selects : {false, true}) {
    EXPECT_EQ(Run(DType::kBF16, selects,
                  [](PagedAttentionParams* params) {
                    params->num_sequences = params->num_one_token_sequences = params->num_pages = 0;
                    params->sequences = nullptr;
                    params->page_table = nullptr;
                  }),
              KernelStatus::kOk);
  }
}

TEST_F(PagedRefusals, WhatNoKernelTakesIsUnsupported) {
  EXPECT_EQ(Run(DType::kBF16, false,
                [](PagedAttentionParams* params) {
                  params->backend = AttentionBackend::kFlash;
                  params->layout = MakeKvLayout(DType::kF32, params->layout.shape);
                }),
            KernelStatus::kUnsupported);
}

}  // namespace
}  // namespace dunlin::kernels::cuda
