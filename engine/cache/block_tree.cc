// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/block_tree.h"

#include <algorithm>

namespace dunlin::engine {

BlockTree::BlockTree(int32_t num_pages, const KvGroups& groups, PageChanges* changes)
    : groups_(groups), changes_(changes), nodes_(static_cast<size_t>(num_pages)) {}

void BlockTree::Enter(PageId lead, PageId parent, int32_t index, int32_t num_tokens, bool whole) {
  Node& block = node(lead);
  block = {};
  block.whole = whole;
  // From behind block i the blocks from KvGroups::FirstRead((i + 1) * num_tokens) / num_tokens on are read.
  const int32_t behind = groups_.num_sliding == 0 ? 0 : std::max(groups_.window - 1, 0);
  block.window_blocks = (behind + num_tokens - 1) / num_tokens;
  block.needed = std::min(block.window_blocks, index + 1);
  if (parent != kNoPage) {
    Node& before = node(parent);
    block.parent = parent;
    block.next = before.first_child;
    if (block.next != kNoPage) node(block.next).previous = lead;
    before.first_child = lead;
    block.lost = before.lost;
  } else {
    block.lost = index > 0 && groups_.num_full > 0;
  }
  CountRuns(lead);
  Refresh(lead);
}

void BlockTree::SetWhole(PageId lead, bool whole) {
  if (node(lead).whole == whole) return;
  node(lead).whole = whole;
  CountRuns(lead);
}

void BlockTree::Leave(PageId lead) {
  while (node(lead).first_child != kNoPage) {
    const PageId child = node(lead).first_child;
    Unlink(child);
    if (groups_.num_full == 0) {
      CountRuns(child);
    } else {
      Lose(child);
    }
  }
  Node& block = node(lead);
  block.num_reusable_children = 0;
  block.lost = true;
  Refresh(lead);
  Unlink(lead);
  block = {};
}

void BlockTree::Unlink(PageId page) {
  Node& block = node(page);
  if (block.parent == kNoPage) return;
  Node& parent = node(block.parent);
  (block.previous == kNoPage ? parent.first_child : node(block.previous).next) = block.next;
  if (block.next != kNoPage) node(block.next).previous = block.previous;
  parent.num_reusable_children -= block.reusable ? 1 : 0;
  block.parent = block.next = block.previous = kNoPage;
}

// The node after `page` in the tree under `root`, parents first; kNoPage after the last. descend: with those under it.
PageId BlockTree::NextInOrder(PageId page, PageId root, bool descend) {
  if (descend && node(page).first_child != kNoPage) return node(page).first_child;
  while (page != root && node(page).next == kNoPage) page = node(page).parent;
  return page == root ? kNoPage : node(page).next;
}

// Counts the whole blocks anew up to those under `root`, as far as that changes anything.
void BlockTree::CountRuns(PageId root) {
  bool changed = true;
  for (PageId page = root; page != kNoPage; page = NextInOrder(page, root, changed)) {
    Node& block = node(page);
    const int32_t before = block.parent == kNoPage ? 0 : node(block.parent).run;
    const int32_t run = block.whole ? std::min(before + 1, block.window_blocks) : 0;
    changed = run != block.run;
    if (!changed) continue;
    block.run = run;
    Refresh(page);
  }
}

// What stands under `root`, which has lost its parent, is not found any more.
void BlockTree::Lose(PageId root) {
  if (node(root).lost) return;  // and all under it
  for (PageId page = root; page != kNoPage; page = NextInOrder(page, root, true)) {
    Node& block = node(page);
    if (block.reusable) changes_->Mark(page);
    block.lost = true;
    block.reusable = false;
    block.num_reusable_children = 0;
  }
}

// Whether the block is reusable may have changed, and with it whether those before it are.
void BlockTree::Refresh(PageId page) {
  while (page != kNoPage) {
    Node& block = node(page);
    const bool goes_on = block.run >= block.needed || block.num_reusable_children > 0;
    const bool reusable = goes_on && !block.lost;
    if (reusable == block.reusable) return;
    block.reusable = reusable;
    changes_->Mark(page);
    page = block.parent;
    if (page != kNoPage) node(page).num_reusable_children += reusable ? 1 : -1;
  }
}

}  // namespace dunlin::engine
