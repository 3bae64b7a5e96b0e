// The one binary: picks a command, runs it, ends with its status.
#include <CLI/CLI.hpp>
#include <functional>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "server/commands/command.h"
#include "server/version.h"

namespace {

struct CommandRow {
  const char* name;
  const char* description;
  const char* footer;
  dunlin::server::CommandSetup set_up;
};

const CommandRow kCommands[] = {
    {"serve", "Serve the models of a config over gRPC and HTTP",
     "Example:\n  dunlin serve --config configs/demo.json --set listen.grpc=127.0.0.1:0\n"
     "Prints one line on stdout once ready: READY grpc=ADDRESS http=ADDRESS. Logs go to stderr.\n"
     "SIGTERM drains and exits with 0; a second one ends at once.",
     dunlin::server::SetUpServe},
    {"generate", "Stream a completion from a server",
     "Examples:\n  dunlin generate --address 127.0.0.1:50051 --model demo \"Once upon a time\"\n"
     "  dunlin generate --address 127.0.0.1:50051 --model demo --attention-backend math --precision fp8 --json "
     "\"Hello\"",
     dunlin::server::SetUpGenerate},
    {"embed", "Get the vectors of texts from a server",
     "Examples:\n  dunlin embed --address 127.0.0.1:50051 --model encoder \"A dunlin flies\" \"A knot too\"\n"
     "  dunlin embed --address 127.0.0.1:50051 --model encoder --pooling cls --normalize --precision bf16 --json "
     "\"Hello\"",
     dunlin::server::SetUpEmbed},
    {"load", "Load a server with the requests of many clients, and measure what they see",
     "Examples:\n"
     "  dunlin load --model demo --concurrency 32 --duration 20 --input-len 32 --output-len 64\n"
     "  dunlin load --model demo --rate 50 --duration 30 --slo ttft_ms=200,itl_ms=50 --check 'goodput_ratio>=0.99'\n"
     "  dunlin load --model demo --rate 20 --mix flash:bf16=3,math:fp32=1 --json result.json\n"
     "  dunlin load --protocol openai --address 127.0.0.1:8000 --model gpt2 --concurrency 8 --chat\n"
     "What is measured, in milliseconds; nearest-rank percentiles, off by at most 0.4%:\n"
     "  from        open loop (--rate): the moment at which the schedule wanted a request sent, so that a slow server\n"
     "              (or client) cannot hide by delaying the next one; closed loop: the moment it was sent\n"
     "  TTFT        to the first message with a token, of completed requests\n"
     "  ITL         between two messages with tokens, of all requests. A message of several tokens counts once, with\n"
     "              its whole gap, as in vllm bench serve; mean_tokens_per_message says how many they were\n"
     "  TPOT        (last token - first token) / (tokens - 1), of completed requests with two tokens or more\n"
     "  E2E (e2el)  to the end of the call, of completed requests\n"
     "  refusal     from when it was really sent to the status of a refused request: RESOURCE_EXHAUSTED, UNAVAILABLE\n"
     "              with the server's own reason, HTTP 429 or 503, before any token. Reasons are listed apart\n"
     "  send delay  from intended to really sent: what the load generator itself adds. When it is large, the\n"
     "              generator is the bottleneck and the rest says little about the server\n"
     "  beyond engine  E2E from really sent, less the time from first scheduled to finished that the server reports\n"
     "  duration    from the first counted request to the end of the last; rates are over it. Tokens are those of\n"
     "              completed requests: token ids with gRPC; with openai `usage`, else max_tokens of an answer that\n"
     "              ended for its length, else its chunks with text\n"
     "  goodput     completed requests a second that meet every limit of --slo; itl_ms is the longest gap of a "
     "request.\n"
     "              goodput_ratio is their part of all sent, without those that --cancel-after cancelled\n"
     "  failed      any end but OK, a refusal, a passed deadline (deadline), --cancel-after (cancelled) and running "
     "still\n"
     "              at the end (unfinished)\n"
     "Exit status: 0 done, 1 refused, a --check or --max-errors missed, or interrupted, 2 wrong usage.",
     dunlin::server::SetUpLoad},
    {"inspect", "Show what a model directory would load: sizes, and which profiles fit and why not",
     "Example:\n  dunlin inspect models/demo --json", dunlin::server::SetUpInspect},
    {"calibrate", "Measure a model's linear inputs over a text: the constants of the FP8 recipe static",
     "Examples:\n  dunlin calibrate models/demo --text corpus.txt --out models/demo-static\n"
     "  dunlin serve --config configs/demo.json --set models.0.path=models/demo-static \\\n"
     "    --set models.0.fp8.recipe=static\n"
     "Writes dunlin_input_scales.json into --out, beside links to (or copies of) the model's files.\n"
     "Exit status: 0 written, 1 refused or failed, 2 wrong usage.",
     dunlin::server::SetUpCalibrate},
    {"bench", "Measure kernels and models against this machine's own roofs",
     "Examples:\n  dunlin bench gemm --case gemv --precision bf16 --threads 1\n"
     "  dunlin bench attention --case sdpa --json\n"
     "  dunlin bench model --case gpt2-124m --batch 1,8\n"
     "Exit status: 0 measured, 1 refused, failed or a result out of its error bound, 2 wrong usage.",
     dunlin::server::SetUpBench},
    {"healthcheck", "Ask a server for its health; exit status 0 when it serves",
     "Example:\n  dunlin healthcheck --address 127.0.0.1:50051", dunlin::server::SetUpHealthcheck},
    {"schema", "Print the JSON Schema of the config (configs/schema.json)",
     "Example:\n  dunlin schema > configs/schema.json", dunlin::server::SetUpSchema},
};

}  // namespace

int main(int argc, char** argv) {
  // Debian's absl looks for cycles at every lock, ours and gRPC's: a tenth of a refusal's cost. The tests keep it on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Dunlin: an inference server for transformer models", "dunlin");
  app.set_version_flag("--version", dunlin::server::kVersion);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;
  for (const CommandRow& row : kCommands) {
    CLI::App* subcommand = app.add_subcommand(row.name, row.description);
    subcommand->footer(row.footer);
    commands.emplace_back(subcommand, row.set_up(subcommand));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? dunlin::server::kExitOk : dunlin::server::kExitUsage;
  }
  for (const auto& [subcommand, run] : commands) {
    if (subcommand->parsed()) return run();
  }
  return dunlin::server::kExitUsage;
}
