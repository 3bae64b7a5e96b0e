// SPDX-License-Identifier: Apache-2.0
// The arrows of docs/architecture.md: server -> engine -> kernels/api, proto only from server, vectors only in kernels;
// and those between the rooms of server, engine and the CPU device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

struct Rule {
  const char* files;      // paths it binds
  const char* except;     // of these, the ones it does not; "" for none
  const char* forbidden;  // a line that matches breaks it
  const char* why;
};

const Rule kRules[] = {
    {"^kernels/", "", R"(#include "(engine|text|server|tools|dunlin/v1|tests)/)", "kernels include nothing above them"},
    {"^kernels/api/", "", R"(#include "kernels/(cpu|cuda|loader|shared)/)",
     "the contract does not know its implementations"},
    {"^kernels/shared/", "", R"(#include "kernels/(cpu|cuda|loader)/)", "what devices share knows none of them"},
    {"^kernels/cuda/", "", R"(#include "kernels/cpu/)", "devices share kernels/api and kernels/shared alone"},
    {"^kernels/cpu/", "", R"(#include "kernels/cuda/)", "devices share kernels/api and kernels/shared alone"},
    {"^engine/", "", R"(#include "(text|server|tools|dunlin/v1|google/rpc|grpc/|tests)/?)",
     "the engine knows no text, no wire and no edge"},
    {"^text/", "", R"(#include "(server|tools|dunlin/v1|google/rpc|grpc/|tests)/?)", "text knows no wire and no edge"},
    {"^server/http_calls/", "", R"(#include ("server/transport/grpc/|<nlohmann))",
     "calls over HTTP know no gRPC and parse no JSON"},
    {"^server/grpc_calls/", "", R"(#include ("server/transport/http/|"dunlin/|<nlohmann))",
     "calls on gRPC know no HTTP and no API"},
    {"^server/fronts/", "", R"(models\(\)\.List\(\))", "fronts tell of the models that a caller may use (ModelsFor)"},
    {"^tools/", "", R"(#include "(server|tests)/)", "tools do not depend on the server"},
    {"^server/", "^server/(commands/|main)", R"(#include "tools/)", "only the commands run tools"},
    {"^(engine|text|server|tools)/", "", R"(#include "kernels/(cpu|cuda|loader|shared)/)",
     "only kernels/api is visible above kernels"},
    {"^(engine|text|kernels)/", "", R"(#include <(grpc|google/protobuf))", "gRPC and protobuf stay at the edge"},
    {"^(kernels|engine|text|server|tools)/", "^kernels/cpu/.*(avx|amx|neon|simd)",
     R"(immintrin|arm_neon|_mm(256|512)_|__m(128|256|512))",
     "vector intrinsics live in the variant folders of kernels/cpu"},
    {"^(kernels|engine|text)/", "", R"(\bgetenv\()", "no environment variable is read below server/"},
    {"^(kernels|engine|text|server|tools)/", "", R"(using namespace )", "names are spelled or aliased"},
    {"^(kernels|engine|text|server|tools)/.*\\.h$", "", R"(^#ifndef .*_H_?$)", "headers use #pragma once"},
    {"^(kernels|engine|text|server|tools)/", "", R"(\b(TODO|FIXME|XXX)\b)", "finish it, or leave it out and say so"},
};

const Rule kThreadRule = {
    "^(kernels|engine|text|server|tools)/",
    "^(kernels/cpu/context/thread_pool|engine/(encoder/encoder_engine|loop/(engine|mask_thread)|model/weights/"
    "weight_reader|parallel/rank_threads|runtime/pool_backing)|"
    "server/(serving/core/text_pool|models/(grammar_lane|model_lifecycle|watchdog|text_loader)|"
    "transport/(http/http_server|grpc/connection_acceptor|zmq/event_publisher)|commands/(serve|quantize)|"
    "process/start_check|observe/(logging/log_queue|tracing/span_exporter))|text/rust/src/grammar/mod|tools/quantize/"
    "gptq)",
    R"(std::(jthread|thread\b(?!::(id|hardware_concurrency))|async\())",
    "threads live in the places that docs/architecture.md lists"};

