// SPDX-License-Identifier: Apache-2.0
// What the layers of a divided model do in addition (engine/model/spec/rank_config.h). Every rank runs the same pass
// over the same rows. Where a product reads columns that several ranks have computed, these gather them; what a product
// adds to the residual stream goes to the rank's columns of the one stream that all ranks read. Operations on whole
// rows run on every rank, but those that change the stream, of which each takes some rows.
// All of them return at once, without waiting, where the model is not divided.
//
// Where ranks are linked (kernels/api/rank_links.h), the stream and the gathered rows are copies, one of a rank: Share
// and Gather write what a rank has into the others', in the order of its device's operations, and each rank changes all
// rows of its stream, since that takes less time than sending them.
#pragma once

#include <cstdint>

#include "engine/layers/linear.h"

namespace dunlin::engine {

// Rows [0, rows.count) of a table whose rows [part.first, part.first + part.count) are the rank's, by the tokens' ids,
// times `scale`: those of other ranks are left alone. out: [rows.count, columns].
struct OwnTable {
  const kernels::PackedWeight* weight;
  RankPart part;
  int32_t columns;
};
bool GatherOwnRows(LayerContext* context, const char* op, const OwnTable& table, float scale, float* out);

// Waits until what all ranks have written may be read and what they have read may be written. op: of the message.
bool Meet(LayerContext* context, const char* op);

// The same, once the rank has written its columns `own` of rows of `columns` floats, which are one of the buffers that
// all ranks read. to: the one rank that reads them on; -1: all do.
bool ShareColumns(LayerContext* context, const char* op, float* rows, int32_t columns, const RankPart& own,
                  int32_t num_rows, int32_t to = -1);

// The same of whole rows of `out`, one of these buffers, of which a rank has those whose token is one of its
// vocabulary's rows. rows: where it has written them; linked ranks get them from there.
bool ShareTokenRows(LayerContext* context, const char* op, const float* rows, float* out, int32_t columns);

// The rank's columns of rows of hidden_dim floats.
Columns OwnColumns(const LayerContext& context, float* rows);

// Copies the rank's columns of the stream, or of rows of the same width.
bool CopyOwnColumns(LayerContext* context, const char* op, const Columns& from, const Columns& to);

// The rank's part of `count` rows that all ranks read; all of them where it alone reads them.
inline RankPart OwnRows(const LayerContext& context, int32_t count) {
  return context.divided() && !context.linked() ? context.config.part(count) : RankPart{0, count};
}

// Meet, after operations on OwnRows.
inline bool MeetOverRows(LayerContext* context, const char* op) {
  return context->linked() || Meet(context, op);
}

// A rank's columns of rows: from `first` on `count` of them and, where there are several blocks, as many again each
// `block_stride` further. In `data` a row's blocks lie one after another, rows `stride` floats apart.
struct RankColumns {
  const float* data;
  int64_t stride;
  int32_t first;
  int32_t count;
  int32_t num_blocks = 1;
  int64_t block_stride = 0;
};
// Contiguous rows of the columns `part`.
inline RankColumns ColumnsOf(const float* data, const RankPart& part) {
  return {.data = data, .stride = part.count, .first = part.first, .count = part.count};
}

// Where rows that several ranks fill next lie: LayerBuffers::gathered, in turns. Valid until the gather after the next
// one. REQUIRES: the model is divided.
float* NextGathered(LayerContext* context);

// Puts the rank's columns into rows of `columns` floats that begin at `offset` of `gathered`, of NextGathered. They may
// be read after Meet and, where ranks are linked, at once. A rank that has none calls it, too.
bool GiveColumns(LayerContext* context, const char* op, const RankColumns& own, float* gathered, int64_t offset,
                 int32_t columns, int32_t num_rows);

// Puts the rank's columns of rows of `columns` floats together with those of the other ranks. Null after a failure;
// else [num_rows, columns], valid until the gather after the next one. REQUIRES: the model is divided.
const float* GatherColumns(LayerContext* context, const char* op, const RankColumns& own, int32_t columns,
                           int32_t num_rows);

// Fills the input of `next` from its rows, of which a rank of a divided model has some columns.
bool QuantizeColumns(LayerContext* context, const char* op, const Linear& next, const RankColumns& own,
                     int32_t num_rows);

}  // namespace dunlin::engine
