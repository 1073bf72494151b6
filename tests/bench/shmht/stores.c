/* SPDX-License-Identifier: BSD-3-Clause */
#include "stores.h"

#include <stdarg.h>

volatile uint64_t peer_zero;
static volatile size_t key_chars = KEY_CHARS;
unsigned peer_load_percent;

void die(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void skip(void)
{
    fprintf(stderr, "skip: needs libshmht, or libxxhash-dev\n");
    exit(77);
}

static void *allocate(size_t n, size_t size)
{
    void *p = calloc(n, size);

    if (!p)
        die("out of memory");
    return p;
}

void run_init(struct run *run, const char *name, int argc, char **argv)
{
    char **rest = allocate((size_t)argc + 1, sizeof(*rest));
    int n_rest = 0;

    memset(run, 0, sizeof(*run));
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--n") == 0 && i + 1 < argc)
            run->n = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--trials") == 0 && i + 1 < argc)
            run->trials = (unsigned)strtoul(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--peer") == 0 && i + 1 < argc && run->n_only < MAX_PEERS)
            run->only[run->n_only++] = argv[++i];
        else
            rest[n_rest++] = argv[i];
    }
    bench_init(&run->bench, name, n_rest, rest);
    free(rest);
    if (run->n > MAX_ENTRIES)
        die("--n: at most %u", MAX_ENTRIES);
    if (peers_missing[0])
        fprintf(stderr, "bench_%s: left out:\n%s", name, peers_missing);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int run_wants(const struct run *run, const char *name)
{
    for (unsigned i = 0; i < run->n_only; i++)
        if (strcmp(run->only[i], name) == 0)
            return 1;
    return run->n_only == 0;
}

const struct peer_ops *peer_find(const char *name)
{
    for (unsigned i = 0; peers[i]; i++)
        if (strcmp(peers[i]->name, name) == 0)
            return peers[i];
    return NULL;
}

uint32_t *data_order(struct bench *b, uint64_t n)
{
    uint32_t *order = allocate(n, sizeof(*order));

    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = (uint32_t)n; i > 1; i--) {
        uint32_t j = bench_random(b, i), entry = order[j];

        order[j] = order[i - 1];
        order[i - 1] = entry;
    }
    return order;
}

void shuffle(struct bench *b, unsigned *v, unsigned n)
{
    for (; n > 1; n--) {
        unsigned j = bench_random(b, n), last = v[n - 1];

        v[n - 1] = v[j];
        v[j] = last;
    }
}

void queries_init(struct queries *q, size_t n)
{
    q->n = n;
    q->key_len = key_chars;
    /* One more: batches and prefetches may look one ahead. */
    q->keys = allocate(n + 1, sizeof(*q->keys));
    q->entries = allocate(n + 1, sizeof(*q->entries));
}

void queries_draw(struct queries *q, struct bench *b, uint64_t n_entries, int absent)
{
    q->mix = 0;
    for (size_t i = 0; i < q->n; i++) {
        struct value value;

        q->entries[i] = bench_random(b, (uint32_t)n_entries);
        data_key(q->entries[i], absent, &q->keys[i]);
        if (!absent) {
            data_value(q->entries[i], &value);
            q->mix += data_head(value.s);
        }
    }
}

void queries_fini(struct queries *q)
{
    free(q->keys);
    free(q->entries);
}

void store_fill(struct store_run *s, const struct peer_ops *ops, const uint32_t *order, uint64_t n,
                uint64_t expected)
{
    struct pair *pairs = allocate(CHUNK, sizeof(*pairs));
    uint64_t spent = 0, start;

    *s = (struct store_run){.ops = ops, .n = n, .store = ops->create(expected)};
    if (!s->store)
        die("%s: cannot make a store", ops->name);
    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < CHUNK ? n - at : CHUNK;
        for (uint64_t i = 0; i < some; i++) {
            data_key(order[at + i], 0, &pairs[i].key);
            data_value(order[at + i], &pairs[i].value);
        }
        start = bench_cpu_ns();
        if (ops->insert(s->store, pairs, some) != 0)
            die("%s: cannot insert after %llu entries", ops->name, (unsigned long long)at);
        spent += bench_cpu_ns() - start;
    }
    s->insert_ns = (double)spent / (double)n;
    start = bench_cpu_ns();
    if (ops->finish && ops->finish(s->store) != 0)
        die("%s: cannot finish a store of %llu entries", ops->name, (unsigned long long)n);
    s->finish_ns = (double)(bench_cpu_ns() - start) / (double)n;
    s->bytes = ops->bytes(s->store); /* before anything else is freed: it may be a difference */
    free(pairs);
}

