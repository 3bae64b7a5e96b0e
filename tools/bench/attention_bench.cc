// SPDX-License-Identifier: Apache-2.0
// The attention cases that the options select.
#include "tools/bench/attention_bench.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "tools/bench/benches.h"

namespace dunlin::tools::bench {
namespace {

using kernels::AttentionBackend;
using kernels::DType;
using kernels::Precision;

constexpr int64_t kAttentionDimensionMax = int64_t{1} << 20;

struct CaseShape {
  int32_t batch;
  int32_t heads;
  int32_t kv_heads;
  int32_t tokens;  // keys
  int32_t head_dim;
  int32_t selected = 0;  // keys that a row chooses; 0: all
};
// Llama-1B's, Llama-8B's and Gemma 4's heads.
constexpr CaseShape kPrefillShapes[] = {{1, 32, 8, 512, 64},  {1, 32, 8, 2048, 64},  {1, 32, 8, 4096, 64},
                                        {1, 32, 8, 512, 128}, {1, 32, 8, 2048, 128}, {1, 32, 8, 4096, 128},
                                        {1, 16, 2, 4096, 512}};
// Groups of 1, 4 and 8 query heads to a KV head; Gemma's.
constexpr CaseShape kDecodeShapes[] = {
    {1, 32, 32, 512, 64},  {1, 32, 8, 512, 64},   {1, 32, 8, 8192, 64},  {1, 32, 4, 8192, 64},  {8, 32, 32, 2048, 64},
    {8, 32, 8, 2048, 64},  {8, 32, 4, 2048, 64},  {8, 32, 8, 2048, 128}, {32, 32, 32, 512, 64}, {32, 32, 8, 2048, 64},
    {32, 32, 4, 8192, 64}, {8, 16, 8, 4096, 256}, {8, 16, 2, 4096, 512}};
// DeepSeek V3's rows of all heads, and V3.2's 2,048 chosen ones of many.
constexpr int32_t kChosenKeys = 2048;
constexpr CaseShape kLatentShapes[] = {
    {8, 128, 1, 4096, 576}, {4, 128, 1, 32768, 576}, {4, 128, 1, 32768, 576, kChosenKeys}};
constexpr CaseShape kSdpa[] = {{64, 32, 32, 256, 32}};
constexpr CaseShape kXformers[] = {{32, 16, 16, 512, 64}};

enum class Kind : uint8_t { kDense, kPrefill, kDecode, kLatent };
struct AttentionCase {
  const char* name;
  Kind kind;
  std::span<const CaseShape> shapes;
  bool causal;
  const char* backends;
  Precision precision;  // the default
};
const AttentionCase kAttentionCases[] = {
    {"sdpa", Kind::kDense, kSdpa, false, "all", Precision::kFp16},
    {"xformers", Kind::kDense, kXformers, true, "all", Precision::kFp16},
    {"prefill", Kind::kPrefill, kPrefillShapes, true, "flash", Precision::kBf16},
    {"decode", Kind::kDecode, kDecodeShapes, true, "flash", Precision::kBf16},
    {"latent", Kind::kLatent, kLatentShapes, true, "flash,efficient", Precision::kBf16},
};

// Of a latent row of 576 the first 64 dimensions, which rotate, are not the value's: a ninth, and an even number.
int32_t ValueDimOf(Kind kind, int32_t head_dim) {
  return kind == Kind::kLatent ? head_dim - head_dim / 18 * 2 : 0;
}

// --shape without --case.
constexpr AttentionCase kAnyShape = {"shape", Kind::kDense, {}, false, "all", Precision::kFp32};

struct Choice {
  std::vector<AttentionBackend> backends;
  std::vector<DType> dtypes;
  std::vector<CaseShape> shapes;
};

absl::StatusOr<Choice> ChoiceOf(const AttentionCase& row, const BenchOptions& options) {
  Choice choice;
  const bool paged = row.kind == Kind::kPrefill || row.kind == Kind::kDecode;
  if (!paged && (options.softcap > 0.0 || options.alibi)) {
    return absl::InvalidArgumentError("--softcap and --alibi need --case prefill or decode");
  }
  const auto backends = ParseBackends(options.backend.empty() ? row.backends : options.backend);
  if (!backends.ok()) return backends.status();
  choice.backends = *backends;
  const auto precisions = ParsePrecisions(options.precision, {row.precision});
  if (!precisions.ok()) return precisions.status();
  for (const Precision precision : *precisions) {
    const auto dtype = Traits(Traits(precision).format).dtype;
    const bool wide = row.kind == Kind::kDense || row.kind == Kind::kLatent;
    if (!dtype.has_value() || (wide && precision == Precision::kFp8)) {
      if (options.precision == "all") continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--precision is ", Name(precision),
                       row.kind == Kind::kDense    ? "; dense attention supports fp32, bf16 and fp16"
                       : row.kind == Kind::kLatent ? "; latent attention supports fp32, bf16 and fp16"
                                                   : "; attention over KV pages supports fp32, bf16, fp16 and fp8"));
    }
    choice.dtypes.push_back(*dtype);
  }
  const auto shape = ParseNumbers("--shape", options.shape, 4, kAttentionDimensionMax);
  if (!shape.ok()) return shape.status();
  if (shape->empty()) {
    if (options.kv_heads != 0) return absl::InvalidArgumentError("--kv-heads needs --shape B,H,S,D");
    choice.shapes.assign(row.shapes.begin(), row.shapes.end());
    return choice;
  }
  const auto heads = static_cast<int32_t>((*shape)[1]);
  const int32_t all_heads = row.kind == Kind::kLatent ? 1 : heads;
  const int32_t kv_heads = options.kv_heads == 0 ? all_heads : options.kv_heads;
  if (heads % kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-heads is ", kv_heads, "; it must divide the ", heads, " heads of --shape"));
  }
  choice.shapes = {{static_cast<int32_t>((*shape)[0]), heads, kv_heads, static_cast<int32_t>((*shape)[2]),
                    static_cast<int32_t>((*shape)[3])}};
  if (row.kind == Kind::kLatent) {
    choice.shapes.push_back(choice.shapes[0]);
    choice.shapes[1].selected = std::min(kChosenKeys, (choice.shapes[0].tokens + 3) / 4);
  }
  return choice;
}

