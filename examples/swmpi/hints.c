/* SPDX-License-Identifier: BSD-3-Clause */
/* Hints: from the environment, then from the info, which overrides it; the names of files; the
 * hints that took effect. */
#include "swmpi.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ENVIRONMENT 64
#define NAME_KEY        "storage_alloc_filename"

static struct {
    pthread_once_t once;
    struct storwin_hint hints[MAX_ENVIRONMENT];
    int n_hints; /* negative: an error of storwin_hints_split() */
    struct storwin_error error;
    unsigned apply;
    const char *bad_apply;           /* SWMPI_APPLY, if it has another word; else NULL */
    char name[STORWIN_MAX_PATH + 1]; /* with what makes it differ by rank and window */
} environment = {.once = PTHREAD_ONCE_INIT, .apply = SWMPI_ALLOCATE | SWMPI_SHARED};

/* The bits of a list of words with commas; -1: another word. */
static int apply_bits(const char *list)
{
    static const struct {
        const char *word;
        int bit;
    } words[] = {
        {"allocate", SWMPI_ALLOCATE}, {"shared", SWMPI_SHARED}, {"alloc_mem", SWMPI_ALLOC_MEM}};
    int bits = 0;

    while (*list) {
        const size_t length = strcspn(list, ",");
        size_t i = 0;

        while (i < 3 && (strlen(words[i].word) != length || strncmp(list, words[i].word, length)))
            i++;
        if (i == 3)
            return -1;
        bits |= words[i].bit;
        list += length + (list[length] == ',');
    }
    return bits;
}

static void environment_read(void)
{
    const char *text = getenv("SWMPI_HINTS"), *apply = getenv("SWMPI_APPLY");
    char *copy = text ? strdup(text) : NULL; /* kept: the hints point into it */

    if (apply && apply_bits(apply) < 0)
        environment.bad_apply = apply;
    else if (apply)
        environment.apply = (unsigned)apply_bits(apply);
    if (!copy)
        return;
    environment.n_hints =
        storwin_hints_split(copy, environment.hints, MAX_ENVIRONMENT, &environment.error);
    if (environment.n_hints < 0)
        free(copy);
}

/* The value of a libswmpi key, which libstorwin does not know: 1 accepted, 0 another key. */
static int own_hint(struct swmpi_hints *h, const char *key, const char *value,
                    struct swmpi_error *e)
{
    static const struct {
        const char *key, *words[3], *wants; /* the value is the number of its word */
        size_t at;
    } keys[] = {
        {"swmpi_sync",
         {"memory", "storage", "all"},
         "'memory', 'storage' or 'all'",
         offsetof(struct swmpi_hints, sync)},
        {"swmpi_commit",
         {"each", "all", NULL},
         "'each' or 'all'",
         offsetof(struct swmpi_hints, commit)},
        {"swmpi_file",
         {"each", "shared", NULL},
         "'each' or 'shared'",
         offsetof(struct swmpi_hints, one_file)},
        {"alloc_shared_noncontig",
         {"false", "true", NULL},
         "'false' or 'true'",
         offsetof(struct swmpi_hints, noncontig)},
        {"storage_alloc_discard",
         {"false", "true", NULL},
         "'false' or 'true'",
         offsetof(struct swmpi_hints, discard)},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strcmp(key, keys[i].key) != 0)
            continue;
        for (int k = 0; k < 3 && keys[i].words[k]; k++) {
            if (strcmp(value, keys[i].words[k]) == 0) {
                *(int *)((char *)h + keys[i].at) = k;
                return 1;
            }
        }
        swmpi_say(e, MPI_ERR_INFO_VALUE, "%s: '%.64s' is not %s", key, value, keys[i].wants);
        return 1;
    }
    return 0;
}

static void take_hint(struct swmpi_hints *h, const char *key, const char *value,
                      struct swmpi_error *e)
{
    struct storwin_error cause;
    int rc;

    if (own_hint(h, key, value, e))
        return;
    rc = storwin_opts_set(&h->opts, key, value, &cause);
    if (rc == STORWIN_UNKNOWN)
        swmpi_trace(2, "hint %s is not known", key);
    else if (rc < 0)
        swmpi_say_storwin(e, "hint", rc, &cause);
    else if (strcmp(key, NAME_KEY) == 0)
        snprintf(h->name, sizeof(h->name), "%s", value); /* its length was checked */
}

