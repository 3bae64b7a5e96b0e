// SPDX-License-Identifier: Apache-2.0
// The dunlin binary: parses the command line, runs the chosen command and returns its exit status.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/commands/command.h"
#include "server/process/start_check.h"
#include "server/process/version.h"
#include "server/text_worker/worker_main.h"
#include "tools/cli/load_options.h"

namespace {

struct CommandRow {
  const char* name;
  const char* description;
  const char* footer;
  dunlin::cli::CommandSetup set_up;
  bool status_is_result = false;  // whatever becomes of what it prints
  bool is_client = false;         // of a server, by gRPC
};

const CommandRow kCommands[] = {
    {"serve", "Serve model directories, or the models of a config, over gRPC and HTTP",
     "Examples:\n  dunlin serve models/demo\n  dunlin serve models/a models/b --precision bf16,fp8 --grpc 127.0.0.1:0\n"
     "  dunlin serve --config configs/demo.json --set listen.grpc=127.0.0.1:0\n"
     "Prints one line on stdout once ready: READY grpc=ADDRESS http=ADDRESS. Logs go to stderr.\n"
     "SIGTERM drains and exits with status 0; a second one, 0.2 s later or more, exits at once with status 1.\n"
     "Exit status 70: a device failed; 71: a stall lasted; 72: a thread did not stop in time.",
     dunlin::server::SetUpServe, true},
    {"config", "Print the config that `dunlin serve DIR...` uses",
     "Example:\n  dunlin config models/demo > my.json && dunlin serve --config my.json", dunlin::server::SetUpConfig},
    {"generate", "Stream a completion from a server", dunlin::cli::kGenerateFooter, dunlin::cli::SetUpGenerate, false,
     true},
    {"chat", "Chat with a model of a server", dunlin::cli::kChatFooter, dunlin::cli::SetUpChat, false, true},
    {"embed", "Embed texts on a server and print the vectors",
     "Examples:\n  dunlin embed --address 127.0.0.1:50051 --model encoder \"A dunlin flies\" \"A knot too\"\n"
     "  dunlin embed --address 127.0.0.1:50051 --model encoder --pooling cls --normalize --precision bf16 --json "
     "\"Hello\"",
     dunlin::cli::SetUpEmbed, false, true},
    {"load", "Generate load on a server and report latency and throughput", dunlin::cli::kLoadFooter,
     dunlin::cli::SetUpLoad, false, true},
    {"inspect", "Show a model's sizes, and which profiles this machine supports for it and why not the others",
     "Example:\n  dunlin inspect models/demo --json", dunlin::server::SetUpInspect},
    {"calibrate", "Measure the input scales of the static FP8 recipe by running a model over a text",
     "Examples:\n  dunlin calibrate models/demo --text corpus.txt --out models/demo-static\n"
     "  dunlin serve --config configs/demo.json --set models.0.path=models/demo-static \\\n"
     "    --set models.0.fp8.recipe=static\n"
     "Writes dunlin_input_scales.json into --out, next to copies of the model's files.\n"
     "Exit status: 0 written, 1 refused or failed, 2 usage error.",
     dunlin::server::SetUpCalibrate},
    {"quantize", "Write a checkpoint with weights of 4 or 8 bits",
     "Examples:\n  dunlin quantize models/llama --to int4 --out models/llama-int4\n"
     "  dunlin quantize models/llama --to int4 --calibration corpus.txt --out models/llama-gptq\n"
     "Writes compressed-tensors' format pack-quantized, symmetric, with the model's other files beside it.\n"
     "Exit status: 0 written, 1 refused or failed, 2 usage error.",
     dunlin::server::SetUpQuantize},
    {"bench", "Benchmark kernels and models against this machine's measured roofline",
     "Examples:\n  dunlin bench gemm --case gemv --precision bf16 --threads 1\n"
     "  dunlin bench attention --case sdpa --json\n"
     "  dunlin bench model --case gpt2-124m --batch 1,8\n"
     "Exit status: 0 measured, 1 refused, failed, or a result outside its error bound, 2 usage error.",
     dunlin::server::SetUpBench},
    {"healthcheck", "Check a server's health; exit status 0 if it is serving",
     "Example:\n  dunlin healthcheck --address 127.0.0.1:50051", dunlin::cli::SetUpHealthcheck, true, true},
    {"key", "Make keys for access.keys_file",
     "Examples:\n  dunlin key new --name team-a --file keys.json\n"
     "  dunlin key new --name prometheus --permission metrics --file keys.json\n"
     "  dunlin key new --name team-b --model demo --precision bf16 --expires-in-days 90\n"
     "The key is printed once; the file has its hash alone. A key is withdrawn by removing its hash, or its whole "
     "entry; a "
     "running server follows the file.",
     dunlin::server::SetUpKey},
    {"schema", "Print the JSON Schema of the config (configs/schema.json)",
     "Example:\n  dunlin schema > configs/schema.json", dunlin::server::SetUpSchema},
};

// Printed when no command is given.
constexpr char kFirstSteps[] =
    "Dunlin serves transformer models over gRPC and HTTP. To begin:\n"
    "  dunlin serve DIR      serves a Hugging Face model directory, or a .gguf file, on 127.0.0.1:50051 and :8080\n"
    "  dunlin generate --address 127.0.0.1:50051 --model NAME \"Once upon a time\"\n"
    "                        asks it; NAME is the last part of DIR\n"
    "  dunlin chat           chats with it, if it has a chat template\n"
    "  dunlin inspect DIR    says what a model needs and supports\n"
    "  dunlin --help         lists every command; dunlin COMMAND --help its options\n";

bool IsCommand(std::string_view word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands),
                     [word](const CommandRow& row) { return word == row.name; });
}