void store_check(const struct store_run *s)
{
    uint64_t lost = 0, wrong = 0, phantoms = 0;

    for (uint32_t entry = 0; entry < s->n; entry++) {
        const void *found;
        struct value value;
        struct key key;

        data_key(entry, 0, &key);
        data_value(entry, &value);
        found = s->ops->find(s->store, &key, key_chars);
        if (!found)
            lost++;
        else if (memcmp(found, value.s, VALUE_CHARS) != 0)
            wrong++;
        data_key(entry, 1, &key);
        phantoms += s->ops->find(s->store, &key, key_chars) != NULL;
    }
    if (lost || wrong || phantoms)
        die("%s: of %llu entries %llu are lost, %llu have another value; %llu absent keys were "
            "found",
            s->ops->name, (unsigned long long)s->n, (unsigned long long)lost,
            (unsigned long long)wrong, (unsigned long long)phantoms);
}

void store_destroy(struct store_run *s)
{
    if (s->store)
        s->ops->destroy(s->store);
    s->store = NULL;
}

void sum_check(const char *who, const struct queries *q, const struct sum *sum, int absent)
{
    if (sum->found != (absent ? 0 : q->n) || sum->mix != q->mix)
        die("%s: found %llu of %zu keys%s, checksum %llx instead of %llx", who,
            (unsigned long long)sum->found, q->n, absent ? ", all absent" : "",
            (unsigned long long)sum->mix, (unsigned long long)q->mix);
}

const char *const gets_names[N_GETS] = {"hit",    "dependent", "absent", "many8",
                                        "many16", "many32",    "many64"};

static int gets_has(const struct peer_ops *ops, enum gets which)
{
    int is_raw = strncmp(ops->name, "raw", 3) == 0;

    switch (which) {
    case GETS_HIT: return ops->get != NULL;
    case GETS_DEPENDENT: return ops->get_dependent != NULL;
    case GETS_ABSENT: return ops->get != NULL && !is_raw;
    default: return ops->get_many != NULL;
    }
}

static void gets(const struct store_run *s, enum gets which, const struct queries *q)
{
    struct sum sum = {0, 0};

    if (which == GETS_DEPENDENT)
        s->ops->get_dependent(s->store, q, &sum);
    else if (which >= GETS_MANY8)
        s->ops->get_many(s->store, q, (size_t)8 << (which - GETS_MANY8), &sum);
    else
        s->ops->get(s->store, q, &sum);
    sum_check(s->ops->name, q, &sum, which == GETS_ABSENT);
}

double gets_time(struct bench *b, const struct store_run *s, enum gets which, struct queries *warm,
                 struct queries *timed)
{
    uint64_t start;

    if (!gets_has(s->ops, which))
        return 0;
    queries_draw(warm, b, s->n, which == GETS_ABSENT);
    queries_draw(timed, b, s->n, which == GETS_ABSENT);
    gets(s, which, warm);
    start = bench_cpu_ns();
    gets(s, which, timed);
    return (double)(bench_cpu_ns() - start) / (double)timed->n;
}

void samples_add(struct samples *s, double value)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 32;
        s->v = realloc(s->v, s->cap * sizeof(*s->v));
        if (!s->v)
            die("out of memory");
    }
    s->v[s->n++] = value;
}

double samples_median(struct samples *s)
{
    return s->n ? bench_median(s->v, s->n) : 0;
}

void samples_fini(struct samples *s)
{
    free(s->v);
    *s = (struct samples){NULL, 0, 0};
}

uint64_t resident_bytes(void)
{
    unsigned long long kb = 0;
    char line[256];
    FILE *f = fopen("/proc/self/smaps_rollup", "r");

    if (!f)
        die("cannot read /proc/self/smaps_rollup");
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "Pss: %llu kB", &kb) == 1)
            break;
    fclose(f);
    return (uint64_t)kb * 1024;
}
