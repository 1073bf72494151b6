/* SPDX-License-Identifier: BSD-3-Clause */
/* The probe server's differences from an ordinary one. */
#include <string.h>

#include "client.h"

#define SAFE .must = true

static const struct variation fixed[] = {
    {"plain", "an ordinary server, PMI 1.1 and 2.0", WIRE_1 | WIRE_2, SAFE},
    {"split", "each reply written byte by byte", WIRE_1 | WIRE_2, .split = true, SAFE},
    {"delayed", "each reply 20 ms late", WIRE_1 | WIRE_2, .delay_ms = 20, SAFE},
    {"subversion-2", "1.2 answered to a client of 1.1", WIRE_1, .subversion = 2},
    {"no-rc", "no rc in any reply", WIRE_1 | WIRE_2, .no_rc = true},
    {"rc-last", "rc behind all other fields", WIRE_1 | WIRE_2, .rc_last = true},
    {"mapping-compact", "MPICH 4.1's mapping, (vector,[0]x64)", WIRE_1 | WIRE_2,
     .mapping = "compact"},
    {"mapping-500", "a mapping of 500 bytes", WIRE_1 | WIRE_2, .mapping = "long:500"},
    {"mapping-900", "a mapping of 900 bytes", WIRE_1 | WIRE_2, .mapping = "long:900"},
    {"mapping-5000", "a mapping of 5,000 bytes", WIRE_1 | WIRE_2, .mapping = "long:5000"},
    {"mapping-empty", "an empty mapping", WIRE_1 | WIRE_2, .mapping = ""},
    {"mapping-none", "no mapping", WIRE_1 | WIRE_2, .mapping = "-", SAFE},
    {"maxes-64-64-1024", "kvsname, key, value", WIRE_1, .kvsname_max = 64},
    {"maxes-256-64-4096", "", WIRE_1, .vallen_max = 4096},
    {"maxes-256-64-65536", "", WIRE_1, .vallen_max = 65536},
    {"maxes-256-256-1024", "", WIRE_1, .keylen_max = 256},
    {"maxes-512-256-1024", "", WIRE_1, .kvsname_max = 512, .keylen_max = 256},
    {"maxes-1024-1024-1024", "", WIRE_1, .kvsname_max = 1024, .keylen_max = 1024},
    {"maxes-256-64-16", "", WIRE_1, .vallen_max = 16},
    {"pad-right", "PMI-2 length padded on the right, Slurm's way", WIRE_2, .pad_right = true, SAFE},
    {"no-final-semicolon", "PMI-2 body without its final ;", WIRE_2, .no_final = true},
    {"pmiverbose-0", "pmiverbose=0 and debugged=0 in place of FALSE", WIRE_2,
     .verbose_number = true},
    {"thrid-in-fullinit", "an unrequested thrid", WIRE_2, AT_FULLINIT, .n = 1, .kind = X_THRID},
    {"thrid-in-fence", "an unrequested thrid", WIRE_2, AT_FENCE, .n = 1, .kind = X_THRID},
    {"thrid-in-get", "an unrequested thrid", WIRE_2, AT_GET, .n = 1, .kind = X_THRID},
    {"everywhere-pair", "an extra field in each of these replies", WIRE_1 | WIRE_2, AT_ALL, .n = 1,
     .kind = X_PAIR, SAFE},
};
#define N_FIXED (int)(sizeof(fixed) / sizeof(fixed[0]))

static const struct {
    const char *name;
    unsigned place, wires;
} places[] = {
    {"init", AT_INIT, WIRE_1 | WIRE_2}, {"maxes", AT_MAXES, WIRE_1},
    {"fullinit", AT_FULLINIT, WIRE_2},  {"fence", AT_FENCE, WIRE_1 | WIRE_2},
    {"get", AT_GET, WIRE_1 | WIRE_2},   {"get-after-value", AT_GET_TAIL, WIRE_1 | WIRE_2},
};
static const struct {
    const char *name;
    unsigned n;
    enum kind kind;
    unsigned bytes;
} adds[] = {
    {"1 field", 1, X_PAIR, 0},     {"4 fields", 4, X_PAIR, 0},      {"16 fields", 16, X_PAIR, 0},
    {"64 fields", 64, X_PAIR, 0},  {"no =", 1, X_NO_EQUALS, 0},     {"empty value", 1, X_EMPTY, 0},
    {"800 bytes", 1, X_LONG, 800}, {"1500 bytes", 1, X_LONG, 1500}, {"5000 bytes", 1, X_LONG, 5000},
};
#define N_PLACES (int)(sizeof(places) / sizeof(places[0]))
#define N_ADDS   (int)(sizeof(adds) / sizeof(adds[0]))

bool variation_at(int i, struct variation *v)
{
    int place, a;

    if (i < N_FIXED) {
        *v = fixed[i];
        return true;
    }
    i -= N_FIXED;
    if (i >= N_PLACES * N_ADDS)
        return false;
    place = i / N_ADDS;
    a = i % N_ADDS;
    memset(v, 0, sizeof(*v));
    snprintf(v->name, sizeof(v->name), "%s: %s", places[place].name, adds[a].name);
    v->what = "extra in this reply";
    v->wires = places[place].wires;
    v->place = places[place].place;
    v->n = adds[a].n;
    v->kind = adds[a].kind;
    v->long_bytes = adds[a].bytes;
    /* The safe grammar of extra fields: pmiwire_enc_extra(). */
    v->must = adds[a].kind == X_PAIR && adds[a].n <= 16 && v->place != AT_GET_TAIL;
    return true;
}

int print_variations(void)
{
    struct variation v;

    printf("| variation | wire | must survive | what |\n|---|---|---|---|\n");
    for (int i = 0; variation_at(i, &v); i++)
        printf("| %s | %s | %s | %s |\n", v.name,
               v.wires == WIRE_1   ? "PMI-1"
               : v.wires == WIRE_2 ? "PMI-2"
                                   : "both",
               v.must ? "yes" : "", v.what);
    return 0;
}
