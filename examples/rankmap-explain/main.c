/* SPDX-License-Identifier: BSD-3-Clause */
/* rankmap-explain: reports the model of a communicator and its cost. The command line, and the
 * three kinds of input. */
#include "explain.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "workload.h"

#define MAX_SUBJECTS WORKLOAD_MAX_COMMS

static struct {
    int json, no_picture;
    unsigned columns, rows;
    uint32_t n_ranks;  /* of a mapping; 0: as many as its blocks hold */
    const char *title; /* of the input: the arguments, or a file's name */
} options = {.columns = 64, .rows = 16};

static const char usage_text[] =
    "usage: rankmap-explain [OPTION...] [-f FILE | INPUT...]\n"
    "\n"
    "INPUT is a list of ranks (0-9:2 4,7), a PMI_process_mapping or task map, or a generator with "
    "its arguments\n"
    "(nwchem 768x1024). Without one, or with -f -, it is read from stdin.\n"
    "\n"
    "  -f, --file FILE     read the input from a file\n"
    "  -n, --ranks N       ranks of the job, for a mapping (as many as its blocks hold)\n"
    "      --json          JSON instead of text\n"
    "      --no-picture    text without pictures\n"
    "      --picture CxR   size of the picture: columns and rows (64x16)\n"
    "      --list          print the generators\n"
    "  -h, --help          print this help\n";

static int bad_usage(const char *format, const char *what)
{
    fprintf(stderr, "rankmap-explain: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\nTry rankmap-explain --help.\n");
    return 2;
}

static int report_failure(const char *what, int code)
{
    fprintf(stderr, "rankmap-explain: %s: %s\n", what, rankmap_strerror(code));
    return code == -ENOMEM ? 1 : 2;
}

/* ---- A subject's map must give the subject's ids ---- */

static int verify_map(const struct subject *s)
{
    const uint32_t n = (uint32_t)s->group.n;
    uint64_t *ids = malloc((size_t)n * sizeof(*ids));
    int right =
        ids && rankmap_size(s->map) == n && rankmap_ids(s->map, 0, n, sizeof(uint64_t), ids) == 0;

    if (!ids)
        return report_failure(s->name, -ENOMEM);
    for (uint32_t r = 0; r < n && right; r++)
        right = ids[r] == s->ids[r];
    free(ids);
    /* Checks the inverse of a few ids; the library's tests check all. */
    for (uint32_t i = 0; i < 16 && right && s->is_group; i++) {
        uint32_t r = (uint32_t)((uint64_t)i * (n - 1) / 15);

        right = rankmap_rank(s->map, s->ids[r]) == (int64_t)r;
    }
    if (right)
        return 0;
    fprintf(stderr, "rankmap-explain: %s: the map does not give back what it was made of\n",
            s->name);
    return 1;
}

static int report_subjects(uint64_t n_processes, const struct subject *subjects, unsigned n,
                           int with_total)
{
    for (unsigned i = 0; i < n; i++) {
        int status = verify_map(&subjects[i]);

        if (status != 0)
            return status;
    }
    if (options.json) {
        printf("{\"input\":");
        report_json_string(stdout, options.title);
        printf(",\"processes\":%llu,\"communicators\":[", (unsigned long long)n_processes);
        for (unsigned i = 0; i < n; i++) {
            if (i > 0)
                putchar(',');
            report_json(stdout, &subjects[i]);
        }
        printf("]}\n");
        return 0;
    }
    if (n_processes)
        printf("%s: %llu processes\n\n", options.title, (unsigned long long)n_processes);
    for (unsigned i = 0; i < n; i++)
        report_text(stdout, &subjects[i], options.no_picture ? 0 : options.columns,
                    options.no_picture ? 0 : options.rows);
    if (with_total)
        report_total(stdout, subjects, n);
    return 0;
}

/* ---- The three kinds of input ---- */

