/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts about the processors of a rank. */
#define _GNU_SOURCE
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in words ---- */

/* A core's hardware threads that are in the set, by their numbers in it: a bit for each. */
static uint64_t threads_of(const struct place_topology *t, const struct place_set *set,
                           uint32_t first, uint32_t last)
{
    uint64_t threads = 0;

    for (uint32_t i = first; i < last && i < first + 64; i++)
        if (place_set_has(set, t->pus[i].os))
            threads |= UINT64_C(1) << (i - first);
    return threads;
}

static bool same_core(const struct place_topology *t, uint32_t a, uint32_t b)
{
    const uint32_t core = t->pus[a].of[PLACE_CORE];

    return core != PLACE_NONE && core == t->pus[b].of[PLACE_CORE];
}

static uint32_t core_end(const struct place_topology *t, uint32_t first)
{
    uint32_t i = first + 1;

    while (i < t->n_pus && same_core(t, first, i))
        i++;
    return i;
}

static void put_bits(FILE *f, uint64_t bits)
{
    const char *comma = "";

    for (unsigned i = 0; i < 64; i++) {
        unsigned last = i;

        if (!(bits >> i & 1))
            continue;
        while (last < 63 && (bits >> (last + 1) & 1))
            last++;
        fprintf(f, last > i ? "%s%u-%u" : "%s%u", comma, i, last);
        comma = ",";
        i = last;
    }
}

/* Consecutive cores of one socket with the same threads in the set. */
struct run {
    uint32_t socket, first, last;
    uint64_t threads; /* 0: none yet */
};

static void put_run(FILE *f, const struct run *r, bool *any)
{
    if (!r->threads)
        return;
    fputs(*any ? ", " : "", f);
    *any = true;
    if (r->socket != PLACE_NONE)
        fprintf(f, "socket %u[", r->socket);
    fprintf(f, r->last > r->first ? "core %u-%u[hwt " : "core %u[hwt ", r->first, r->last);
    put_bits(f, r->threads);
    fputs(r->socket != PLACE_NONE ? "]]" : "]", f);
}

static void put_words(FILE *f, const struct place_topology *t, const struct place_set *set)
{
    struct run run = {0};
    uint32_t core = 0, end;
    bool any = false;

    for (uint32_t i = 0; i < t->n_pus; i = end, core++) {
        const uint32_t socket = t->pus[i].of[PLACE_SOCKET];
        uint64_t threads;

        end = core_end(t, i);
        threads = threads_of(t, set, i, end);
        if (threads && threads == run.threads && socket == run.socket && core == run.last + 1) {
            run.last = core;
        } else if (threads) {
            put_run(f, &run, &any);
            run = (struct run){socket, core, core, threads};
        }
    }
    put_run(f, &run, &any);
}

/* ---- as a picture ---- */

static void put_picture(FILE *f, const struct place_topology *t, const struct place_set *set)
{
    fputc('[', f);
    for (uint32_t i = 0; i < t->n_pus; i++) {
        const struct place_pu *pu = &t->pus[i];

        if (i > 0 && pu->of[PLACE_SOCKET] != pu[-1].of[PLACE_SOCKET])
            fputs("][", f);
        else if (i > 0 && !same_core(t, i - 1, i))
            fputc('/', f);
        fputc(place_set_has(set, pu->os) ? 'B' : pu->usable ? '.' : '~', f);
    }
    fputc(']', f);
}

char *place_draw(const struct place_topology *t, const struct place_set *set)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    if (f) {
        put_words(f, t, set);
        fputs(": ", f);
        put_picture(f, t, set);
    }
    if (!f || fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- for PMIx ---- */

/* Objects of a level that the set touches. */
static bool touches_objects(const struct place_topology *t, const struct place_set *set,
                            enum place_level level, struct place_set *objects)
{
    for (uint32_t i = 0; i < t->n_pus; i++)
        if (place_set_has(set, t->pus[i].os) && t->pus[i].of[level] != PLACE_NONE &&
            !place_set_add(objects, t->pus[i].of[level]))
            return false;
    return true;
}

char *place_locality(const struct place_topology *t, const struct place_set *set)
{
    static const struct {
        const char *name;
        enum place_level level;
    } levels[] = {{"SK", PLACE_SOCKET}, {"L3", PLACE_L3},       {"L2", PLACE_L2},  {"L1", PLACE_L1},
                  {"CR", PLACE_CORE},   {"HT", PLACE_HWTHREAD}, {"NM", PLACE_NUMA}};
    const char *colon = "";
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    bool ok = f != NULL;

    for (size_t i = 0; ok && i < sizeof(levels) / sizeof(levels[0]); i++) {
        struct place_set objects = {0};
        char *list = NULL;

        ok = touches_objects(t, set, levels[i].level, &objects) &&
             (!objects.bits || (list = place_set_text(&objects)));
        if (list) {
            fprintf(f, "%s%s%s", colon, levels[i].name, list);
            colon = ":";
        }
        free(list);
        place_set_free(&objects);
    }
    if (!f || fclose(f) != 0 || !ok) {
        free(text);
        return NULL;
    }
    return text;
}