/* Makes the name differ by rank and by window, unless it does already. */
static void make_differ(struct swmpi_hints *h, int by_rank, int by_window, struct swmpi_error *e)
{
    size_t length = strlen(h->name);
    const char *rank = by_rank                 ? (strstr(h->name, "%r") ? "" : ".%r")
                       : strstr(h->name, "%c") ? ""
                                               : ".%c";
    const char *window = by_window && !strstr(h->name, "%w") ? ".%w" : "";

    if (length + strlen(rank) + strlen(window) >= sizeof(h->name)) {
        swmpi_say(e, MPI_ERR_INFO_VALUE, NAME_KEY ": longer than %u bytes with its suffixes",
                  STORWIN_MAX_PATH);
        return;
    }
    snprintf(h->name + length, sizeof(h->name) - length, "%s%s", rank, window);
}

static void take_info(struct swmpi_hints *h, MPI_Info info, struct swmpi_error *e)
{
    static const char *const own[] = {"swmpi_sync", "swmpi_commit", "swmpi_file",
                                      "alloc_shared_noncontig"};
    char value[MPI_MAX_INFO_VAL + 1];
    size_t n_own = sizeof(own) / sizeof(own[0]);
    const char *key;
    int found;

    if (info == MPI_INFO_NULL)
        return;
    for (size_t i = 0; (key = i < n_own ? own[i] : storwin_hint_key(i - n_own)) && !e->code; i++) {
        found = 0;
        if (PMPI_Info_get(info, (char *)(uintptr_t)key, MPI_MAX_INFO_VAL, value, &found) ==
                MPI_SUCCESS &&
            found)
            take_hint(h, key, value, e);
    }
}

/*
 * A window of libstorwin begins on a page; a program's may begin behind it. The bytes between are
 * not the window's, and others may store into them: only a mapping of the page cache allows that.
 */
static void begin_on_page(struct swmpi_hints *h, struct swmpi_error *e)
{
    h->lead = h->opts.offset_bytes % (uint64_t)sysconf(_SC_PAGESIZE);
    if (h->lead > 0 &&
        (h->opts.pager != STORWIN_PAGER_KERNEL || h->opts.factor_ppb != STORWIN_FACTOR_ONE))
        swmpi_say(e, MPI_ERR_INFO_VALUE,
                  "storage_alloc_offset: %llu is no multiple of the page size, which the pager "
                  "kernel allows for a window wholly on storage",
                  (unsigned long long)h->opts.offset_bytes);
    else
        h->opts.offset_bytes -= h->lead;
}

int swmpi_hints_read(struct swmpi_hints *h, MPI_Info info, unsigned where, struct swmpi_error *e)
{
    pthread_once(&environment.once, environment_read);
    memset(h, 0, offsetof(struct swmpi_hints, name));
    h->name[0] = h->path[0] = 0;
    h->sync = 1;
    e->code = MPI_SUCCESS;
    storwin_opts_init(&h->opts);
    if (environment.bad_apply)
        swmpi_say(e, MPI_ERR_INFO_VALUE,
                  "SWMPI_APPLY is \"%.64s\" and must be a list of allocate, shared and alloc_mem",
                  environment.bad_apply);
    if (!e->code && environment.apply & where) {
        if (environment.n_hints < 0)
            swmpi_say_storwin(e, "SWMPI_HINTS", environment.n_hints, &environment.error);
        for (int i = 0; i < environment.n_hints && !e->code; i++)
            take_hint(h, environment.hints[i].key, environment.hints[i].value, e);
        /* The program did not ask: each rank and window needs its own name. */
        if (h->name[0] && !e->code)
            make_differ(h, !h->one_file, 1, e);
        h->opts.filename = NULL; /* the info's, if it has one */
    }
    if (!e->code)
        take_info(h, info, e);
    h->name_inherited = h->name[0] && !h->opts.filename;
    if (!e->code && h->commit && where != SWMPI_ALLOCATE && h->opts.alloc_type == STORWIN_STORAGE)
        swmpi_say(e, MPI_ERR_INFO_VALUE, "swmpi_commit: 'all' is for windows of MPI_Win_allocate");
    if (!e->code && where != SWMPI_SHARED)
        begin_on_page(h, e);
    /* No rank knows how much the others need. */
    if (!e->code && h->name[0] && h->one_file && where == SWMPI_ALLOC_MEM)
        make_differ(h, 1, 0, e);
    h->opts.filename = NULL; /* it pointed into the caller's text; swmpi_hints_expand() sets it */
    return e->code;
}

int swmpi_hints_expand(struct swmpi_hints *h, const struct swmpi_names *names,
                       struct swmpi_error *e)
{
    size_t n = 0, cap = sizeof(h->path);