absl::Status RunShape(Session* session, const AttentionCase& row, const CaseShape& shape, AttentionBackend backend,
                      DType dtype) {
  if (row.kind == Kind::kDense) {
    return RunDense(session, {row.name, backend, dtype, shape.batch, shape.heads, shape.kv_heads, shape.tokens,
                              shape.head_dim, row.causal || session->options().causal});
  }
  const int32_t queries = row.kind == Kind::kPrefill ? shape.tokens : 1;
  return RunPaged(session, {.case_name = row.name,
                            .backend = backend,
                            .dtype = dtype,
                            .sequences = shape.batch,
                            .num_heads = shape.heads,
                            .num_kv_heads = shape.kv_heads,
                            .queries = queries,
                            .context = shape.tokens,
                            .head_dim = shape.head_dim,
                            .v_head_dim = ValueDimOf(row.kind, shape.head_dim),
                            .softcap = static_cast<float>(session->options().softcap),
                            .alibi = session->options().alibi,
                            .selected = shape.selected});
}

absl::Status RunCase(Session* session, const AttentionCase& row, const Choice& choice) {
  for (const CaseShape& shape : choice.shapes) {
    for (const DType dtype : choice.dtypes) {
      for (const AttentionBackend backend : choice.backends) {
        const std::string what = absl::StrCat(row.name, " ", Name(backend), " ", Name(dtype));
        absl::Status status = session->SkipUnsupported(what, RunShape(session, row, shape, backend, dtype));
        if (!status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchAttention(Session* session) {
  const BenchOptions& options = session->options();
  std::vector<const AttentionCase*> rows;
  std::vector<std::string> known;
  for (const AttentionCase& row : kAttentionCases) {
    known.emplace_back(row.name);
    const bool all = options.case_name.empty() && options.shape.empty();
    if (all || options.case_name == row.name) rows.push_back(&row);
  }
  if (options.case_name.empty() && !options.shape.empty()) rows.push_back(&kAnyShape);
  if (rows.empty()) return UnknownCase(options.case_name, known);
  std::vector<Choice> choices;
  for (const AttentionCase* row : rows) {
    auto choice = ChoiceOf(*row, options);
    if (!choice.ok()) return choice.status();
    choices.push_back(*std::move(choice));
  }
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (absl::Status status = RunCase(session, *rows[i], choices[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench
