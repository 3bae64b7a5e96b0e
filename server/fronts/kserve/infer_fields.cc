// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/infer_fields.h"

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/request/speculation.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/json/draw_param_rows.h"
#include "server/serving/record/errors.h"

namespace dunlin::server::kserve {
namespace {

using V = FieldValue;
using F = InferFields;

// The enumerator of a table's row, by its name in any case; "auto" leaves the choice empty.
template <class Row, size_t kRows, class Enum>
void ReadName(const V& value, const Row (&table)[kRows], Enum Row::*enumerator, std::optional<Enum>* choice) {
  const std::string name = value.Text();
  choice->reset();
  std::string names = "auto";
  for (const Row& row : table) {
    if (absl::EqualsIgnoreCase(name, row.name)) *choice = row.*enumerator;
    absl::StrAppend(&names, ", ", row.name);
  }
  if (!absl::EqualsIgnoreCase(name, "auto") && !choice->has_value()) value.Fail(UnknownName(name, "name"), names);
}

void ReadDevice(const V& v, F* f) {
  ReadName(v, kernels::kDeviceKindTable, &kernels::DeviceKindTraits::kind, &f->request.execution.device);
}
void ReadBackend(const V& v, F* f) {
  ReadName(v, kernels::kAttentionBackendTable, &kernels::AttentionBackendTraits::backend,
           &f->request.execution.attention_backend);
}
void ReadPrecision(const V& v, F* f) {
  ReadName(v, kernels::kPrecisionTable, &kernels::PrecisionTraits::precision, &f->request.execution.precision);
}

std::string SpeculationWord(const Scalar& scalar) {
  if (const bool* flag = std::get_if<bool>(&scalar)) return *flag ? "true" : "false";
  if (const auto* text = std::get_if<std::string>(&scalar)) return *text;
  return std::visit([](const auto& value) { return absl::StrCat(value); }, scalar);
}

void ReadSpeculation(const V& v, F* f) {
  const std::string word = v.elements().size() == 1 ? SpeculationWord(v.elements()[0]) : v.Text();
  if (!v.ok()) return;
  f->request.execution.max_drafts = engine::MaxDraftsNamed(word);
  if (!f->request.execution.max_drafts.has_value()) v.Fail(UnknownName(word, "word"), engine::kSpeculationWords);
}

void ReadPooling(const V& v, F* f) {
  const std::string name = v.Text();
  std::string names;
  for (const engine::Pooling pooling : engine::kPoolings) {
    if (name == engine::Name(pooling)) f->pooling = pooling;
    absl::StrAppend(&names, names.empty() ? "" : ", ", engine::Name(pooling));
  }
  if (!f->pooling.has_value()) v.Fail(UnknownName(name, "name"), names);
}

template <OutputSet kOutput>
void ReadReturn(const V& v, F* f) {
  f->outputs = v.Bool() ? f->outputs | kOutput : f->outputs & ~kOutput;
}

constexpr CallSet kBoth = kGenerate | kEmbed;
constexpr InferFieldRow Listed(const char* name, const char* datatype, void (*read)(const V& v, F* f),
                               CallSet calls = kGenerate) {
  return {{name, FieldUse::kHonoured, read}, calls, datatype};
}
constexpr InferFieldRow Honoured(const char* name, void (*read)(const V& v, F* f), CallSet calls = kGenerate) {
  return Listed(name, nullptr, read, calls);
}
template <OutputSet kOutput>
constexpr InferFieldRow Return(const char* name, const char* datatype) {
  return Listed(name, datatype, ReadReturn<kOutput>);
}
constexpr InferFieldRow Ignored(const char* name) {
  return {{name, FieldUse::kIgnored}, kBoth};
}
constexpr InferFieldRow Refused(const char* name, const char* neutral = "") {
  return {{name, FieldUse::kRefused, nullptr, {}, neutral}, kBoth};
}

engine::DrawParamOverrides* DrawParamsOf(F* fields) {
  return &fields->request.sampling;
}

// Besides the numeric parameters of sampling.
constexpr InferFieldRow kFurtherRows[] = {
    // Triton's vLLM backend. sampling_parameters itself is no field: its members are.
    Listed(
        "text_input", "BYTES", [](const V& v, F* f) { f->text_input = v.Texts(); }, kBoth),
    Listed("stream", "BOOL", [](const V& v, F* f) { f->stream = v.Bool(); }),
    Listed("exclude_input_in_output", "BOOL", [](const V& v, F* f) { f->exclude_input = v.Bool(); }),
    Return<kFinishReason>("return_finish_reason", "BOOL"),
    Return<kCumulativeLogprob>("return_cumulative_logprob", "BOOL"),
    Return<kLogprobs>("return_logprobs", "BOOL"),
    Return<kNumInputTokens>("return_num_input_tokens", "BOOL"),
    Return<kNumOutputTokens>("return_num_output_tokens", "BOOL"),
    Refused("image"),
    Refused("embedding_request"),
    // vLLM's sampling, which TensorRT-LLM's tensors share where the names are the same.
    Honoured("allowed_token_ids", [](const V& v, F* f) { f->request.sampling.allowed_token_ids = v.TokenIds(); }),
    Honoured("bad_words", [](const V& v, F* f) { f->request.sampling.bad_words = v.Texts(); }),
    Honoured("seed", [](const V& v, F* f) { f->request.sampling.seed = v.Unsigned64(); }),
    Honoured("n", [](const V& v, F* f) { f->request.num_outputs = v.Int(); }),
    Honoured("max_tokens", [](const V& v, F* f) { f->request.stopping.max_tokens = v.Int(); }),
    Honoured("min_tokens", [](const V& v, F* f) { f->request.stopping.min_tokens = v.Int(); }),
    Honoured("stop", [](const V& v, F* f) { f->request.stopping.stop = v.Texts(); }),
    Honoured("stop_token_ids", [](const V& v, F* f) { f->request.stopping.stop_token_ids = v.TokenIds(); }),
    Honoured("ignore_eos", [](const V& v, F* f) { f->request.stopping.ignore_eos = v.Bool(); }),
    Honoured("include_stop_str_in_output", [](const V& v, F* f) { f->request.stopping.include_stop = v.Bool(); }),
    Honoured("logprobs", [](const V& v, F* f) { f->request.output.logprobs = v.Int(); }),
    Honoured("skip_special_tokens", [](const V& v, F* f) { f->request.output.keep_special_tokens = !v.Bool(); }),
    Honoured("truncate_prompt_tokens", [](const V& v, F* f) { f->request.truncate_prompt_tokens = v.Int(); }),
    Refused("spaces_between_special_tokens", "1"),
    Refused("use_beam_search", "0"),
    Refused("length_penalty", "1"),
    // TensorRT-LLM's ensemble.
    Honoured("stop_words", [](const V& v, F* f) { f->request.stopping.stop = v.Texts(); }),
    Honoured("random_seed", [](const V& v, F* f) { f->request.sampling.seed = v.Unsigned64(); }),
    Honoured("min_length", [](const V& v, F* f) { f->request.stopping.min_tokens = v.Int(); }),
    Honoured("num_return_sequences", [](const V& v, F* f) { f->request.num_outputs = v.Int(); }),
    Honoured("end_id", [](const V& v, F* f) { f->request.stopping.stop_token_ids = v.TokenIds(); }),
    Honoured("guided_decoding_guide_type", [](const V& v, F* f) { f->guide_type = v.Text(); }),
    Honoured("guided_decoding_guide", [](const V& v, F* f) { f->guide = v.Text(); }),
    Return<kCumLogProbs | kOutputLogProbs>("return_log_probs", nullptr),
    Ignored("pad_id"),
    Refused("beam_width", "1"),
    // Dynamo.
    Honoured("streaming", [](const V& v, F* f) { f->stream = v.Bool(); }),
    // Embeddings.
    Listed(
        "dimensions", "INT32", [](const V& v, F* f) { f->dimensions = v.Int(); }, kEmbed),
    Listed(
        "normalize", "BOOL", [](const V& v, F* f) { f->normalize = v.Bool(); }, kEmbed),
    Listed(
        "truncate", "BOOL", [](const V& v, F* f) { f->truncate = v.Bool(); }, kEmbed),
    Listed("pooling", "BYTES", ReadPooling, kEmbed),
    // The server's own.
    Honoured("device", ReadDevice, kBoth),
    Honoured("attention_backend", ReadBackend, kBoth),
    Honoured("precision", ReadPrecision, kBoth),
    Honoured(
        "allow_fallback", [](const V& v, F* f) { f->request.execution.allow_fallback = v.Bool(); }, kBoth),
    Honoured("speculation", ReadSpeculation),
    Honoured("priority", [](const V& v, F* f) { f->request.priority = v.Int(); }),
    Honoured("cache_salt", [](const V& v, F* f) { f->request.cache_salt = v.Text(); }),
    // Reserved by the protocol.
    Honoured(
        "triton_enable_empty_final_response", [](const V& v, F* f) { f->empty_final_response = v.Bool(); }, kBoth),
    Refused("sequence_id", "0"),
    Refused("sequence_start", "0"),
    Refused("sequence_end", "0"),
    Refused("timeout", "0"),
    Ignored("binary_data_output"),
    Ignored("headers"),
};

constexpr auto kFieldRows = [] {
  constexpr auto kDrawParams = DrawParamRows<F, V, DrawParamsOf>();
  std::array<InferFieldRow, kDrawParams.size()> rows{};
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = {kDrawParams[i], kGenerate};
  return Joined(rows, kFurtherRows);
}();

}  // namespace

void RefuseField(const FieldValue& value, std::string_view /*reason*/, std::string_view neutral) {
  float number = 0.0F;
  if (!absl::SimpleAtof(engine::AbslView(neutral), &number)) return value.Fail("is not supported", "");
  const bool* flag = value.elements().size() == 1 ? std::get_if<bool>(value.elements().data()) : nullptr;
  const float asked = flag == nullptr ? value.Number() : (*flag ? 1.0F : 0.0F);
  if (asked != number) value.Fail("is not supported", absl::StrCat(number, ", or no such field"));
}

std::span<const InferFieldRow> InferFieldRows() {
  return kFieldRows;
}

void ReadInferField(const FieldValue& value, CallSet call, InferFields* fields) {
  for (const InferFieldRow& row : kFieldRows) {
    if (value.name() != row.name || (row.calls & call) == 0) continue;
    const FieldRow<InferFields, FieldValue>& field = row;
    return ReadField(value, field, fields);
  }
  value.Fail("is not a field of this request", "");
}

}  // namespace dunlin::server::kserve
