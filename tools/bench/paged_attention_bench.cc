// SPDX-License-Identifier: Apache-2.0
// Attention over KV pages, as a model's layers run it. The pool has enough layers, with the same keys and values, to
// exceed the caches; calls cycle through them, so that pages come from memory as in a model.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "absl/strings/str_join.h"
#include "tools/bench/attention_bench.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

constexpr int32_t kChunkTokens = 256;  // stored per call
constexpr int32_t kLayersMax = 256;
constexpr uint64_t kQueryTensor = 0;
constexpr uint64_t kKvTensor = 1;   // and up: one for each chunk of each sequence
constexpr float kQueryGain = 8.0F;  // so that scores spread over a few units

double PageBytes(const PagedProblem& p, int32_t layers) {
  return static_cast<double>(
      kernels::MakeKvLayout(p.dtype, {.num_layers = layers, .num_kv_heads = p.num_kv_heads, .head_dim = p.head_dim})
          .page_bytes);
}

class PagedRun {
 public:
  PagedRun(Session* session, const PagedProblem& problem)
      : session_(*session),
        device_(session->device()),
        p_(problem),
        pages_per_sequence_((problem.context + kernels::TokensPerPage(problem.dtype) - 1) /
                            kernels::TokensPerPage(problem.dtype)) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status AllocateMemory();
  void PlacePages();
  absl::Status StorePages();
  absl::Status Attend(int64_t call);
  Proof Check(const std::vector<float>& out) const;
  Work WorkOf() const;
  int32_t kv_width() const { return p_.num_kv_heads * p_.head_dim; }
  int32_t query_width() const { return p_.num_heads * p_.head_dim; }
  // Queries (unused), keys, values of a chunk of a sequence: [count, 3 * kv_width].
  std::vector<float> Chunk(int32_t sequence, int32_t first, int32_t count) const;

  Session& session_;
  kernels::Device* const device_;
  const PagedProblem p_;
  const int32_t pages_per_sequence_;
  kernels::KvLayout layout_{};
  std::vector<float> query_;
  std::vector<int32_t> page_table_;
  std::vector<kernels::SequenceSpan> spans_;
  DeviceMemory pool_;
  DeviceMemory query_memory_;
  DeviceMemory table_memory_;
  DeviceMemory span_memory_;
  DeviceMemory out_;
  DeviceMemory workspace_;
  size_t workspace_bytes_ = 0;
};

std::vector<float> PagedRun::Chunk(int32_t sequence, int32_t first, int32_t count) const {
  const auto width = static_cast<size_t>(kv_width());
  std::vector<float> rows(static_cast<size_t>(count) * 3 * width);
  const uint64_t tensor =
      kKvTensor + static_cast<uint64_t>(sequence) * static_cast<uint64_t>(p_.context) + static_cast<uint64_t>(first);
  FillRows(StreamOf(session_.options().seed, tensor), static_cast<size_t>(p_.head_dim), rows);
  return rows;
}

absl::Status PagedRun::AllocateMemory() {
  const double one_layer = PageBytes(p_, 1) * p_.sequences * pages_per_sequence_;
  const int32_t layers = std::clamp(
      static_cast<int32_t>(static_cast<double>(session_.bytes_beyond_caches()) / one_layer) + 1, 1, kLayersMax);
  layout_ =
      kernels::MakeKvLayout(p_.dtype, {.num_layers = layers, .num_kv_heads = p_.num_kv_heads, .head_dim = p_.head_dim});
  const kernels::PagedAttentionPlan plan{.traits = {.dtype = p_.dtype,
                                                    .head_dim = p_.head_dim,
                                                    .num_heads = p_.num_heads,
                                                    .num_kv_heads = p_.num_kv_heads},
                                         .max_query_tokens = p_.queries,
                                         .max_kv_tokens = p_.context};
  workspace_bytes_ = device_->ops->paged_attention_workspace(device_->context, p_.backend, plan);
  const auto rows = static_cast<size_t>(p_.sequences) * static_cast<size_t>(p_.queries);
  const size_t row_bytes = rows * static_cast<size_t>(query_width()) * sizeof(float);
  const size_t pages = static_cast<size_t>(p_.sequences) * static_cast<size_t>(pages_per_sequence_);
  struct Part {
    DeviceMemory* memory;
    size_t bytes;
    const char* what;
  };
  const Part parts[] = {{&pool_, pages * layout_.page_bytes, "the KV pages"},
                        {&query_memory_, row_bytes, "the queries"},
                        {&out_, row_bytes, "the output"},
                        {&table_memory_, pages * sizeof(int32_t), "the page table"},
                        {&span_memory_, static_cast<size_t>(p_.sequences) * sizeof(kernels::SequenceSpan), "spans"},
                        {&workspace_, workspace_bytes_, "the workspace"}};
  double total = 0.0;
  for (const Part& part : parts) total += static_cast<double>(part.bytes);
  if (absl::Status status = CheckMemory("--shape", total); !status.ok()) return status;
  for (const Part& part : parts) {
    auto memory = DeviceMemory::Allocate(device_, part.bytes, part.what);
    if (!memory.ok()) return memory.status();
    *part.memory = *std::move(memory);
  }
  return absl::OkStatus();
}

// Shuffles the pages over the pool, as they are after some time of serving.
void PagedRun::PlacePages() {
  page_table_.resize(static_cast<size_t>(p_.sequences) * static_cast<size_t>(pages_per_sequence_));
  std::iota(page_table_.begin(), page_table_.end(), 0);
  std::shuffle(page_table_.begin(), page_table_.end(), std::mt19937_64(session_.options().seed));
  for (int32_t i = 0; i < p_.sequences; ++i) {
    spans_.push_back({.query_start = i * p_.queries,
                      .query_len = p_.queries,
                      .first_position = p_.context - p_.queries,
                      .page_table_row = i});
  }
}

absl::Status PagedRun::StorePages() {
  const size_t row_floats = 3 * static_cast<size_t>(kv_width());
  auto staged = DeviceMemory::Allocate(device_, kChunkTokens * row_floats * sizeof(float), "a chunk");
  if (!staged.ok()) return staged.status();
  auto places = DeviceMemory::Allocate(device_, size_t{2} * kChunkTokens * sizeof(int32_t), "the places of a chunk");
  if (!places.ok()) return places.status();
  std::vector<int32_t> host_places(size_t{2} * kChunkTokens);  // pages, then slots
  kernels::RotateAndStoreKvParams params{};
  params.qkv = staged->floats();
  params.num_heads = p_.num_kv_heads;
  params.kv_pool = pool_.data();
  params.layout = layout_;
  params.token_page = static_cast<const int32_t*>(places->data());
  params.token_slot = params.token_page + kChunkTokens;
  for (int32_t sequence = 0; sequence < p_.sequences; ++sequence) {
    for (int32_t first = 0; first < p_.context; first += kChunkTokens) {
      params.num_tokens = std::min(kChunkTokens, p_.context - first);
      const std::vector<float> rows = Chunk(sequence, first, params.num_tokens);
      for (int32_t i = 0; i < params.num_tokens; ++i) {
        const int32_t index = sequence * pages_per_sequence_ + (first + i) / layout_.tokens_per_page;
        host_places[static_cast<size_t>(i)] = page_table_[static_cast<size_t>(index)];
        host_places[static_cast<size_t>(kChunkTokens + i)] = (first + i) % layout_.tokens_per_page;
      }
      absl::Status status = places->Write(host_places.data(), places->bytes());
      for (params.layer = 0; params.layer < layout_.shape.num_layers; ++params.layer) {
        if (status.ok()) status = staged->Write(rows.data(), rows.size() * sizeof(float));
        if (status.ok()) status = StatusOf(device_->ops->rotate_and_store_kv(device_->context, params), "store kv");
      }
      if (!status.ok()) return status;
    }
  }
  // The staged input must live until it has been read.
  return StatusOf(device_->ops->synchronize(device_->context), "store kv");
}

absl::Status PagedRun::Prepare() {
  absl::Status status = AllocateMemory();
  if (!status.ok()) return status;
  PlacePages();
  status = StorePages();
  if (!status.ok()) return status;
  query_.resize(query_memory_.bytes() / sizeof(float));
  FillRows(StreamOf(session_.options().seed, kQueryTensor), static_cast<size_t>(p_.head_dim), query_);
  for (float& value : query_) value *= kQueryGain;
  status = query_memory_.Write(query_.data(), query_memory_.bytes());
  if (status.ok()) status = table_memory_.Write(page_table_.data(), page_table_.size() * sizeof(int32_t));
  if (status.ok()) status = span_memory_.Write(spans_.data(), spans_.size() * sizeof(kernels::SequenceSpan));
  return status;
}

absl::Status PagedRun::Attend(int64_t call) {
  return StatusOf(device_->ops->paged_attention(
                      device_->context, {.backend = p_.backend,
                                         .query = query_memory_.floats(),
                                         .query_stride = query_width(),
                                         .out = out_.floats(),
                                         .kv_pool = pool_.data(),
                                         .layout = layout_,
                                         .layer = static_cast<int32_t>(call % layout_.shape.num_layers),
                                         .num_heads = p_.num_heads,
                                         .page_table = static_cast<const int32_t*>(table_memory_.data()),
                                         .page_table_stride = pages_per_sequence_,
                                         .sequences = static_cast<const kernels::SequenceSpan*>(span_memory_.data()),
                                         .num_sequences = p_.sequences,
                                         .max_query_tokens = p_.queries,
                                         .max_kv_tokens = p_.context,
                                         .scale = 1.0F / std::sqrt(static_cast<float>(p_.head_dim)),
                                         .workspace = workspace_.data(),
                                         .workspace_bytes = workspace_bytes_}),
                  "paged attention");
}

// Bytes: K and V of one layer once, which a call reads whatever its queries.
Work PagedRun::WorkOf() const {
  const double pairs = SeenPairs(p_.queries, p_.context, true) * p_.sequences * p_.num_heads;
  const double token_bytes = static_cast<double>(layout_.layer_bytes) / layout_.tokens_per_page;
  return {
      .flops = 4.0 * pairs * p_.head_dim, .bytes = token_bytes * p_.context * p_.sequences, .peak = PeakOf(p_.dtype)};
}

// A few rows and heads of the first and the last sequence.
Proof PagedRun::Check(const std::vector<float>& out) const {
  std::vector<Sample> samples;
  const auto dim = static_cast<size_t>(p_.head_dim);
  for (const int64_t sequence : SampleIndices(p_.sequences, 2)) {
    std::vector<float> rows;
    for (int32_t first = 0; first < p_.context; first += kChunkTokens) {
      const auto chunk = Chunk(static_cast<int32_t>(sequence), first, std::min(kChunkTokens, p_.context - first));
      rows.insert(rows.end(), chunk.begin(), chunk.end());
    }
    for (const int64_t head : SampleIndices(p_.num_heads, 4)) {
      const auto kv_head = static_cast<size_t>(head / (p_.num_heads / p_.num_kv_heads));
      for (const int64_t row : SampleIndices(p_.queries, 4)) {
        const size_t at = (static_cast<size_t>(sequence * p_.queries + row) * static_cast<size_t>(p_.num_heads) +
                           static_cast<size_t>(head)) *
                          dim;
        const float* keys = rows.data() + static_cast<size_t>(kv_width()) + kv_head * dim;
        AppendSamples({.query = query_.data() + at,
                       .keys = keys,
                       .values = keys + kv_width(),
                       .stride = 3 * int64_t{kv_width()},
                       .num_keys = p_.context - p_.queries + static_cast<int32_t>(row) + 1,
                       .head_dim = p_.head_dim,
                       .scale = 1.0 / std::sqrt(static_cast<double>(p_.head_dim))},
                      std::span(out).subspan(at, dim), &samples);
      }
    }
  }
  Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples, RelativeBound(p_.dtype));
  RequireWritten(out, &proof);
  return proof;
}

absl::Status PagedRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = out_.Poison();
  if (!status.ok()) return status;
  const absl::StatusOr<Timing> timing =
      Measure(session_.TimingFor(WorkOf()), [this](int64_t call) { return Attend(call); });
  if (!timing.ok()) return timing.status();
  std::vector<float> out(query_.size());
  status = out_.Read(out.data(), out.size() * sizeof(float));
  if (!status.ok()) return status;
  Record record;
  record.op = "paged_attention";
  record.case_name = p_.case_name;
  record.backend = Name(p_.backend);
  record.precision = Name(p_.dtype);
  record.shape = {p_.sequences, p_.num_heads, p_.context, p_.head_dim};
  record.work = WorkOf();
  record.timing = *timing;
  record.workspace_bytes = workspace_bytes_;
  record.resident_bytes = pool_.bytes() + query_memory_.bytes() + out_.bytes();
  record.proof = Check(out);
  record.extra["queries"] = p_.queries;
  record.extra["kv_heads"] = p_.num_kv_heads;
  record.extra["group"] = p_.num_heads / p_.num_kv_heads;
  record.extra["layers_in_turn"] = layout_.shape.num_layers;
  session_.Add(std::move(record));
  return absl::OkStatus();
}

}  // namespace

absl::Status RunPaged(Session* session, const PagedProblem& problem) {
  std::vector<std::string> reasons;
  const kernels::AttentionTraits traits{.dtype = problem.dtype,
                                        .head_dim = problem.head_dim,
                                        .num_heads = problem.num_heads,
                                        .num_kv_heads = problem.num_kv_heads};
  const kernels::Device& device = *session->device();
  if (!device.ops->supports_attention(device.context, problem.backend, traits, &reasons)) {
    return absl::FailedPreconditionError(absl::StrJoin(reasons, "; "));
  }
  return PagedRun(session, problem).Run();
}

}  // namespace dunlin::tools::bench