std::vector<std::string> Violations(const Rule& rule) {
  const std::regex files(rule.files);
  const std::regex except(rule.except);
  const std::regex forbidden(rule.forbidden);
  std::vector<std::string> found;
  for (const SourceFile& file : SourceTree()) {
    if (!std::regex_search(file.path, files)) continue;
    if (*rule.except != '\0' && std::regex_search(file.path, except)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(file.lines[i], forbidden)) {
        found.push_back(file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i]);
      }
    }
  }
  return found;
}

TEST(Layers, SourcesKeepTheRules) {
  for (const Rule& rule : kRules) EXPECT_THAT(Violations(rule), testing::IsEmpty()) << rule.why;
}

TEST(Layers, ThreadsLiveInTheListedPlaces) {
  EXPECT_THAT(Violations(kThreadRule), testing::IsEmpty()) << kThreadRule.why;
}

// A room and the rooms that its files may include, from below to above: a room names only rooms before it, so that
// there is no cycle between folders. A path names the rooms within it, too; of the rows that hold a file, the longest
// path is its room.
struct Room {
  const char* path;
  std::vector<const char*> includes;
};

const Room kRooms[] = {
    {"kernels/cpu/context", {}},
    {"kernels/cpu/activation", {"kernels/cpu/context"}},
    {"kernels/cpu/simd", {}},
    {"kernels/cpu/rows", {"kernels/cpu/activation", "kernels/cpu/context", "kernels/cpu/simd"}},
    {"kernels/cpu/attention", {"kernels/cpu/activation", "kernels/cpu/context", "kernels/cpu/simd"}},
    {"kernels/cpu/gemm",
     {"kernels/cpu/activation", "kernels/cpu/attention", "kernels/cpu/context", "kernels/cpu/rows",
      "kernels/cpu/simd"}},
    {"kernels/cpu/sampling", {"kernels/cpu/context"}},
    {"kernels/cpu/recurrent", {"kernels/cpu/context", "kernels/cpu/simd"}},
    {"kernels/cpu/low_rank", {"kernels/cpu/context", "kernels/cpu/simd"}},
    {"kernels/cpu/roofs", {"kernels/cpu/context", "kernels/cpu/simd"}},
    {"kernels/cpu",
     {"kernels/cpu/activation", "kernels/cpu/attention", "kernels/cpu/context", "kernels/cpu/gemm",
      "kernels/cpu/low_rank", "kernels/cpu/recurrent", "kernels/cpu/roofs", "kernels/cpu/rows",
      "kernels/cpu/sampling"}},
    {"engine/base", {}},
    {"engine/parallel", {"engine/base"}},
    {"engine/request", {"engine/base"}},
    {"engine/cache", {"engine/base", "engine/request"}},
    {"engine/sampling", {"engine/base", "engine/request"}},
    {"engine/plan", {"engine/base", "engine/cache", "engine/request", "engine/sampling"}},
    {"engine/model/spec", {"engine/base", "engine/request"}},
    {"engine/model/checkpoint", {"engine/base", "engine/model/spec", "engine/request"}},
    {"engine/model/architectures", {"engine/base", "engine/model/checkpoint", "engine/model/spec", "engine/request"}},
    {"engine/model/weights", {"engine/base", "engine/model/checkpoint", "engine/model/spec"}},
    {"engine/model", {"engine/base", "engine/model/spec", "engine/request"}},
    {"engine/model/load", {"engine/base", "engine/model", "engine/parallel", "engine/request"}},
    {"engine/adapters", {"engine/base", "engine/model", "engine/request"}},
    {"engine/layers", {"engine/adapters", "engine/base", "engine/model", "engine/parallel", "engine/request"}},
    {"engine/runtime",
     {"engine/adapters", "engine/base", "engine/layers", "engine/model", "engine/parallel", "engine/plan",
      "engine/request", "engine/sampling"}},
    {"engine/speculation", {"engine/request"}},
    {"engine/draft_model",
     {"engine/base", "engine/cache", "engine/model", "engine/plan", "engine/request", "engine/runtime",
      "engine/speculation"}},
    {"engine/scheduler",
     {"engine/base", "engine/cache", "engine/plan", "engine/request", "engine/sampling", "engine/speculation"}},
    {"engine/loop",
     {"engine/base", "engine/cache", "engine/model", "engine/plan", "engine/request", "engine/runtime",
      "engine/sampling", "engine/scheduler", "engine/speculation"}},
    {"engine/encoder",
     {"engine/base", "engine/layers", "engine/loop", "engine/model", "engine/parallel", "engine/request",
      "engine/runtime", "engine/scheduler"}},
    {"text", {"engine/base", "engine/request"}},
    {"text/chat_output", {"engine/base", "text"}},
    {"text/images", {"engine/base", "engine/request", "text"}},
    {"tools/client", {}},
    {"tools/load", {"engine/base", "tools/client"}},
    {"tools/bench", {"engine", "text"}},
    {"tools/quantize", {"engine"}},
    {"tools/cli", {"engine/base", "engine/request", "text", "tools/client", "tools/load"}},
    {"server/process", {"engine/request"}},
    {"server/access", {"engine/base", "engine/request", "server/process"}},
    {"server/config", {"engine/base", "engine/model", "engine/request", "server/access", "text"}},
    {"server/text_worker", {"text"}},
    {"server/models", {"engine", "text", "server/access", "server/config", "server/process", "server/text_worker"}},
    {"server/serving/record", {"engine", "text", "server/access"}},
    {"server/json", {"engine/base", "engine/request", "server/serving/record", "text"}},
    {"server/serving/core", {"engine", "server/access", "server/models", "server/process", "server/serving/record"}},
    {"server/serving/resolve",
     {"engine", "text", "server/access", "server/models", "server/serving/core", "server/serving/record"}},
    {"server/serving/text", {"engine", "text", "server/models", "server/serving/core", "server/serving/record"}},
    {"server/serving/output", {"engine", "text", "server/serving/core", "server/serving/record"}},
    {"server/serving/images", {"engine", "text", "server/access", "server/models", "server/serving/record"}},
    {"server/serving/chat",
     {"engine", "text", "server/json", "server/models", "server/serving/core", "server/serving/images",
      "server/serving/output", "server/serving/record", "server/serving/resolve", "server/serving/text"}},
    {"server/serving/generation",
     {"engine", "text", "server/access", "server/models", "server/serving/chat", "server/serving/core",
      "server/serving/images", "server/serving/output", "server/serving/record", "server/serving/resolve",
      "server/serving/text"}},
    {"server/serving/embed",
     {"engine", "server/access", "server/serving/core", "server/serving/output", "server/serving/record",
      "server/serving/resolve", "server/serving/text"}},
    {"server/transport",
     {"engine/base", "engine/cache", "engine/request", "server/access", "server/models", "server/process",
      "server/serving/core", "server/serving/record", "server/serving/resolve"}},
    {"server/http_calls",
     {"engine/base", "engine/request", "server/access", "server/json", "server/serving", "server/transport", "text"}},
    {"server/grpc_calls", {"engine/base", "engine/request", "server/access", "server/serving", "server/transport"}},
    {"server/fronts",
     {"engine", "text", "server/access", "server/grpc_calls", "server/http_calls", "server/json", "server/models",
      "server/serving", "server/transport"}},
    {"server/observe/logging", {"engine/base", "server/access", "server/serving/record"}},
    {"server/observe/metrics",
     {"engine/base", "engine/request", "server/access", "server/models", "server/observe/logging", "server/process",
      "server/serving/record", "server/transport"}},
    {"server/observe/tracing",
     {"engine/base", "engine/request", "server/process", "server/serving/record", "server/transport", "text"}},
    {"server/edge",
     {"server/access", "server/fronts", "server/http_calls", "server/models", "server/serving/core",
      "server/serving/record", "server/transport"}},
    {"server/commands",
     {"engine", "text", "tools/bench", "tools/cli", "tools/quantize", "server/access", "server/config", "server/edge",
      "server/models", "server/observe", "server/process", "server/serving/record", "server/transport"}},
    {"server", {"server/commands", "server/process", "server/text_worker", "tools/cli"}},
};

bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || path.rfind(folder + "/", 0) == 0;
}

// Of a file; null if no row holds it.
const Room* RoomOf(const std::string& path) {
  const Room* found = nullptr;
  for (const Room& room : kRooms) {
    if (IsWithin(path, room.path) &&
        (found == nullptr || std::string(room.path).size() > std::string(found->path).size())) {
      found = &room;
    }
  }
  return found;
}

bool HasRooms(const std::string& path) {
  return std::regex_search(path, std::regex("^(kernels/cpu|engine|text|tools|server)/.*\\.(h|cc)$"));
}

// Why `path` may not include `header`, or "".
std::string RoomViolation(const std::string& path, const std::string& header) {
  if (!HasRooms(header)) return "";  // a matter of kRules
  const Room* room = RoomOf(path);
  const Room* other = RoomOf(header);
  if (room == nullptr || other == nullptr) return (room == nullptr ? path : header) + " is in no room of kRooms";
  if (room == other) return "";
  for (const char* allowed : room->includes) {
    if (IsWithin(other->path, allowed)) return "";
  }
  return std::string(room->path) + " may not include " + header;
}

TEST(Layers, RoomsAreListedFromBelowToAbove) {
  std::vector<std::string> below;
  for (const Room& room : kRooms) {
    for (const std::string include : room.includes) {
      const auto within = [&](const std::string& path) { return IsWithin(path, include) || IsWithin(include, path); };
      EXPECT_TRUE(std::any_of(below.begin(), below.end(), within))
          << room.path << " names " << include << ", which is not before it";
      // Its own files would be allowed with those of rooms above it, unless they are a room.
      EXPECT_TRUE(!IsWithin(room.path, include) || std::find(below.begin(), below.end(), include) != below.end())
          << room.path << " is within " << include;
    }
    below.push_back(room.path);
  }
}

