/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decoding and encoding of get- and put-sized messages on both wires, compared with the usual code.
 *
 *     bench_codec [--quick] [--seed N]
 *
 * The usual way is that of MPICH's client, without its detours: find the end of the message, copy
 * it, cut it with strtok_r(), split each word at its '=', copy key and value into arrays of 64 and
 * 1,024 bytes, then find command and fields with strcmp(); and snprintf() to write.
 * strtok-and-strdup is Hydra's way, with an allocated copy of each word and value. All do the whole
 * job on the same stream of consecutive messages, as a busy server reads them: find the end, split,
 * and extract command, key and value; all must find the same. Values are as long as business cards,
 * 8 to 200 bytes.
 *
 * Times are the thread's processor time; trials alternate; figures are medians over the trials.
 * `decode+check` is ours with pmiwire_msg_check() behind it, which a server needs and the usual way
 * lacks.
 */
#include "../bench.h"

#include <pmiwire/codec.h>
#include <pmiwire/command.h>

#define N_MESSAGES 1024u
#define MAX_KEY    40u
#define MAX_VALUE  200u
#define N_KINDS    6

struct pair {
    char kvsname[32];
    char key[MAX_KEY + 1];
    char value[MAX_VALUE + 1];
    size_t kvsname_len, key_len, value_len;
    unsigned kind;
};

/* A reader's results, equal for all readers. */
struct sum {
    uint64_t n, commands, bytes, mix;
};

struct stream {
    const char *name;
    unsigned first, last; /* kinds of messages in it, at random */
    struct pair *pairs;
    char *bytes;
    size_t len, cap;
};

enum { PUT, GET, GET_RESULT, KVS_PUT, KVS_GET, KVS_GET_RESPONSE };

static const uint16_t commands[N_KINDS] = {
    PMIWIRE_V1_PUT,     PMIWIRE_V1_GET,     PMIWIRE_V1_GET_RESULT,
    PMIWIRE_V2_KVS_PUT, PMIWIRE_V2_KVS_GET, PMIWIRE_V2_KVS_GET_RESPONSE,
};

static void add(struct sum *s, unsigned kind, const char *key, size_t key_len, const char *value,
                size_t value_len)
{
    s->n++;
    s->commands += kind;
    s->bytes += key_len + value_len;
    if (key_len)
        s->mix = s->mix * 31 + (unsigned char)key[key_len - 1];
    if (value_len)
        s->mix = s->mix * 31 + (unsigned char)value[value_len - 1];
}

/* ---- Ours ------------------------------------------------------------------ */

static inline void read_ours(const struct stream *st, struct sum *sum, int check)
{
    struct pmiwire_field fields[PMIWIRE_USUAL_FIELDS];
    struct pmiwire_msg m = {.fields = fields, .cap_fields = PMIWIRE_USUAL_FIELDS};
    struct pmiwire_decoder d;

    pmiwire_decoder_init(&d, 0, 0);
    for (size_t at = 0; at < st->len;) {
        ssize_t n = pmiwire_decode(&d, st->bytes + at, st->len - at, &m);
        struct pmiwire_str key = {NULL, 0}, value = {NULL, 0};
        unsigned kind = 0;

        if (n <= 0 || (check && pmiwire_msg_check(&m, 0, NULL) != 0))
            return;
        switch (m.id) {
        case PMIWIRE_V1_PUT: kind = PUT; break;
        case PMIWIRE_V1_GET: kind = GET; break;
        case PMIWIRE_V1_GET_RESULT: kind = GET_RESULT; break;
        case PMIWIRE_V2_KVS_PUT: kind = KVS_PUT; break;
        case PMIWIRE_V2_KVS_GET: kind = KVS_GET; break;
        case PMIWIRE_V2_KVS_GET_RESPONSE: kind = KVS_GET_RESPONSE; break;
        default: return;
        }
        if (kind != GET_RESULT && kind != KVS_GET_RESPONSE)
            pmiwire_msg_str(&m, PMIWIRE_F_KEY, &key);
        if (kind != GET && kind != KVS_GET)
            pmiwire_msg_str(&m, PMIWIRE_F_VALUE, &value);
        add(sum, kind, key.ptr, key.len, value.ptr, value.len);
        at += (size_t)n;
    }
}

