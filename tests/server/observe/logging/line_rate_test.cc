// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/line_rate.h"

#include <grpc/support/log.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>

#include "server/observe/logging/logging.h"

namespace dunlin::server {
namespace {

TEST(LineRate, WritesSoManyASecondAndThenTheirNumber) {
  LineRate rate(2);
  int64_t left_out = -1;
  EXPECT_TRUE(rate.Take(7, &left_out));
  EXPECT_EQ(left_out, 0);
  EXPECT_TRUE(rate.Take(7, &left_out));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rate.Take(7, &left_out));
  EXPECT_TRUE(rate.Take(8, &left_out));
  EXPECT_EQ(left_out, 5);
  EXPECT_TRUE(rate.Take(8, &left_out));
  EXPECT_EQ(left_out, 0) << "said once";
}

TEST(Logging, LinesOfGrpcAreBounded) {
  SetUpLogging("info", "text");
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // as gRPC itself does when it is started
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  for (int i = 0; i < 1000; ++i) gpr_log(GPR_ERROR, "Handshake failed with fatal error %d", i);
  spdlog::set_default_logger(before);
  const std::string written = text.str();
  const auto lines = std::count(written.begin(), written.end(), '\n');
  EXPECT_GE(lines, kMaxGrpcLines);
  EXPECT_LE(lines, 2 * kMaxGrpcLines + 1) << "the second may have passed meanwhile";
}

}  // namespace
}  // namespace dunlin::server