// The exit status of a command that ended with `status`: a full disk, say, may have what it printed, a key, not
// complete.
int StatusAfterOutput(int status) {
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0) return status;
  std::fputs("dunlin: the standard output cannot be written\n", stderr);
  return status == dunlin::cli::kExitOk ? dunlin::cli::kExitFailed : status;
}

// A file or a socket that is opened where a standard stream is closed would get what is printed: the log, or a key.
// What stands in its place cannot be read, or written.
void FillStandardDescriptors(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    (void)open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // takes the lowest one that is free
  }
}

// Before the constructors of libraries, of which some open descriptors.
__attribute__((section(".preinit_array"), used)) void (*const kFillFirst)(int, char**,
                                                                          char**) = &FillStandardDescriptors;

int RunCommand(int argc, char** argv) {
  if (dunlin::server::IsTextWorker(argc, argv)) return dunlin::server::RunTextWorker(argv);
  if (argc <= 1) {
    std::fputs(kFirstSteps, stderr);
    return dunlin::cli::kExitUsage;
  }
  if (argv[1][0] != '-' && !IsCommand(argv[1])) {
    std::fprintf(stderr, "%s is not a command; dunlin --help lists every command\n", argv[1]);
    return dunlin::cli::kExitUsage;
  }
  // Debian's Abseil checks every lock, ours and gRPC's, for deadlock cycles, which costs 10% of the time of a refusal.
  // The tests leave the check on.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app("Dunlin: an inference server for transformer models", "dunlin");
  app.set_version_flag("--version", dunlin::server::kVersion);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, std::function<int()>>> commands;  // in the order of the rows
  for (const CommandRow& row : kCommands) {
    CLI::App* subcommand = app.add_subcommand(row.name, row.description);
    subcommand->footer(row.footer);
    commands.emplace_back(subcommand, row.set_up(subcommand));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return StatusAfterOutput(app.exit(error) == 0 ? dunlin::cli::kExitOk : dunlin::cli::kExitUsage);
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!commands[i].first->parsed()) continue;
    if (const absl::Status check = kCommands[i].is_client ? dunlin::server::CheckClient() : absl::OkStatus();
        !check.ok()) {
      std::fprintf(stderr, "dunlin %s: %s\n", kCommands[i].name, std::string(check.message()).c_str());
      return dunlin::cli::kExitFailed;
    }
    const int status = commands[i].second();
    return kCommands[i].status_is_result ? status : StatusAfterOutput(status);
  }
  return dunlin::cli::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its limit (ulimit -f) is a write that fails
  try {
    return RunCommand(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dunlin: %s\n", error.what());
    return dunlin::cli::kExitFailed;
  }
}
