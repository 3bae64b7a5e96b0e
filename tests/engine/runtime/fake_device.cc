// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/runtime/fake_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dunlin::kernels {

struct DeviceContext {
  engine::FakeDeviceLog* log;
  const engine::FakeSupport* support;
};

}  // namespace dunlin::kernels

namespace dunlin::engine {
namespace {

using kernels::DeviceContext;
using kernels::KernelStatus;

KernelStatus Note(DeviceContext* context, std::string line) {
  FakeDeviceLog& log = *context->log;
  log.lines.push_back(std::move(line));
  return static_cast<int>(log.lines.size()) - 1 == log.fail_at ? KernelStatus::kDeviceError : KernelStatus::kOk;
}

std::string Shape(const kernels::PackedWeight& weight) {
  return absl::StrCat("[", weight.out_features, ",", weight.in_features, "]");
}

void* Allocate(DeviceContext* context, size_t bytes) {
  FakeDeviceLog& log = *context->log;
  if (bytes > log.bytes_left) return nullptr;
  log.bytes_left -= bytes;
  log.bytes_held += bytes;
  return std::calloc(1, bytes);
}

void Release(DeviceContext* context, void* memory, size_t bytes) {
  context->log->bytes_held -= bytes;
  std::free(memory);
}

KernelStatus Copy(DeviceContext*, void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return KernelStatus::kOk;
}

bool SupportsAttention(const DeviceContext* context, kernels::AttentionBackend backend, const kernels::AttentionTraits&,
                       std::vector<std::string>* reasons) {
  const auto refusal = context->support->refusals.find(backend);
  if (refusal == context->support->refusals.end()) return true;
  if (reasons != nullptr) reasons->push_back(refusal->second);
  return false;
}

KernelStatus Attend(DeviceContext* context, const kernels::PagedAttentionParams& params) {
  context->log->one_token_sequences = params.num_one_token_sequences;
  context->log->attention_rows = params.num_rows;
  context->log->num_pages = params.num_pages;
  return Note(context,
              absl::StrCat("attention ", kernels::Name(params.backend), " layer ", params.layer, " sequences ",
                           params.num_sequences, params.window > 0 ? absl::StrCat(" window ", params.window) : "",
                           params.causal ? "" : " bidirectional",
                           params.softcap > 0.0F ? absl::StrCat(" softcap ", params.softcap) : "",
                           params.next != nullptr ? " rounded" : ""));
}

// Each row's token is its position.
KernelStatus Sample(DeviceContext* context, const kernels::SampleParams& params) {
  for (int32_t i = 0; i < params.num_rows; ++i) {
    params.out[i].valid = true;
    params.out[i].token.token_id = params.rows[i].position;
  }
  return Note(context, absl::StrCat("sample rows ", params.num_rows));
}

// Every row takes the first experts; the others are idle.
KernelStatus Route(DeviceContext* context, const kernels::RouteExpertsParams& params) {
  for (int32_t i = 0; i < params.rule.num_experts; ++i) {
    const bool active = i < params.rule.num_chosen;
    params.experts[i] = {.first = std::min(i, params.rule.num_chosen) * params.num_rows,
                         .count = active ? params.num_rows : 0,
                         .num_decode = active ? params.decode_rows : 0};
  }
  return Note(context, absl::StrCat("route rows ", params.num_rows, " experts ", params.rule.num_experts));
}

// A graph is the number of lines at its end.
kernels::DeviceGraph* EndGraph(DeviceContext* context) {
  (void)Note(context, "end graph");
  if (context->log->refuses_graphs) return nullptr;
  return reinterpret_cast<kernels::DeviceGraph*>(context->log->lines.size());
}

constexpr kernels::DeviceOps kFakeOps = {
    .kind = kernels::DeviceKind::kCpu,
    .prefill_matches_decode = [](const kernels::DeviceContext*, kernels::Precision, bool) { return true; },
    .supports_model = [](const kernels::ModelTraits&, std::vector<std::string>*) { return true; },
    .allocate = Allocate,
    .release = Release,
    .copy_to_device = Copy,
    .copy_to_host = Copy,
    .allocate_host = [](DeviceContext*, size_t bytes) { return std::calloc(1, bytes); },
    .release_host = [](DeviceContext*, void* memory, size_t) { std::free(memory); },
    .synchronize = [](DeviceContext* context) { return Note(context, "synchronize"); },
    .memory =
        [](const DeviceContext* context) { return kernels::DeviceMemory{.bytes_held = context->log->bytes_held}; },
    .create_event = [](DeviceContext* context) { return reinterpret_cast<kernels::DeviceEvent*>(context); },
    .destroy_event = [](DeviceContext*, kernels::DeviceEvent*) {},
    .record_event = [](DeviceContext* context, kernels::DeviceEvent*) { return Note(context, "record event"); },
    .wait_event = [](DeviceContext* context, kernels::DeviceEvent*) { return Note(context, "wait for event"); },
    .supports_graphs = [](const DeviceContext* context) { return context->support->graphs; },
    .begin_graph = [](DeviceContext* context) { return Note(context, "begin graph") == KernelStatus::kOk; },
    .end_graph = EndGraph,
    .launch_graph =
        [](DeviceContext* context, kernels::DeviceGraph* graph) {
          return Note(context, absl::StrCat("launch graph ", reinterpret_cast<uintptr_t>(graph)));
        },
    .destroy_graph =
        [](DeviceContext* context, kernels::DeviceGraph* graph) {
          (void)Note(context, absl::StrCat("destroy graph ", reinterpret_cast<uintptr_t>(graph)));
        },
    .packed_weight_bytes = [](kernels::WeightFormat, int64_t rows, int64_t columns,
                              int32_t) { return static_cast<size_t>(rows * columns) * 4; },
    .pack_weight = [](DeviceContext*, const kernels::PackWeightParams&) { return KernelStatus::kOk; },
    .activation_bytes =
        [](kernels::Precision precision, int32_t rows, int32_t columns) {
          const size_t element = precision == kernels::Precision::kFp32 ? 4 : 2;
          return static_cast<size_t>(rows) * static_cast<size_t>(columns) * element;
        },
    .gemm =
        [](DeviceContext* context, const kernels::GemmParams& params) {
          return Note(
              context,
              absl::StrCat("gemm rows ", params.num_rows,
                           params.decode_rows > 0 ? absl::StrCat(" decode ", params.decode_rows) : "", " weight ",
                           Shape(*params.weight), params.bias != nullptr ? " bias" : "",
                           params.residual != nullptr ? " residual" : "", params.next != nullptr ? " activated" : "",
                           params.heads != nullptr ? " stores heads" : "", params.deterministic ? "" : " any order"));
        },
    .gemm_fuses = [](DeviceContext* context, const kernels::GemmParams&) { return context->support->gemm_fuses; },
    .grouped_gemm =
        [](DeviceContext* context, const kernels::GroupedGemmParams& params) {
          return Note(context,
                      absl::StrCat("grouped gemm rows ", params.num_rows, " groups ", params.num_groups, " weight ",
                                   Shape(params.weights[0].weight), params.weights[0].bias != nullptr ? " bias" : "",
                                   params.next != nullptr ? " activated" : ""));
        },
    .batched_gemm =
        [](DeviceContext* context, const kernels::BatchedGemmParams& params) {
          return Note(context, absl::StrCat("batched gemm rows ", params.num_rows, " batches ", params.num_batches,
                                            " weight ", Shape(params.weights[0].weight)));
        },
    .add_low_rank =
        [](DeviceContext* context, const kernels::AddLowRankParams& params) {
          return Note(context, absl::StrCat("add low rank uses ", params.num_uses, " of ", params.uses[0].num_pairs,
                                            " columns ", params.in_features));
        },
    .set_tuning = [](DeviceContext*, bool, std::string*) { return false; },
    .gather_rows =
        [](DeviceContext* context, const kernels::GatherRowsParams& params) {
          return Note(context, absl::StrCat("gather rows ", params.num_rows, " of ", Shape(*params.weight),
                                            params.accumulate ? " accumulate" : "",
                                            params.scale != 1.0F ? absl::StrCat(" times ", params.scale) : ""));
        },
    .norm =
        [](DeviceContext* context, const kernels::NormParams& params) {
          return Note(context, absl::StrCat("norm rows ", params.num_rows, params.rows != nullptr ? " picked" : "",
                                            params.out->data == nullptr ? " plain" : "",
                                            params.rows_out == params.in ? " in place" : "",
                                            params.residual != nullptr ? " residual" : ""));
        },
    .softcap =
        [](DeviceContext* context, const kernels::SoftcapParams& params) {
          return Note(context, absl::StrCat("softcap rows ", params.num_rows, " columns ", params.columns));
        },
    .quantize =
        [](DeviceContext* context, const kernels::QuantizeParams& params) {
          return Note(context, absl::StrCat("quantize columns ", params.out->columns,
                                            params.rows != nullptr ? absl::StrCat(" picked ", params.num_rows) : ""));
        },
    .activate =
        [](DeviceContext* context, const kernels::ActivateParams& params) {
          return Note(context, absl::StrCat("activate columns ", params.out->columns, params.gated ? " gated" : "",
                                            params.out->data == nullptr ? " plain" : ""));
        },
    .add =
        [](DeviceContext* context, const kernels::AddParams& params) {
          return Note(context, absl::StrCat("add columns ", params.columns, params.bias != nullptr ? " bias" : "",
                                            params.residual != nullptr ? " residual" : ""));
        },
    .copy_rows =
        [](DeviceContext* context, const kernels::CopyRowsParams& params) {
          return Note(context, absl::StrCat("copy rows ", params.num_rows, " columns ", params.columns));
        },
    .copy_columns =
        [](DeviceContext* context, const kernels::CopyColumnsParams& params) {
          return Note(context, absl::StrCat("copy columns ", params.columns, " blocks ", params.num_blocks));
        },
    .route_experts = Route,
    .add_weighted_rows =
        [](DeviceContext* context, const kernels::AddWeightedRowsParams& params) {
          return Note(context, absl::StrCat("add weighted rows ", params.num_rows, " columns ", params.columns,
                                            params.places != nullptr ? absl::StrCat(" places ", params.num_places) : "",
                                            params.sigmoid ? " sigmoid" : ""));
        },
    .update_delayed_scaling =
        [](DeviceContext* context, const kernels::DelayedScalingParams& params) {
          for (int32_t input = 0; input < params.num_inputs; ++input) kernels::UpdateDelayedInput(params, input);
          return Note(context, "update delayed scaling");
        },
    .rotary_table =
        [](DeviceContext* context, const kernels::RotaryTableParams& params) {
          return Note(context, absl::StrCat("rotary table dim ", params.rotary_dim));
        },
    .rotate_and_store_kv =
        [](DeviceContext* context, const kernels::RotateAndStoreKvParams& params) {
          return Note(context, absl::StrCat("store kv ", kernels::Name(params.layout.dtype), " layer ", params.layer,
                                            params.query_norm != nullptr && params.key_norm != nullptr ? " normed" : "",
                                            params.cos_sin != nullptr ? " rotated" : ""));
        },
    .causal_conv =
        [](DeviceContext* context, const kernels::CausalConvParams& params) {
          return Note(context,
                      absl::StrCat("causal conv sequences ", params.num_sequences, " channels ", params.channels,
                                   params.in_gate != nullptr && params.out_gate != nullptr ? " gated" : ""));
        },
    .delta_scan =
        [](DeviceContext* context, const kernels::DeltaScanParams& params) {
          return Note(context,
                      absl::StrCat("delta scan sequences ", params.num_sequences, " heads ", params.shape.value_heads));
        },
    .ssm_scan =
        [](DeviceContext* context, const kernels::SsmScanParams& params) {
          return Note(context,
                      absl::StrCat("ssm scan sequences ", params.num_sequences, " heads ", params.shape.num_heads));
        },
    .gated_group_norm =
        [](DeviceContext* context, const kernels::GatedGroupNormParams& params) {
          return Note(context, absl::StrCat("gated norm rows ", params.num_rows, " groups ", params.num_groups,
                                            params.rows != nullptr ? " picked" : ""));
        },
    .row_gate =
        [](DeviceContext* context, const kernels::RowGateParams& params) {
          return Note(context, absl::StrCat("gate rows ", params.num_rows, " columns ", params.columns,
                                            params.width > 1 ? absl::StrCat(" of ", params.width) : "",
                                            params.rows != nullptr ? " picked" : ""));
        },
    .store_index_keys =
        [](DeviceContext* context, const kernels::StoreIndexKeysParams& params) {
          return Note(context, absl::StrCat("store index keys rows ", params.num_tokens, " layer ", params.layer));
        },
    .select_keys =
        [](DeviceContext* context, const kernels::SelectKeysParams& params) {
          return Note(context,
                      absl::StrCat("select keys sequences ", params.num_sequences, " of ", params.max_kv_tokens));
        },
    .rotate_heads =
        [](DeviceContext* context, const kernels::RotateHeadsParams& params) {
          return Note(context, absl::StrCat("rotate heads ", params.num_heads, params.epsilon > 0.0F ? " normed" : "",
                                            params.back ? " back" : ""));
        },
    .compress_keys =
        [](DeviceContext* context, const kernels::CompressKeysParams& params) {
          return Note(context, absl::StrCat("compress keys dim ", params.dim, " rate ", params.entries.rate));
        },
    .select_entries =
        [](DeviceContext* context, const kernels::SelectEntriesParams& params) {
          return Note(context, absl::StrCat("select entries ", params.top_k, " of ", params.max_entries));
        },
    .compressed_attention =
        [](DeviceContext* context, const kernels::CompressedAttentionParams& params) {
          return Note(context, absl::StrCat("compressed attention window ", params.window.window, " rate ",
                                            params.entries.rate));
        },
    .read_streams =
        [](DeviceContext* context, const kernels::ReadStreamsParams& params) {
          return Note(context,
                      absl::StrCat("read streams ", params.num_streams, params.weights == nullptr ? " last" : ""));
        },
    .write_streams =
        [](DeviceContext* context, const kernels::WriteStreamsParams& params) {
          return Note(context, absl::StrCat("write streams ", params.num_streams));
        },
    .supports_attention = SupportsAttention,
    .paged_attention_workspace =
        [](const DeviceContext*, kernels::AttentionBackend backend, const kernels::PagedAttentionPlan& plan) {
          return static_cast<size_t>(plan.max_query_tokens) * (backend == kernels::AttentionBackend::kMath ? 1000 : 10);
        },
    .paged_attention = Attend,
    .attention_fuses = [](DeviceContext* context,
                          const kernels::PagedAttentionParams&) { return context->support->attention_fuses; },
    .dense_attention_workspace = nullptr,
    .dense_attention = nullptr,
    .measure_roofs = nullptr,
    .probe_roof = nullptr,
    .sample_workspace = [](const DeviceContext*, int32_t rows, int32_t) { return static_cast<size_t>(rows); },
    .sample = Sample,
    .take_drawn =
        [](DeviceContext* context, const kernels::TakeDrawnParams& params) {
          return Note(context, absl::StrCat("take drawn tokens ", params.num_tokens));
        },
};

}  // namespace

std::unique_ptr<kernels::Device> MakeFakeDevice(FakeDeviceLog* log, const FakeSupport* support) {
  auto device = std::make_unique<kernels::Device>();
  device->ops = &kFakeOps;
  device->context = new DeviceContext{log, support};
  device->description = "fake";
  device->close = [](DeviceContext* context) { delete context; };
  return device;
}

}  // namespace dunlin::engine