    h->path[0] = 0;
    if (h->name_inherited && h->opts.alloc_type == STORWIN_STORAGE && swmpi_is_spawned()) {
        swmpi_say(e, MPI_ERR_INFO_VALUE,
                  NAME_KEY ": SWMPI_HINTS would give a spawned process the files of its parent: "
                           "set a name in the info");
        return e->code;
    }
    for (const char *p = h->name; *p && n < cap; p++) {
        char next = *p == '%' ? p[1] : 0;

        if (names->foreign && (next == 'r' || next == 'c')) {
            swmpi_say(e, MPI_ERR_INFO_VALUE,
                      NAME_KEY ": %%%c is a rank of one MPI_COMM_WORLD, and the communicator joins "
                               "several: set a name without it",
                      next);
            return e->code;
        }
        if (next == 'r' || next == 'c' || next == 'w') {
            n += (size_t)snprintf(h->path + n, cap - n, "%d",
                                  next == 'r'   ? names->rank
                                  : next == 'c' ? names->leader
                                                : names->number);
            p++;
        } else {
            n += (size_t)snprintf(h->path + n, cap - n, "%c", *p);
            p += next == '%';
        }
    }
    if (n >= cap)
        swmpi_say(e, MPI_ERR_INFO_VALUE,
                  NAME_KEY ": longer than %u bytes with rank and window put in", STORWIN_MAX_PATH);
    else
        h->opts.filename = h->path[0] ? h->path : NULL;
    return n >= cap ? e->code : MPI_SUCCESS;
}

int swmpi_hints_change(struct swmpi_window *w, MPI_Info info, struct swmpi_error *e)
{
    static const char *const keys[] = {"swmpi_sync", "storage_alloc_discard"};
    struct swmpi_hints h = {.sync = w->sync, .discard = w->discard};
    char value[MPI_MAX_INFO_VAL + 1];
    int found;

    e->code = MPI_SUCCESS;
    for (size_t i = 0; i < 2 && info != MPI_INFO_NULL && !e->code; i++) {
        found = 0;
        if (PMPI_Info_get(info, (char *)(uintptr_t)keys[i], MPI_MAX_INFO_VAL, value, &found) ==
                MPI_SUCCESS &&
            found)
            own_hint(&h, keys[i], value, e);
    }
    if (!e->code && h.sync == SWMPI_SYNC_ALL && w->sync != h.sync && !w->peers)
        swmpi_say(e, MPI_ERR_INFO_VALUE, "swmpi_sync: 'all' must be asked for at the allocation");
    if (!e->code && h.sync != SWMPI_SYNC_MEMORY && w->group != MPI_COMM_NULL)
        swmpi_say(e, MPI_ERR_INFO_VALUE,
                  "swmpi_sync: the window has swmpi_commit=all, and only swmpi_commit() stores it");
    if (e->code)
        return e->code;
    w->sync = h.sync;
    w->discard = h.discard;
    return MPI_SUCCESS;
}

static uint64_t offset_of(const struct swmpi_window *w)
{
    struct storwin_info info = {.size = sizeof(info)};

    storwin_query(w->storage, &info);
    return info.offset_bytes;
}

int swmpi_hints_echo(const struct swmpi_window *w, MPI_Info info)
{
    static const char *const sync[] = {"memory", "storage", "all"};
    char value[STORWIN_MAX_PATH + 1];
    const char *key;
    int rc = MPI_SUCCESS;

    for (size_t i = 0; rc == MPI_SUCCESS && (key = storwin_hint_key(i)); i++) {
        if (strcmp(key, "storage_alloc_discard") == 0)
            snprintf(value, sizeof(value), "%s", w->discard ? "true" : "false");
        else if (w->unlink && strcmp(key, "storage_alloc_unlink") == 0)
            snprintf(value, sizeof(value), "true");
        else if (w->lead > 0 && strcmp(key, "storage_alloc_offset") == 0)
            snprintf(value, sizeof(value), "%llu", (unsigned long long)(offset_of(w) + w->lead));
        else if (storwin_hint_query(w->storage, key, value, sizeof(value)) < 0)
            continue;
        value[MPI_MAX_INFO_VAL - 1] = 0; /* a longer path than an info may hold is cut */
        rc = PMPI_Info_set(info, (char *)(uintptr_t)key, value);
    }
    if (rc == MPI_SUCCESS && w->group != MPI_COMM_NULL)
        rc = PMPI_Info_set(info, "swmpi_commit", "all");
    return rc != MPI_SUCCESS ? rc : PMPI_Info_set(info, "swmpi_sync", sync[w->sync]);
}