/* The ids of a map that the library made from a text. */
static int subject_fill(struct subject *s, const char *name, int is_group, uint64_t range)
{
    uint32_t n = rankmap_size(s->map);
    uint64_t *ids = malloc((n ? n : 1) * sizeof(*ids));

    if (!ids)
        return -ENOMEM;
    rankmap_ids(s->map, 0, n, sizeof(uint64_t), ids);
    s->name = name;
    s->count = 1;
    s->is_group = is_group;
    s->ids = ids;
    s->group = (struct peer_group){.ids = ids, .n = n, .range = range, .n_groups = 1};
    return 0;
}

static void subjects_free(struct subject *subjects, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        rankmap_unref(subjects[i].map);
        free((void *)(uintptr_t)subjects[i].ids);
    }
}

static int explain_list(const struct input *in)
{
    struct rankmap_info info = {.size = sizeof(info)};
    struct subject s = {.name = NULL};
    int rc = input_list(in, &s.map);

    if (rc < 0)
        return rc == -ENOMEM ? 1 : 2;
    rankmap_query(s.map, &info);
    rc = subject_fill(&s, "list", 1, info.max_id + 1);
    rc = rc == 0 ? report_subjects(0, &s, 1, 0) : report_failure("list", rc);
    subjects_free(&s, 1);
    return rc;
}

static int explain_mapping(const struct input *in)
{
    struct subject s[3] = {{.name = NULL}, {.name = NULL}, {.name = NULL}};
    uint32_t n = options.n_ranks ? options.n_ranks : input_mapping_ranks(in);
    struct rankmap_error err;
    unsigned n_made = 0;
    int r;

    if (n == 0) {
        input_error(in, 0,
                    "the ranks of this mapping cannot be counted: give their number with -n");
        return 2;
    }
    r = rankmap_nodes_from_text(in->text, in->len, n, NULL, &s[0].map, &err);
    if (r != 0) {
        input_error(in, err.where < in->len ? (size_t)err.where : in->len, "%s", err.text);
        return r == -ENOMEM ? 1 : 2;
    }
    r = subject_fill(&s[n_made++], "node of each rank", 0, n);
    if (r == 0)
        r = rankmap_ranks_by_node(s[0].map, NULL, &s[1].map);
    if (r == 0)
        r = subject_fill(&s[n_made++], "ranks ordered by node", 1, n);
    if (r == 0)
        r = rankmap_ranks_on_node(s[0].map, s[0].ids[0], NULL, &s[2].map);
    if (r == 0)
        r = subject_fill(&s[n_made++], "ranks on the node of rank 0", 1, n);
    r = r == 0 ? report_subjects(n, s, n_made, 0) : report_failure("mapping", r);
    subjects_free(s, 3);
    return r;
}

static int map_child(struct rankmap *parent, const struct workload_comm *c, struct rankmap **out)
{
    struct rankmap *ranks;
    int r = rankmap_from_ids32(c->of_parent, c->n, NULL, &ranks, NULL);

    if (r < 0)
        return r;
    r = rankmap_compose(parent, ranks, NULL, out);
    rankmap_unref(ranks);
    return r;
}

/* The i-th communicator of a workload, made the way its parent allows. */
static int subject_make(const struct workload *w, uint32_t i, struct subject *subjects)
{
    const struct workload_comm *c = &w->comms[i];
    struct subject *s = &subjects[i];
    uint64_t *ids = malloc((size_t)c->n * sizeof(*ids));

    if (!ids)
        return -ENOMEM;
    for (uint32_t r = 0; r < c->n; r++)
        ids[r] = c->ids[r];
    s->name = c->name;
    s->count = c->count;
    s->is_group = 1;
    s->ids = ids;
    s->group = (struct peer_group){ids, c->n, w->n_processes, (int)w->n_groups, c->merged};
    if (c->parent >= 0)
        return map_child(subjects[c->parent].map, c, &s->map);
    return rankmap_from_ids32(c->ids, c->n, NULL, &s->map, NULL);
}

static int explain_generator(const struct input *in)
{
    struct subject subjects[MAX_SUBJECTS] = {{.name = NULL}};
    struct workload w;
    char error[256];
    int r = 0;

    if (workload_make(&w, in->text, error, sizeof(error)) != 0) {
        fprintf(stderr, "rankmap-explain: %s\n", error);
        return 2;
    }
    for (uint32_t i = 0; i < w.n_comms && r == 0; i++)
        r = subject_make(&w, i, subjects);
    r = r == 0 ? report_subjects(w.n_processes, subjects, w.n_comms, w.n_comms > 1)
               : report_failure(w.title, r);
    subjects_free(subjects, w.n_comms);
    workload_free(&w);
    return r;
}

