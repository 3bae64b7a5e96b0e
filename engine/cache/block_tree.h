// SPDX-License-Identifier: Apache-2.0
// Which blocks of the prefix cache a new request can still use: those that routers are told of. A prefix can be gone on
// from where its blocks follow one another from the first one and, in the blocks that the next token's window reads,
// have their pages of sliding groups. A block is reusable while such a prefix ends with it or behind it; a request that
// leaves the prefix earlier may find a shorter one than the reusable blocks that it shares.
// A block behind one that has left the cache is never found again. Only where every group slides is it found by its key
// (PrefixCache::Skip), and its prefix begins there.
// Enter is O(1), SetWhole O(blocks of a window, branches of the tree there included); Leave takes what stands behind
// the block out as well, once. Nothing is allocated after construction.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cache/page.h"
#include "engine/cache/page_changes.h"
#include "engine/request/kv_groups.h"

namespace dunlin::engine {

class BlockTree {
 public:
  // changes: marks the pages of blocks that become reusable or stop being so; outlives the tree.
  BlockTree(int32_t num_pages, const KvGroups& groups, PageChanges* changes);

  // A block of num_tokens tokens, > 0, with `index` blocks before it enters. lead: the page that stands for it. parent:
  // what stands for the block before it; kNoPage: it is the first, or that one has left. whole: as SetWhole.
  void Enter(PageId lead, PageId parent, int32_t index, int32_t num_tokens, bool whole);
  // Whether the block has its pages of all sliding groups.
  void SetWhole(PageId lead, bool whole);
  void Leave(PageId lead);

  bool IsReusable(PageId lead) const { return nodes_[static_cast<size_t>(lead)].reusable; }

 private:
  struct Node {
    PageId parent = kNoPage;
    PageId first_child = kNoPage;
    PageId next = kNoPage;  // child of the same parent
    PageId previous = kNoPage;
    int32_t window_blocks = 0;  // that the next token's window reads where enough precede: the most of `run`
    int32_t needed = 0;         // of them, as many as there are
    int32_t run = 0;            // whole blocks that follow one another up to this one
    int32_t num_reusable_children = 0;
    bool whole = false;
    bool lost = false;  // behind a block that has left
    bool reusable = false;
  };

  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  void Unlink(PageId page);
  PageId NextInOrder(PageId page, PageId root, bool descend);
  void CountRuns(PageId root);
  void Lose(PageId root);
  void Refresh(PageId page);

  KvGroups groups_;
  PageChanges* changes_;
  std::vector<Node> nodes_;  // [num_pages] of the blocks that pages stand for
};

}  // namespace dunlin::engine
