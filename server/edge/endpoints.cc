// SPDX-License-Identifier: Apache-2.0
#include "server/edge/endpoints.h"

#include <iterator>
#include <vector>

#include "server/fronts/table.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/probe_routes.h"

namespace dunlin::server {
namespace {

EndpointTable AllEndpoints() {
  std::vector<Endpoint> rows(std::begin(kProbeEndpoints), std::end(kProbeEndpoints));
  rows.insert(rows.end(), std::begin(kGrpcServerEndpoints), std::end(kGrpcServerEndpoints));
  for (const FrontRow* front : Fronts()) rows.insert(rows.end(), front->endpoints.begin(), front->endpoints.end());
  return EndpointTable(std::move(rows));
}

}  // namespace

const EndpointTable& Endpoints() {
  static const EndpointTable table = AllEndpoints();
  return table;
}

}  // namespace dunlin::server
