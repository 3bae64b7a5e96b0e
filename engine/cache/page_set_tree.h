// SPDX-License-Identifier: Apache-2.0
// Which page sets of the prefix cache a new request can still use: the ones that routers are told of. A prefix can be
// continued where its page sets follow one another without a gap from the first one on and, in the page sets that the
// next token's window reads, have their pages of sliding groups; of a recurrent model also only where the state at its
// end is kept. A page set is reusable while such a prefix ends with it or after it; a request that leaves the prefix
// earlier may find a shorter one than the reusable page sets that it shares.
// A page set after one that has left the cache is never found again. Only where every group slides is it found by its
// key (PrefixCache::Skip), and its prefix begins there.
// Enter is O(1), SetWhole O(page sets of a window, branches of the tree there included); Leave takes out what follows
// the page set too, once. Nothing is allocated after construction.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cache/page.h"
#include "engine/cache/page_changes.h"
#include "engine/request/kv_groups.h"

namespace dunlin::engine {

class PageSetTree {
 public:
  // changes: marks the pages of page sets that become reusable or stop being so; outlives the tree. has_states: of a
  // recurrent model.
  PageSetTree(int32_t num_pages, const KvGroups& groups, bool has_states, PageChanges* changes);

  // A page set of num_tokens tokens, > 0, with `index` page sets before it enters. lead: the page that stands for it.
  // parent: what stands for the page set before it; kNoPage: it is the first, or that one has left. whole: as SetWhole.
  void Enter(PageId lead, PageId parent, int32_t index, int32_t num_tokens, bool whole);
  // Whether the page set has its pages of all sliding groups.
  void SetWhole(PageId lead, bool whole);
  // Whether the state at its end is kept, which it is not when it enters.
  void SetState(PageId lead, bool kept);
  void Leave(PageId lead);

  bool IsReusable(PageId lead) const { return nodes_[static_cast<size_t>(lead)].reusable; }

 private:
  struct Node {
    PageId parent = kNoPage;
    PageId first_child = kNoPage;
    PageId next = kNoPage;  // child of the same parent
    PageId previous = kNoPage;
    int32_t window_sets = 0;  // that the next token's window reads where enough precede: the most of `run`
    int32_t needed = 0;       // of them, as many as there are
    int32_t run = 0;          // whole page sets that follow one another up to this one
    int32_t num_reusable_children = 0;
    bool whole = false;
    bool has_state = false;
    bool lost = false;  // after a page set that has left
    bool reusable = false;
  };

  Node& node(PageId page) { return nodes_[static_cast<size_t>(page)]; }
  void Unlink(PageId page);
  PageId NextInOrder(PageId page, PageId root, bool descend);
  void CountRuns(PageId root);
  void Lose(PageId root);
  void Refresh(PageId page);

  KvGroups groups_;
  bool has_states_;
  PageChanges* changes_;
  std::vector<Node> nodes_;  // [num_pages] of the page sets that pages stand for
};

}  // namespace dunlin::engine
