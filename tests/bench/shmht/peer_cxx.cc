// SPDX-License-Identifier: BSD-3-Clause
// std::unordered_map and absl::flat_hash_map from views of keys to views of values, with the hash that each brings.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#ifdef HAVE_ABSL
#include <absl/container/flat_hash_map.h>
#endif

#include "peer.h"
#include "records.h"

namespace
{

template <typename Map> struct Store {
    struct records records;
    Map map;

    static void *create(uint64_t expected)
    {
        auto *s = new Store;

        records_init(&s->records);
        if (expected)
            s->map.reserve(expected);
        return s;
    }

    static int insert(void *store, const struct pair *pairs, size_t n)
    {
        auto *s = static_cast<Store *>(store);

        for (size_t i = 0; i < n; i++) {
            const struct pair *pair = records_add(&s->records, &pairs[i]);

            if (!pair || !s->map.emplace(std::string_view(pair->key.s, KEY_BYTES),
                                         std::string_view(pair->value.s, VALUE_BYTES)).second)
                return -1;
        }
        return 0;
    }

    static const void *look_up(void *store, const struct key *key, size_t len)
    {
        auto *s = static_cast<Store *>(store);
        auto at = s->map.find(std::string_view(key->s, len + 1));

        return at == s->map.end() ? nullptr : at->second.data();
    }

    static uint64_t bytes(void *store)
    {
        return records_bytes(&static_cast<Store *>(store)->records);
    }

    static void destroy(void *store)
    {
        auto *s = static_cast<Store *>(store);

        records_fini(&s->records);
        delete s;
    }
};

using Unordered = Store<std::unordered_map<std::string_view, std::string_view>>;
PEER_LOOPS(unordered, Unordered::look_up)

#ifdef HAVE_ABSL
using Flat = Store<absl::flat_hash_map<std::string_view, std::string_view>>;
PEER_LOOPS(absl, Flat::look_up)
#endif

} // namespace

extern "C" {
extern const struct peer_ops peer_unordered;
const struct peer_ops peer_unordered = {
    "std::unordered_map", 170, Unordered::create, Unordered::insert, nullptr, unordered_find,
    unordered_get, unordered_get_dependent, nullptr, nullptr, Unordered::bytes, nullptr, Unordered::destroy,
};

#ifdef HAVE_ABSL
extern const struct peer_ops peer_absl;
const struct peer_ops peer_absl = {
    "absl::flat_hash_map", 150, Flat::create, Flat::insert, nullptr, absl_find,
    absl_get, absl_get_dependent, nullptr, nullptr, Flat::bytes, nullptr, Flat::destroy,
};
#endif
}
