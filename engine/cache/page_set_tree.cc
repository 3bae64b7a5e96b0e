// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_set_tree.h"

#include <algorithm>

namespace dunlin::engine {

PageSetTree::PageSetTree(int32_t num_pages, const KvGroups& groups, bool has_states, PageChanges* changes)
    : groups_(groups), has_states_(has_states), changes_(changes), nodes_(static_cast<size_t>(num_pages)) {}

void PageSetTree::Enter(PageId lead, PageId parent, int32_t index, int32_t num_tokens, bool whole) {
  Node& set = node(lead);
  set = {};
  set.whole = whole;
  // The token after page set i reads the page sets from KvGroups::FirstRead((i + 1) * num_tokens) / num_tokens on.
  const int32_t behind = groups_.num_sliding == 0 ? 0 : std::max(groups_.window - 1, 0);
  set.window_sets = (behind + num_tokens - 1) / num_tokens;
  set.needed = std::min(set.window_sets, index + 1);
  if (parent != kNoPage) {
    Node& before = node(parent);
    set.parent = parent;
    set.next = before.first_child;
    if (set.next != kNoPage) node(set.next).previous = lead;
    before.first_child = lead;
    set.lost = before.lost;
  } else {
    set.lost = index > 0 && groups_.num_full > 0;
  }
  CountRuns(lead);
  Refresh(lead);
}

void PageSetTree::SetWhole(PageId lead, bool whole) {
  if (node(lead).whole == whole) return;
  node(lead).whole = whole;
  CountRuns(lead);
}

void PageSetTree::SetState(PageId lead, bool kept) {
  node(lead).has_state = kept;
  Refresh(lead);
}

void PageSetTree::Leave(PageId lead) {
  while (node(lead).first_child != kNoPage) {
    const PageId child = node(lead).first_child;
    Unlink(child);
    if (groups_.num_full == 0) {
      CountRuns(child);
    } else {
      Lose(child);
    }
  }
  Node& set = node(lead);
  set.num_reusable_children = 0;
  set.lost = true;
  Refresh(lead);
  Unlink(lead);
  set = {};
}

void PageSetTree::Unlink(PageId page) {
  Node& set = node(page);
  if (set.parent == kNoPage) return;
  Node& parent = node(set.parent);
  (set.previous == kNoPage ? parent.first_child : node(set.previous).next) = set.next;
  if (set.next != kNoPage) node(set.next).previous = set.previous;
  parent.num_reusable_children -= set.reusable ? 1 : 0;
  set.parent = set.next = set.previous = kNoPage;
}

// The node after `page` in the tree under `root`, parents first; kNoPage after the last. descend: with those under it.
PageId PageSetTree::NextInOrder(PageId page, PageId root, bool descend) {
  if (descend && node(page).first_child != kNoPage) return node(page).first_child;
  while (page != root && node(page).next == kNoPage) page = node(page).parent;
  return page == root ? kNoPage : node(page).next;
}

// Counts the whole page sets anew up to those under `root`, as far as that changes anything.
void PageSetTree::CountRuns(PageId root) {
  bool changed = true;
  for (PageId page = root; page != kNoPage; page = NextInOrder(page, root, changed)) {
    Node& set = node(page);
    const int32_t before = set.parent == kNoPage ? 0 : node(set.parent).run;
    const int32_t run = set.whole ? std::min(before + 1, set.window_sets) : 0;
    changed = run != set.run;
    if (!changed) continue;
    set.run = run;
    Refresh(page);
  }
}

// What stands under `root`, which has lost its parent, is not found any more.
void PageSetTree::Lose(PageId root) {
  if (node(root).lost) return;  // and all under it
  for (PageId page = root; page != kNoPage; page = NextInOrder(page, root, true)) {
    Node& set = node(page);
    if (set.reusable) changes_->Mark(page);
    set.lost = true;
    set.reusable = false;
    set.num_reusable_children = 0;
  }
}

// Whether the page set is reusable may have changed, and with it whether those before it are.
void PageSetTree::Refresh(PageId page) {
  while (page != kNoPage) {
    Node& set = node(page);
    const bool ends_here = set.run >= set.needed && (set.has_state || !has_states_);
    const bool goes_on = ends_here || set.num_reusable_children > 0;
    const bool reusable = goes_on && !set.lost;
    if (reusable == set.reusable) return;
    set.reusable = reusable;
    changes_->Mark(page);
    page = set.parent;
    if (page != kNoPage) node(page).num_reusable_children += reusable ? 1 : -1;
  }
}

}  // namespace dunlin::engine
