/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordered maps of C++: the key is the first address, upper_bound() and one step back finds the region. */
#include "peers.h"

#include <map>
#ifdef HAVE_ABSL
#include <absl/container/btree_map.h>
#endif

namespace
{
struct entry {
    uint64_t bytes, handle;
};

template <class Map> void *create(const item *items, size_t n)
{
    Map *map = new Map;

    for (size_t i = 0; i < n; i++)
        map->emplace(items[i].start, entry{items[i].bytes, items[i].handle});
    return map;
}

template <class Map> inline uint64_t find(const Map &map, uint64_t addr)
{
    auto it = map.upper_bound(addr);

    if (it == map.begin())
        return 0;
    --it;
    return addr - it->first < it->second.bytes ? it->second.handle : 0;
}

template <class Map> void destroy(void *self)
{
    delete static_cast<Map *>(self);
}

using std_map = std::map<uint64_t, entry>;
DEFINE_RUNS(map, std_map, find(*self, addr))
#ifdef HAVE_ABSL
using absl_map = absl::btree_map<uint64_t, entry>;
DEFINE_RUNS(absl, absl_map, find(*self, addr))
#endif
} // namespace

extern "C" const struct peer peer_std_map = {"std::map", create<std_map>, map_run, map_chain, destroy<std_map>};
#ifdef HAVE_ABSL
extern "C" const struct peer peer_absl = {"absl::btree_map", create<absl_map>, absl_run, absl_chain, destroy<absl_map>};
#endif