static void decode_ours(struct stream *st, struct sum *sum)
{
    read_ours(st, sum, 0);
}

static void decode_and_check_ours(struct stream *st, struct sum *sum)
{
    read_ours(st, sum, 1);
}

static void encode_ours(struct stream *st, struct sum *sum)
{
    st->len = 0;
    for (unsigned i = 0; i < N_MESSAGES; i++) {
        const struct pair *p = &st->pairs[i];
        const struct pmiwire_str kvsname = {p->kvsname, p->kvsname_len}, key = {p->key, p->key_len},
                                 value = {p->value, p->value_len};
        struct pmiwire_encoder e;
        ssize_t n;

        pmiwire_enc_begin(&e, st->bytes + st->len, st->cap - st->len, commands[p->kind], NULL);
        switch (p->kind) {
        case PUT:
        case GET: pmiwire_enc_str(&e, PMIWIRE_F_KVSNAME, kvsname); break;
        case GET_RESULT: pmiwire_enc_int(&e, PMIWIRE_F_RC, 0); break;
        case KVS_GET:
            pmiwire_enc_str(&e, PMIWIRE_F_JOBID, kvsname);
            pmiwire_enc_int(&e, PMIWIRE_F_SRCID, (int)i);
            break;
        case KVS_GET_RESPONSE:
            pmiwire_enc_int(&e, PMIWIRE_F_RC, 0);
            pmiwire_enc_int(&e, PMIWIRE_F_FOUND, 1);
            break;
        default: break;
        }
        if (p->kind != GET_RESULT && p->kind != KVS_GET_RESPONSE)
            pmiwire_enc_str(&e, PMIWIRE_F_KEY, key);
        if (p->kind != GET && p->kind != KVS_GET)
            pmiwire_enc_str(&e, PMIWIRE_F_VALUE, value);
        n = pmiwire_enc_end(&e, NULL);
        if (n < 0)
            return;
        st->len += (size_t)n;
        sum->n++;
    }
}

/* ---- The usual way --------------------------------------------------------- */

#define USUAL_FIELDS  64
#define USUAL_KEY     64
#define USUAL_VALUE   1024
#define USUAL_MESSAGE 65536

struct usual {
    char copy[USUAL_MESSAGE];
    unsigned n;
    struct {
        char key[USUAL_KEY];
        char value[USUAL_VALUE];
    } field[USUAL_FIELDS];
};

static struct usual usual;

static int usual_split(size_t len, const char *separators)
{
    char *rest, *word;

    usual.copy[len] = '\0';
    usual.n = 0;
    for (word = strtok_r(usual.copy, separators, &rest); word;
         word = strtok_r(NULL, separators, &rest)) {
        char *equals = strchr(word, '=');
        size_t key_len, value_len;

        if (!equals || usual.n == USUAL_FIELDS)
            return -1;
        key_len = (size_t)(equals - word);
        value_len = strlen(equals + 1);
        if (key_len >= USUAL_KEY || value_len >= USUAL_VALUE)
            return -1;
        memcpy(usual.field[usual.n].key, word, key_len);
        usual.field[usual.n].key[key_len] = '\0';
        memcpy(usual.field[usual.n].value, equals + 1, value_len + 1);
        usual.n++;
    }
    return 0;
}

static const char *usual_find(const char *key)
{
    for (unsigned i = 0; i < usual.n; i++)
        if (strcmp(usual.field[i].key, key) == 0)
            return usual.field[i].value;
    return NULL;
}

/* As Hydra does: allocates every word, then every key and value. */
static struct {
    char *key, *value;
} duplicates[USUAL_FIELDS];
static unsigned n_duplicates;

