// SPDX-License-Identifier: Apache-2.0
// `dunlin bench WHAT`: measures cases against the machine's roofline.
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_name.h"
#include "engine/request/adapter_lease.h"
#include "engine/request/fp8_recipe.h"
#include "engine/request/speculation.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/device_kind.h"
#include "kernels/api/dtype.h"
#include "server/commands/command.h"
#include "server/models/devices.h"
#include "tools/bench/benches.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"
#include "tools/cli/finite_range.h"

namespace dunlin::server {
namespace {

using tools::bench::BenchOptions;

constexpr char kFields[] =
    "Each run measures the roofs of the threads it uses before the first case and after the last, or with --json "
    "after\n"
    "each case that ends three seconds or more after the last measurement, and takes the higher of the two:\n"
    "multiply-adds per second in FP32 and BF16, on CUDA also in FP16 and FP8 (on the fastest unit for each, which the\n"
    "record names), and read bandwidth from a buffer far larger than the caches. On CUDA, calls are enqueued in\n"
    "groups, and the time of a call is its share of the group's. Combinations that the device does not support are\n"
    "skipped, with the reason on stderr. Fields of a case:\n"
    "  median_us, min_us   over at least 5 timed calls (iterations), fewer only if --max-seconds cuts them short\n"
    "  gflops              operations per second; a multiply-add counts as two. Causal attention counts the visible\n"
    "                      (query, key) pairs\n"
    "  gbytes_per_s        bytes that must be moved: the weights of a GEMM; Q, K, V and the output of dense\n"
    "                      attention; the KV pages of paged attention; weights and KV pages of a model step\n"
    "  roof, roof_us       the limiting roof, and the time at that roof\n"
    "  roofline_ratio      roof_us / median_us: 1 is the roof\n"
    "  gemm_roofline_ratio of layer, eager: the same for its products alone, which take gemm_us\n"
    "  paired_ratio        median of the same ratio, each group of calls against the roof measured just before and\n"
    "                      after it, which stays comparable on a shared machine; null where not measured\n"
    "  variant_peak_ratio  the same against the multiply-add rate of the instructions that this CPU variant uses; on\n"
    "                      CUDA of mma.sync\n"
    "  workspace_bytes     memory needed only during the call; resident_bytes: memory held between calls (inputs,\n"
    "                      weights, output)\n"
    "  output_sha256       hash of the whole output of the last timed call; equal for equal seed and variant\n"
    "  max_abs_error_fp64  over error_samples outputs, against FP64 on the same inputs\n"
    "Exit status: 0 measured, 1 refused, failed, or a result outside its error bound, 2 usage error.";

struct BenchRow {
  const char* name;
  const char* description;
  const char* examples;
  absl::Status (*run)(tools::bench::Session*);
  bool shape;  // has --shape
  bool backend;
  bool attention;            // has --kv-heads, --causal, --softcap, --alibi
  bool model;                // has --model, --batch, --prompt-tokens, --new-tokens
  bool layer;                // has --scale, --fp8-recipe
  bool grammar;              // has --grammar, --adapters, --rank, --speculation, --tensor
  bool int8_inputs = false;  // has --int8-inputs
};
constexpr BenchRow kBenches[] = {
    {"gemm", "out = A W^T: --case gpt2, llama-1b, llama-8b, gemv, small-batch, or --shape M,N,K",
     "  dunlin bench gemm --case gemv --precision bf16 --threads 1\n  dunlin bench gemm --shape 256,3072,768 --json\n",
     tools::bench::BenchGemm, true, false, false, false, false, false, true},
    {"experts",
     "The products of a mixture's experts: --case mixtral-8x7b, qwen3-30b, or --shape T,E,C,N,K (tokens that choose C "
     "of "
     "E)",
     "  dunlin bench experts --case qwen3-30b --precision bf16\n"
     "  dunlin bench experts --shape 32,8,2,1024,512 --json\n",
     tools::bench::BenchExperts, true, false, false, false, false, false},
    {"attention",
     "softmax(Q K^T) V: --case sdpa, xformers (dense), prefill, decode, latent (over KV pages), or --shape B,H,S,D",
     "  dunlin bench attention --case sdpa --precision fp16,bf16\n"
     "  dunlin bench attention --case decode --shape 8,32,2048,64 --kv-heads 8 --precision fp8 --json\n"
     "  dunlin bench attention --case prefill --shape 1,16,8192,256 --kv-heads 8 --softcap 50\n",
     tools::bench::BenchAttention, true, true, true, false, false, false},
    {"model", "A model through its runtime: --case gpt2-124m, llama-1b (random weights) or --model DIR",
     "  dunlin bench model --case gpt2-124m --batch 1,8 --precision bf16,fp8\n"
     "  dunlin bench model --model models/demo --prompt-tokens 64 --new-tokens 64 --json\n"
     "  dunlin bench model --case llama-1b --batch 32 --adapters 1,8,32 --rank 16\n"
     "  dunlin bench model --case llama-1b --tensor 2 --threads 2\n",
     tools::bench::BenchModel, false, true, false, true, false, true, true},
    {"layer", "Layer modules, eager and fused: --case te (Linear to TransformerLayer), nanogpt (an attention block)",
     "  dunlin bench layer --case te --scale 0.25 --precision bf16,fp8 --fp8-recipe all\n"
     "  dunlin bench layer --case nanogpt --precision fp16 --json\n",
     tools::bench::BenchLayer, false, true, false, false, true, false},
    {"sampling", "A token of each of many rows of logits: --case plain, top-k, top-p, top-k-p, or --shape R,V",
     "  dunlin bench sampling --threads 2\n  dunlin bench sampling --case top-k-p --shape 64,32000 --json\n",
     tools::bench::BenchSampling, true, false, false, false, false, false},
    {"recurrent",
     "Operations of recurrent layers: --case delta-decode, delta-prefill, mamba-*, conv-*, and --shape S,T (sequences, "
     "tokens)",
     "  dunlin bench recurrent --case delta-decode --threads 2\n"
     "  dunlin bench recurrent --case mamba-prefill --shape 4,512 --json\n",
     tools::bench::BenchRecurrent, true, false, false, false, false, false},
    {"encoder", "Text embeddings: --case bert-base, minilm-l6 (random weights) or --model DIR",
     "  dunlin bench encoder --case bert-base --batch 32 --prompt-tokens 128 --precision bf16\n",
     tools::bench::BenchEncoder, false, true, false, true, false, false},
};

absl::Status RunBench(const BenchRow& row, BenchOptions options) {
  options.device_options = ResolveDeviceOptions(std::move(options.device_options));
  absl::StatusOr<std::unique_ptr<tools::bench::Session>> session = tools::bench::Session::Open(options);
  if (!session.ok()) return session.status();
  if (absl::Status status = row.run(session->get()); !status.ok()) return status;
  return (*session)->Finish();
}

void AddCudaOptions(CLI::App* subcommand, BenchOptions* options) {
  subcommand->add_option("--cuda-module", options->device_options.cuda_module,
                         "Shared library with the CUDA backend; auto: libdunlin_cuda.so next to the binary");
  subcommand->add_option("--cublas-library", options->device_options.cublas_library,
                         "The cuBLASLt library, as compute.cublas_library in the server's config");
  subcommand->add_option("--cublas-algorithm-cache", options->device_options.cublas_algorithm_cache,
                         "As compute.cublas_algorithm_cache in the server's config");
  subcommand->add_flag("!--no-sm90-kernels", options->device_options.sm90_kernels,
                       "As compute.sm90_kernels: false in the server's config");
  subcommand->add_flag("!--no-cuda-graphs", options->device_options.cuda_graphs,
                       "As compute.cuda_graphs: false in the server's config");
}

// Of streams that decode in two ways, in turns.
void AddStreamOptions(CLI::App* subcommand, BenchOptions* options) {
  subcommand->add_option("--adapters", options->adapters,
                         "Decode with so many low-rank adapters in the batch and without, in turns: one or more "
                         "numbers, comma-separated; against_base is the ratio");
  subcommand->add_option("--rank", options->rank, "Rank of these adapters")
      ->check(CLI::Range(1, engine::kMaxAdapterRank));
  subcommand->add_flag("--grammar", options->grammar,
                       "Decode under a JSON schema and without one, in turns: against_unconstrained is the ratio");
  subcommand
      ->add_option("--speculation", options->speculation,
                   "off, or auto or a number: decode with that many guesses a step and without, in turns, a text that "
                   "repeats itself and a random one: against_plain is the ratio")
      ->check([](const std::string& word) {
        const bool known = engine::MaxDraftsNamed(word).has_value();
        return known ? std::string() : absl::StrCat("is ", word, "; limit is ", engine::kSpeculationWords);
      });
}

void AddOptions(const BenchRow& row, CLI::App* subcommand, BenchOptions* options) {
  subcommand->add_option("--case", options->case_name,
                         "A built-in case; default: all of them, unless --shape is given");
  subcommand->add_option(
      "--precision,--dtype", options->precision,
      kernels::JoinNames(kernels::kPrecisionTable, ", ") + ": one or more, comma-separated, or all" +
          (row.run == tools::bench::BenchGemm ? "; also formats of integer codes, as q4_super_min" : ""));
  std::vector<std::string> devices = kernels::NamesOf(kernels::kDeviceKindTable);
  devices.emplace_back("auto");
  subcommand
      ->add_option("--device", options->device,
                   kernels::JoinNames(kernels::kDeviceKindTable, ", ") + ", or auto: CUDA if available, else the CPU")
      ->check(CLI::IsMember(devices));
  AddCudaOptions(subcommand, options);
  subcommand
      ->add_option("--threads", options->device_options.num_threads,
                   "Compute threads; 0: every CPU available to the process")
      ->check(CLI::Range(0, 1024));
  subcommand->add_option("--cpu-variant", options->device_options.cpu_variant, "CPU variant to use; default: the best");
  subcommand->add_option("--seed", options->seed, "Seed of the random inputs");
  subcommand
      ->add_option("--max-seconds", options->max_seconds,
                   "Time limit of the timed part of a case; below 0.1 the roofs are inaccurate too")
      ->check(cli::FiniteRange(0.001, 600.0));
  subcommand->add_flag("--json", options->json,
                       "Print one JSON object per line, each as soon as its case is measured, instead of a table");
  if (row.shape) {
    subcommand->add_option("--shape", options->shape, "Comma-separated integers that replace the shape of the case");
  }
  if (row.backend) {
    subcommand->add_option("--backend", options->backend,
                           kernels::JoinNames(kernels::kAttentionBackendTable, ", ") +
                               ": one or more, comma-separated, or all; default: the case's own or AUTO's");
  }
  if (row.attention) {
    subcommand->add_option("--kv-heads", options->kv_heads, "KV heads; 0: as many as heads")
        ->check(CLI::Range(0, 4096));
    subcommand->add_flag("--causal", options->causal, "Each query attends to the keys up to its own position");
    subcommand->add_option("--softcap", options->softcap, "Soft cap of the scores, of prefill and decode; 0: none")
        ->check(cli::FiniteRange(0.0, 1e6));
    subcommand->add_flag("--alibi", options->alibi, "ALiBi, of prefill and decode, with the slopes of its paper");
  }
  if (row.model) {
    subcommand->add_option("--model", options->model, "A model directory instead of a named shape");
    subcommand->add_option("--batch", options->batch, "Concurrent sequences: one or more, comma-separated");
    subcommand->add_option("--prompt-tokens", options->prompt_tokens, "Prompt tokens per sequence")
        ->check(CLI::Range(1, 65536));
    subcommand->add_option("--new-tokens", options->new_tokens, "Generated tokens per sequence")
        ->check(CLI::Range(2, 65536));
  }
  if (row.int8_inputs) {
    subcommand->add_flag("--int8-inputs", options->int8_inputs,
                         "Products of integer codes round their inputs to 8 bits, as models[].int8_inputs; CPU only");
  }
  if (row.grammar) {
    AddStreamOptions(subcommand, options);
    subcommand
        ->add_option("--tensor", options->tensor, "Ranks that the model is divided among, as models[].parallel.tensor")
        ->check(CLI::Range(1, 64));
  }
  if (row.layer) {
    subcommand
        ->add_option("--scale", options->scale,
                     "Scales the case down: 1 is the published size, less where memory does not hold it")
        ->check(cli::FiniteRange(0.001, 1.0));
    subcommand->add_option("--fp8-recipe", options->fp8_recipe,
                           kernels::JoinNames(engine::kFp8RecipeTable, ", ") +
                               ": one or more, comma-separated, or all; default: the case's own");
  }
}

int Report(const absl::Status& status, bool json) {
  if (status.ok()) return kExitOk;
  const std::string code = engine::StatusName(status.code());
  const std::string message(status.message());
  if (json) {
    std::cout << tools::bench::Json{{"error",
                                     {{"code", code}, {"message", message}, {"details", tools::bench::Json::array()}}}}
                     .dump()
              << "\n";
  }
  std::cerr << code << ": " << message << "\n";
  return kExitFailed;
}

}  // namespace

std::function<int()> SetUpBench(CLI::App* subcommand) {
  subcommand->require_subcommand(1);
  auto chosen = std::make_shared<std::function<int()>>();
  for (const BenchRow& row : kBenches) {
    CLI::App* what = subcommand->add_subcommand(row.name, row.description);
    what->footer(std::string("Examples:\n") + row.examples + kFields);
    auto options = std::make_shared<BenchOptions>();
    options->device_options.cuda_module = options->device_options.cublas_library = "auto";
    AddOptions(row, what, options.get());
    what->final_callback([chosen, options, &row] {
      *chosen = [options, &row] { return Report(RunBench(row, *options), options->json); };
    });
  }
  return [chosen] { return (*chosen)(); };
}

}  // namespace dunlin::server