static int explain_input(struct input *in)
{
    while (in->len > 0 && isspace((unsigned char)in->text[in->len - 1]))
        in->len--;
    while (in->len > 0 && isspace((unsigned char)*in->text)) {
        in->text++;
        in->len--;
    }
    if (in->len > 0 && strchr("([{", *in->text))
        return explain_mapping(in);
    if (workload_known(in->text))
        return explain_generator(in);
    if (in->len > 0 && isalpha((unsigned char)*in->text)) {
        int word = (int)strcspn(in->text, " \t\r\n");

        fprintf(stderr, "rankmap-explain: %s: no generator \"%.*s\"; --list shows them\n", in->name,
                word < 64 ? word : 64, in->text);
        return 2;
    }
    return explain_list(in);
}

static int list_generators(void)
{
    const char *name, *arguments, *meaning;

    for (unsigned i = 0; workload_at(i, &name, &arguments, &meaning); i++)
        printf("%-14s %-36s %s\n", name, arguments, meaning);
    return 0;
}

/* ---- The command line ---- */

static char *join_words(char **words, int n)
{
    size_t len = 1;
    char *text, *at;

    for (int i = 0; i < n; i++)
        len += strlen(words[i]) + 1;
    text = at = malloc(len);
    if (!text) {
        report_failure("the arguments", -ENOMEM);
        return NULL;
    }
    *at = '\0';
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s%s", i ? " " : "", words[i]);
    return text;
}

static int read_options(int argc, char **argv, const char **file)
{
    enum { JSON = 256, NO_PICTURE, PICTURE, LIST };
    static const struct option longs[] = {{"file", required_argument, NULL, 'f'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"json", no_argument, NULL, JSON},
                                          {"no-picture", no_argument, NULL, NO_PICTURE},
                                          {"picture", required_argument, NULL, PICTURE},
                                          {"list", no_argument, NULL, LIST},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    unsigned long v;
    char *end;
    int c;

    while ((c = getopt_long(argc, argv, "f:n:h", longs, NULL)) != -1) {
        switch (c) {
        case 'f': *file = optarg; break;
        case 'n':
            v = strtoul(optarg, &end, 10);
            if (*end || end == optarg || v == 0 || v > EXPLAIN_MAX_RANKS ||
                !isdigit((unsigned char)*optarg))
                return bad_usage("-n takes a number from 1 to 16777216, not \"%s\"", optarg);
            options.n_ranks = (uint32_t)v;
            break;
        case JSON: options.json = 1; break;
        case NO_PICTURE: options.no_picture = 1; break;
        case PICTURE: {
            int used = 0;

            if (sscanf(optarg, "%3ux%3u%n", &options.columns, &options.rows, &used) != 2 ||
                optarg[used] || options.columns - 1 >= 200 || options.rows - 1 >= 100)
                return bad_usage("--picture takes COLUMNSxROWS up to 200x100, not \"%s\"", optarg);
            break;
        }
        case LIST: list_generators(); return 0;
        case 'h': fputs(usage_text, stdout); return 0;
        default: fputs("Try rankmap-explain --help.\n", stderr); return 2;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    const char *file = NULL;
    struct input in;
    char *text;
    int status = read_options(argc, argv, &file);

    if (status < 0) {
        if (file && optind < argc)
            return bad_usage("\"%s\" beside a file: only one input is explained", argv[optind]);
        if (optind < argc) {
            text = join_words(argv + optind, argc - optind);
            in = (struct input){"argument", text, text ? strlen(text) : 0};
        } else {
            text = input_read(file ? file : "-", &in.len);
            in.text = text;
            in.name = !file || strcmp(file, "-") == 0 ? "stdin" : file;
        }
        options.title = optind < argc ? text : in.name;
        status = text ? explain_input(&in) : 1;
        free(text);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "rankmap-explain: cannot write: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