static int dup_split(size_t len, const char *separators)
{
    char *rest, *word;

    usual.copy[len] = '\0';
    n_duplicates = 0;
    for (word = strtok_r(usual.copy, separators, &rest); word;
         word = strtok_r(NULL, separators, &rest)) {
        char *key = strdup(word), *equals = key ? strchr(key, '=') : NULL;

        if (!equals || n_duplicates == USUAL_FIELDS) {
            free(key);
            return -1;
        }
        *equals = '\0';
        duplicates[n_duplicates].key = key;
        duplicates[n_duplicates++].value = strdup(equals + 1);
    }
    return 0;
}

static const char *dup_find(const char *key)
{
    for (unsigned i = 0; i < n_duplicates; i++)
        if (strcmp(duplicates[i].key, key) == 0)
            return duplicates[i].value;
    return NULL;
}

static void dup_free(void)
{
    while (n_duplicates > 0) {
        free(duplicates[--n_duplicates].key);
        free(duplicates[n_duplicates].value);
    }
}

typedef int split_fn(size_t len, const char *separators);
typedef const char *find_fn(const char *key);

/* Splits the next message; returns its length, 0 at the end. */
static inline size_t usual_message(const char *b, size_t left, split_fn *split)
{
    size_t len;

    if (left >= 4 && memcmp(b, "cmd=", 4) == 0) {
        const char *end = memchr(b, '\n', left);

        if (!end || (size_t)(end - b) >= USUAL_MESSAGE)
            return 0;
        len = (size_t)(end - b);
        memcpy(usual.copy, b, len);
        return split(len, " ") == 0 ? len + 1 : 0;
    }
    if (left < 6)
        return 0;
    memcpy(usual.copy, b, 6);
    usual.copy[6] = '\0';
    len = (size_t)atoi(usual.copy);
    if (len == 0 || len >= USUAL_MESSAGE || len > left - 6)
        return 0;
    memcpy(usual.copy, b + 6, len);
    return split(len, ";") == 0 ? len + 6 : 0;
}

static inline void read_usual(const struct stream *st, struct sum *sum, split_fn *split,
                              find_fn *find, void (*done)(void))
{
    static const char *const names[N_KINDS] = {"put",     "get",     "get_result",
                                               "kvs-put", "kvs-get", "kvs-get-response"};

    for (size_t at = 0; at < st->len;) {
        size_t n = usual_message(st->bytes + at, st->len - at, split);
        const char *cmd, *key = NULL, *value = NULL;
        unsigned kind = 0;

        if (n == 0 || (cmd = find("cmd")) == NULL)
            return;
        while (kind < N_KINDS && strcmp(names[kind], cmd) != 0)
            kind++;
        if (kind == N_KINDS)
            return;
        if (kind != GET_RESULT && kind != KVS_GET_RESPONSE)
            key = find("key");
        if (kind != GET && kind != KVS_GET)
            value = find("value");
        add(sum, kind, key, key ? strlen(key) : 0, value, value ? strlen(value) : 0);
        if (done)
            done();
        at += n;
    }
}

static void decode_usual(struct stream *st, struct sum *sum)
{
    read_usual(st, sum, usual_split, usual_find, NULL);
}

static void decode_dup(struct stream *st, struct sum *sum)
{
    read_usual(st, sum, dup_split, dup_find, dup_free);
}

static void encode_usual(struct stream *st, struct sum *sum)
{
    st->len = 0;
    for (unsigned i = 0; i < N_MESSAGES; i++) {
        const struct pair *p = &st->pairs[i];
        char *b = st->bytes + st->len, length[16];
        size_t cap = st->cap - st->len;
        int n = 0;

        switch (p->kind) {
        case PUT:
            n = snprintf(b, cap, "cmd=put kvsname=%s key=%s value=%s\n", p->kvsname, p->key,
                         p->value);
            break;
        case GET: n = snprintf(b, cap, "cmd=get kvsname=%s key=%s\n", p->kvsname, p->key); break;
        case GET_RESULT:
            n = snprintf(b, cap, "cmd=get_result rc=%d value=%s\n", 0, p->value);
            break;
        case KVS_PUT:
            n = snprintf(b + 6, cap - 6, "cmd=kvs-put;key=%s;value=%s;", p->key, p->value);
            break;
        case KVS_GET:
            n = snprintf(b + 6, cap - 6, "cmd=kvs-get;jobid=%s;srcid=%d;key=%s;", p->kvsname,
                         (int)i, p->key);
            break;
        default:
            n = snprintf(b + 6, cap - 6, "cmd=kvs-get-response;rc=%d;found=%s;value=%s;", 0, "TRUE",
                         p->value);
            break;
        }
        if (p->kind >= KVS_PUT) {
            snprintf(length, sizeof(length), "%6d", n);
            memcpy(b, length, 6);
            n += 6;
        }
        st->len += (size_t)n;
        sum->n++;
    }
}

/* ---- Runs ------------------------------------------------------------------ */

static void make_pairs(struct bench *b, struct stream *st)
{
    static const char key_bytes[] = "abcdefghijklmnopqrstuvwxyz0123456789-_/";
    static const char value_bytes[] = "0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZ:.#$%-_/,";

    for (unsigned i = 0; i < N_MESSAGES; i++) {
        struct pair *p = &st->pairs[i];

        p->kind = st->first + bench_random(b, st->last - st->first + 1);
        p->kvsname_len = (size_t)snprintf(p->kvsname, sizeof(p->kvsname), "kvs_%u_0",
                                          1000 + bench_random(b, 30000));
        p->key_len = 8 + bench_random(b, MAX_KEY - 8 + 1);
        p->value_len = 8 + bench_random(b, MAX_VALUE - 8 + 1);
        for (size_t k = 0; k < p->key_len; k++)
            p->key[k] = key_bytes[bench_random(b, sizeof(key_bytes) - 1)];
        for (size_t k = 0; k < p->value_len; k++)
            p->value[k] = value_bytes[bench_random(b, sizeof(value_bytes) - 1)];
        p->key[p->key_len] = p->value[p->value_len] = '\0';
    }
}

typedef void work_fn(struct stream *st, struct sum *sum);

struct job {
    const char *metric, *who;
    work_fn *work;
    double ns[BENCH_MAX_TRIALS]; /* for one message */
    double median;
};

/* ns for one message, over `times` passes. */
static double measure(work_fn *work, struct stream *st, unsigned times, struct sum *sum)
{
    uint64_t start = bench_cpu_ns();

    for (unsigned i = 0; i < times; i++) {
        memset(sum, 0, sizeof(*sum));
        work(st, sum);
    }
    return (double)(bench_cpu_ns() - start) / times / N_MESSAGES;
}

static void fail(const struct stream *st, const char *metric)
{
    fprintf(stderr, "bench_codec: %s: the two ways to %s do not agree\n", st->name, metric);
    exit(1);
}

