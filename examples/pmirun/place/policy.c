/* SPDX-License-Identifier: BSD-3-Clause */
/* What --map-by and --bind-to say. */
#define _GNU_SOURCE
#include "place.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name;
    enum place_level level;
} names[] = {
    {"node", PLACE_NODE},      {"socket", PLACE_SOCKET},     {"numa", PLACE_NUMA},
    {"l3cache", PLACE_L3},     {"l2cache", PLACE_L2},        {"l1cache", PLACE_L1},
    {"core", PLACE_CORE},      {"hwthread", PLACE_HWTHREAD}, /* first the one that we use */
    {"package", PLACE_SOCKET}, {"numanode", PLACE_NUMA},
};

const char *place_level_name(enum place_level level)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].level == level)
            return names[i].name;
    return "?";
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

static bool find_level(const char *text, size_t len, enum place_level *level)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is_word(text, len, names[i].name)) {
            *level = names[i].level;
            return true;
        }
    }
    return false;
}

/* A number from min to max at *text, which moves behind it. */
static bool policy_number(const char **text, uint32_t min, uint32_t max, uint32_t *v)
{
    unsigned long long n = 0;
    const char *p = *text;

    if (!isdigit((unsigned char)*p))
        return false;
    for (; isdigit((unsigned char)*p); p++)
        if ((n = 10 * n + (unsigned)(*p - '0')) > max)
            return false;
    if (n < min)
        return false;
    *text = p;
    *v = (uint32_t)n;
    return true;
}

static const char *set_each(uint32_t *v, const char *text, const char *end)
{
    if (policy_number(&text, 1, PLACE_MAX_PUS, v) && text == end)
        return NULL;
    return "wants 1 to 8192 objects for a rank";
}

/* One word behind the object. */
static const char *parse_modifier(struct place_policy *p, const char *text, size_t len)
{
    if (strncasecmp(text, "pe=", 3) == 0)
        return set_each(&p->map_each, text + 3, text + len);
    p->block = is_word(text, len, "block");
    if (p->block || is_word(text, len, "cyclic"))
        return NULL;
    return "wants block, cyclic or PE=N after the object";
}

const char *place_parse_map(struct place_policy *p, const char *text)
{
    size_t len = strcspn(text, ":");
    const char *why = NULL;
    bool slot = is_word(text, len, "slot");

    p->map_each = 0; /* the last --map-by counts */
    p->map = PLACE_NODE;
    if (!slot && !find_level(text, len, &p->map))
        return "wants slot, node, socket, numa, l1cache, l2cache, l3cache, core or hwthread";
    p->block = slot;
    for (text += len; *text && !why; text += len) {
        len = strcspn(++text, ":,");
        why = parse_modifier(p, text, len);
    }
    if (p->map == PLACE_NODE) { /* the order is that of nodes */
        p->nodes_cyclic = !p->block;
        p->block = false;
    }
    return why;
}

/* "0-3+8" up to a comma: one rank's processors. */
static const char *parse_set(struct place_set *set, const char **text)
{
    do {
        uint32_t first, last;

        if (!policy_number(text, 0, PLACE_MAX_PUS - 1, &first))
            return "wants processors from 0 to 8191, such as list:0-3,4+6";
        last = first;
        if (**text == '-' && (++*text, !policy_number(text, first, PLACE_MAX_PUS - 1, &last)))
            return "wants ranges whose end is not below their start";
        for (uint32_t cpu = first; cpu <= last; cpu++)
            place_set_add(set, cpu);
    } while (**text == '+' && ++*text);
    return NULL;
}

static const char *parse_list(struct place_policy *p, const char *text)
{
    const char *why;

    do {
        struct place_set *more = realloc(p->list, (p->n_list + 1) * sizeof(*more));

        if (!more)
            return "needs more memory than pmirun can get";
        p->list = more;
        p->list[p->n_list] = (struct place_set){0};
        why = parse_set(&p->list[p->n_list++], &text);
        if (why)
            return why;
    } while (*text == ',' && ++text);
    return *text ? "wants a , between ranks, and + and - between processors" : NULL;
}

const char *place_parse_bind(struct place_policy *p, const char *text)
{
    size_t len = strcspn(text, ":");

    p->n_list = 0; /* the last --bind-to counts */
    p->bind_each = 0;
    p->bind_given = true;
    p->bind = PLACE_NODE;
    if (is_word(text, len, "list") || is_word(text, len, "user"))
        return parse_list(p, text[len] ? text + len + 1 : "");
    if (is_word(text, strlen(text), "none"))
        return NULL;
    if (!find_level(text, len, &p->bind) || p->bind == PLACE_NODE)
        return "wants none, socket, numa, l1cache, l2cache, l3cache, core, hwthread or "
               "list:PROCESSORS,...";
    return text[len] ? set_each(&p->bind_each, text + len + 1, strchr(text, '\0')) : NULL;
}

const char *place_settle(struct place_policy *p)
{
    if (p->map_each && p->bind_each && p->map_each != p->bind_each)
        return "--map-by and --bind-to give different numbers of objects for each rank";
    p->each = p->map_each ? p->map_each : p->bind_each;
    if (p->n_list && (p->each || p->map != PLACE_NODE))
        return "--bind-to list places each rank itself: remove --map-by";
    if (!p->bind_given)
        p->bind = p->each && p->map != PLACE_HWTHREAD ? PLACE_CORE : p->map;
    if (p->each && !place_binds(p))
        return "PE=N needs --bind-to with an object, not with none";
    if (p->each == 0)
        p->each = 1;
    if (p->map == p->bind && p->each > 1) /* a group does not fit into one object */
        p->map = PLACE_NODE;
    return NULL;
}

bool place_binds(const struct place_policy *p)
{
    return p->bind != PLACE_NODE || p->n_list;
}
