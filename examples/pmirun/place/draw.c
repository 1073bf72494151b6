/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts about the processors of a rank. */
#define _GNU_SOURCE
#include "place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in words ---- */

/* A core's hardware threads that are in the set, by their numbers in it. */
static struct place_set threads_of(const struct place_topology *t, const struct place_set *set,
                                   uint32_t first, uint32_t last)
{
    struct place_set threads = {0};

    for (uint32_t i = first; i < last; i++)
        if (place_set_has(set, t->pus[i].os))
            place_set_add(&threads, i - first);
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

/* Consecutive cores of one socket with the same threads in the set. */
struct run {
    uint32_t socket, first, last;
    struct place_set threads; /* empty: none yet */
};

static void put_run(FILE *f, const struct run *r, bool *any)
{
    if (!r->threads.end)
        return;
    fputs(*any ? ", " : "", f);
    *any = true;
    if (r->socket != PLACE_NONE)
        fprintf(f, "socket %u[", r->socket);
    fprintf(f, r->last > r->first ? "core %u-%u[hwt " : "core %u[hwt ", r->first, r->last);
    place_set_print(f, &r->threads);
    fputs(r->socket != PLACE_NONE ? "]]" : "]", f);
}

static void put_words(FILE *f, const struct place_topology *t, const struct place_set *set)
{
    struct run run = {0};
    uint32_t core = 0, end;
    bool any = false;

    for (uint32_t i = 0; i < t->n_pus; i = end, core++) {
        const uint32_t socket = t->pus[i].of[PLACE_SOCKET];
        struct place_set threads;

        end = core_end(t, i);
        threads = threads_of(t, set, i, end);
        if (threads.end && memcmp(threads.bits, run.threads.bits, sizeof(threads.bits)) == 0 &&
            socket == run.socket && core == run.last + 1) {
            run.last = core;
        } else if (threads.end) {
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

/* Objects of a level that the set touches, but those with a number of PLACE_MAX_PUS or more. */
static struct place_set touched_objects(const struct place_topology *t, const struct place_set *set,
                                        enum place_level level)
{
    struct place_set objects = {0};

    for (uint32_t i = 0; i < t->n_pus; i++)
        if (place_set_has(set, t->pus[i].os) && t->pus[i].of[level] < PLACE_MAX_PUS)
            place_set_add(&objects, t->pus[i].of[level]);
    return objects;
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
        const struct place_set objects = touched_objects(t, set, levels[i].level);
        char *list = place_set_text(&objects);

        ok = list != NULL;
        if (ok && *list) {
            fprintf(f, "%s%s%s", colon, levels[i].name, list);
            colon = ":";
        }
        free(list);
    }
    if (!f || fclose(f) != 0 || !ok) {
        free(text);
        return NULL;
    }
    return text;
}