static void run(struct bench *b, struct stream *st)
{
    struct job jobs[] = {
        {.metric = "decode", .who = "ours", .work = decode_ours},
        {.metric = "decode", .who = "strtok-and-copy", .work = decode_usual},
        {.metric = "decode+check", .who = "ours", .work = decode_and_check_ours},
        {.metric = "encode", .who = "ours", .work = encode_ours},
        {.metric = "encode", .who = "strtok-and-copy", .work = encode_usual},
        {.metric = "decode", .who = "strtok-and-strdup", .work = decode_dup},
    };
    const unsigned n_jobs = sizeof(jobs) / sizeof(jobs[0]), trials = b->quick ? 3 : 21,
                   times = b->quick ? 4 : 40;
    char *reference = malloc(st->cap);
    double bytes, ratio;
    size_t len;

    /* Checks first that they give the same results. */
    make_pairs(b, st);
    encode_ours(st, &(struct sum){0, 0, 0, 0});
    len = st->len;
    bytes = (double)len / N_MESSAGES;
    if (!reference)
        exit(1);
    memcpy(reference, st->bytes, len);
    encode_usual(st, &(struct sum){0, 0, 0, 0});
    if (st->len != len || memcmp(reference, st->bytes, len) != 0)
        fail(st, "encode");
    for (unsigned t = 0; t < trials; t++) {
        struct sum sums[sizeof(jobs) / sizeof(jobs[0])];

        for (unsigned k = 0; k < n_jobs; k++) {
            unsigned j = t % 2 ? n_jobs - 1 - k : k;

            jobs[j].ns[t] = measure(jobs[j].work, st, times, &sums[j]);
        }
        if (sums[0].n != N_MESSAGES || memcmp(&sums[0], &sums[1], sizeof(sums[0])) != 0 ||
            memcmp(&sums[0], &sums[2], sizeof(sums[0])) != 0 ||
            memcmp(&sums[0], &sums[5], sizeof(sums[0])) != 0)
            fail(st, "decode");
        if (st->len != len || memcmp(reference, st->bytes, len) != 0)
            fail(st, "encode");
    }
    for (unsigned j = 0; j < n_jobs; j++) {
        char metric[48];

        jobs[j].median = bench_median(jobs[j].ns, trials);
        snprintf(metric, sizeof(metric), "%s rate", jobs[j].metric);
        bench_figure(b, st->name, N_MESSAGES, jobs[j].who, metric, 1e9 / jobs[j].median,
                     "messages/s");
        snprintf(metric, sizeof(metric), "%s throughput", jobs[j].metric);
        bench_figure(b, st->name, N_MESSAGES, jobs[j].who, metric, bytes / jobs[j].median, "GB/s");
    }
    ratio = jobs[1].median / jobs[0].median;
    bench_figure(b, st->name, N_MESSAGES, "ours", "decode speedup over strtok-and-copy", ratio,
                 "x");
    bench_figure(b, st->name, N_MESSAGES, "ours", "decode speedup over strtok-and-strdup",
                 jobs[5].median / jobs[0].median, "x");
    bench_figure(b, st->name, N_MESSAGES, "ours", "encode speedup over strtok-and-copy",
                 jobs[4].median / jobs[3].median, "x");
    fprintf(stderr,
            "%-19s %4.0f B %6.1f %5.2f | %6.1f %5.2f | %4.1fx | %6.1f | %4.1fx | %6.1f %5.2f || "
            "%6.1f %5.2f | %6.1f %5.2f | %4.1fx\n",
            st->name, bytes, jobs[0].median, bytes / jobs[0].median, jobs[1].median,
            bytes / jobs[1].median, ratio, jobs[5].median, jobs[5].median / jobs[0].median,
            jobs[2].median, bytes / jobs[2].median, jobs[3].median, bytes / jobs[3].median,
            jobs[4].median, bytes / jobs[4].median, jobs[4].median / jobs[3].median);
    free(reference);
}

int main(int argc, char **argv)
{
    static struct pair pairs[N_MESSAGES];
    static char bytes[N_MESSAGES * 512];
    struct stream streams[] = {
        {.name = "v1 put", .first = PUT, .last = PUT},
        {.name = "v1 get", .first = GET, .last = GET},
        {.name = "v1 get_result", .first = GET_RESULT, .last = GET_RESULT},
        {.name = "v2 kvs-put", .first = KVS_PUT, .last = KVS_PUT},
        {.name = "v2 kvs-get", .first = KVS_GET, .last = KVS_GET},
        {.name = "v2 kvs-get-response", .first = KVS_GET_RESPONSE, .last = KVS_GET_RESPONSE},
        {.name = "v1 mixed", .first = PUT, .last = GET_RESULT},
        {.name = "v2 mixed", .first = KVS_PUT, .last = KVS_GET_RESPONSE},
        {.name = "both mixed", .first = PUT, .last = KVS_GET_RESPONSE},
    };
    struct bench b;

    bench_init(&b, "codec", argc, argv);
    fprintf(stderr,
            "ns a message and GB/s; decode: ours | strtok-and-copy | ratio | strtok-and-strdup | "
            "ratio | ours with check || encode: ours | snprintf | ratio\n");
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        streams[i].pairs = pairs;
        streams[i].bytes = bytes;
        streams[i].cap = sizeof(bytes);
        run(&b, &streams[i]);
    }
    return 0;
}