TEST(Layers, RoomsIncludeOnlyTheRoomsBelowThem) {
  const std::regex include("#include \"([^\"]+)\"");
  for (const SourceFile& file : SourceTree()) {
    if (!HasRooms(file.path)) continue;
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (std::regex_search(line, match, include)) {
        EXPECT_EQ(RoomViolation(file.path, match[1]), "") << file.path << " includes " << match[1];
      }
    }
  }
}

TEST(Layers, RoomRulesFindWhatTheyForbid) {
  EXPECT_NE(RoomViolation("engine/scheduler/scheduler.cc", "engine/runtime/runtime.h"), "");
  EXPECT_NE(RoomViolation("kernels/cpu/attention/paged.cc", "kernels/cpu/gemm/gemm.h"), "");
  EXPECT_NE(RoomViolation("kernels/cpu/context/context.h", "kernels/cpu/experts.h"), "");
  EXPECT_NE(RoomViolation("server/access/quota.cc", "server/serving/core/serving_core.h"), "");
  EXPECT_NE(RoomViolation("engine/runtime/runtime.h", "engine/loop/engine.h"), "");
  EXPECT_NE(RoomViolation("server/serving/record/errors.h", "server/serving/core/serving_core.h"), "");
  EXPECT_NE(RoomViolation("server/unknown/a.h", "server/edge/edge.h"), "");
  EXPECT_NE(RoomViolation("engine/loose.h", "engine/base/file.h"), "");
  EXPECT_EQ(RoomViolation("engine/scheduler/scheduler.cc", "engine/plan/step_plan.h"), "");
  EXPECT_EQ(RoomViolation("engine/loop/engine.h", "engine/model/spec/model_config.h"), "");
  EXPECT_EQ(RoomViolation("engine/scheduler/scheduler.cc", "kernels/api/dtype.h"), "");
}

// A front end knows no other front end, a transport no front end and no other transport. transport/tls listens nowhere:
// it is what the others share.
TEST(Layers, FrontsAndTransportsAreApart) {
  const std::regex owner("^server/(fronts|transport)/([a-z0-9_]+)/");
  const std::regex include("#include \"server/(fronts|transport)/([a-z0-9_]+)/");
  for (const SourceFile& file : SourceTree()) {
    std::smatch self;
    if (!std::regex_search(file.path, self, owner)) continue;
    for (const std::string& line : file.lines) {
      std::smatch other;
      if (!std::regex_search(line, other, include) || other[1] != self[1] || other[2] == "tls") continue;
      EXPECT_EQ(other[2], self[2]) << file.path << ": " << line;
    }
  }
}

TEST(Layers, RulesFindWhatTheyForbid) {
  const Rule every_pragma{"^kernels/api/", "", "#pragma once", "each header has one"};
  EXPECT_GT(Violations(every_pragma).size(), 5U);
}

}  // namespace
}  // namespace dunlin::style
