/* SPDX-License-Identifier: BSD-3-Clause */
/* pmiprobe: tests how a PMI server or client reacts. The command line and the printed tables. */
#include <string.h>

#include "probe.h"

static const char *wire_name(uint16_t wire)
{
    return wire == PMIWIRE_V2 ? "PMI-2" : wire == PMIWIRE_V1_MCMD ? "PMI-1 mcmd" : "PMI-1";
}

static int print_commands(void)
{
    printf("| wire | command | fields | answer |\n|---|---|---|---|\n");
    for (uint16_t id = 0; id < PMIWIRE_CMD_COUNT_; id++) {
        const struct pmiwire_command_desc *c = pmiwire_command_get(id);
        const struct pmiwire_command_desc *reply = c ? pmiwire_command_get(c->reply) : NULL;

        if (!c)
            continue;
        printf("| %s | `%s` |", wire_name(c->wire), c->name);
        for (uint32_t k = 0; k < c->n_fields; k++) {
            const struct pmiwire_field_desc *f = pmiwire_field_get(c->fields[k].field);
            uint16_t flags = c->fields[k].flags;
            static const char *const types[] = {"", " (text)", " (number)", " (TRUE or FALSE)"};

            printf(" %s`%s%s`%s%s%s", flags & PMIWIRE_REQUIRED ? "" : "[", f->name,
                   f->indexed ? "N" : "", types[f->type & 3], flags & PMIWIRE_REPEATS ? "…" : "",
                   flags & PMIWIRE_REQUIRED ? "" : "]");
        }
        printf(" | %s%s%s |\n",
               reply         ? "`"
               : c->is_reply ? ""
                             : "none",
               reply ? reply->name : "", reply ? "`" : "");
    }
    return 0;
}

/* A dictionary for libFuzzer and AFL: the words a parser of PMI looks for. */
static int print_dict(void)
{
    uint32_t n = 0, i = 0;

    printf("# Words of PMI-1 and PMI-2, printed by `pmiprobe dict`\n");
    for (uint16_t id = 0; id < PMIWIRE_CMD_COUNT_; id++) {
        const struct pmiwire_command_desc *c = pmiwire_command_get(id);

        if (!c)
            continue;
        printf("cmd_%u=\"%s=%s%s\"\n", (unsigned)i++, c->wire == PMIWIRE_V1_MCMD ? "mcmd" : "cmd",
               c->name,
               c->wire == PMIWIRE_V2   ? ";"
               : c->wire == PMIWIRE_V1 ? " "
                                       : "\\x0a");
    }
    for (uint16_t id = 1; id < PMIWIRE_F_COUNT_; id++) {
        const struct pmiwire_field_desc *f = pmiwire_field_get(id);

        if (f)
            printf("field_%u=\"%s%s=\"\n", (unsigned)n++, f->name, f->indexed ? "0" : "");
    }
    printf(
        "end=\"endcmd\\x0a\"\nescape=\";;\"\nleft=\"    14\"\nright=\"14    \"\nhuge=\"999999\"\n"
        "negative=\"   -14\"\ntrue=\"TRUE\"\nfalse=\"FALSE\"\nmapping=\"(vector,(0,1,2))\"\n");
    return 0;
}

static int print_profiles(void)
{
    static const struct {
        uint32_t flag;
        const char *name;
    } flags[] = {{PMIWIRE_PEER_V1, "PMI-1"},
                 {PMIWIRE_PEER_V2, "PMI-2"},
                 {PMIWIRE_PEER_V1_2, "1.2"},
                 {PMIWIRE_PEER_SPACES, "space"},
                 {PMIWIRE_PEER_SPACES_V2, "space (PMI-2)"},
                 {PMIWIRE_PEER_EMPTY, "empty"},
                 {PMIWIRE_PEER_BACKSLASH, "`\\`"},
                 {PMIWIRE_PEER_SEMICOLON_V1, "`;` (PMI-1)"},
                 {PMIWIRE_PEER_SEMICOLON_V2, "`;;` (PMI-2)"},
                 {PMIWIRE_PEER_8BIT, "8 bit"},
                 {PMIWIRE_PEER_EXTENDED_MAPPING, "new mappings"},
                 {PMIWIRE_PEER_LONG_EXTRA, "extra fields in messages of any length"},
                 {PMIWIRE_PEER_VALUE_LAST, "value reaches to the end of the line"}};
    const struct pmiwire_profile *p;

    printf("| profile | measured | key | value | kvsname | line | message | fields | mapping | "
           "carries |\n"
           "|---|---|---|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; (p = pmiwire_profile_at(i)); i++) {
        uint32_t limits[] = {p->max_key_bytes,    p->max_value_bytes, p->max_kvsname_bytes,
                             p->max_line_bytes,   p->max_msg_bytes,   p->max_fields,
                             p->max_mapping_bytes};
        const char *sep = " ";

        printf("| %s | %s |", p->name, p->peer);
        for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++)
            limits[k] ? printf(" %u |", limits[k]) : printf(" – |");
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
            if (p->flags & flags[k].flag) {
                printf("%s%s", sep, flags[k].name);
                sep = ", ";
            }
        printf(" |\n");
    }
    return 0;
}

static int print_cases(void)
{
    const struct probe_case *c;

    printf("| case | ranks | a conforming server |\n|---|---|---|\n");
    for (int i = 0; (c = case_at(i)); i++)
        printf("| %s | %d | %s |\n", c->name, c->ranks, c->expect);
    return 0;
}

static int print_usage(FILE *f)
{
    fprintf(
        f,
        "usage:\n"
        "  pmiprobe server [options] -- LAUNCHER ARGS...   test a PMI server: one job for each "
        "case\n"
        "  pmiprobe compare FILE...                        print results of --json side by "
        "side\n"
        "  pmiprobe client [options] -- PROG ARGS...       test a PMI client: one run for each "
        "variation\n"
        "  pmiprobe play CASE|FILE                         the process that the launcher runs; "
        "FILE is "
        "a transcript\n"
        "  pmiprobe replay FILE -- PROG ARGS...            play a transcript's server to a client\n"
        "  pmiprobe cases | variations | commands | profiles | dict\n");
    return f == stdout ? 0 : 2;
}

static int run_command(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
        int (*print)(void);
    } commands[] = {
        {"server", server_main, NULL},      {"compare", compare_main, NULL},
        {"client", client_main, NULL},      {"play", play_main, NULL},
        {"replay", replay_main, NULL},      {"cases", NULL, print_cases},
        {"commands", NULL, print_commands}, {"profiles", NULL, print_profiles},
        {"dict", NULL, print_dict},         {"variations", NULL, print_variations},
    };
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_usage(stdout);
    if (strcmp(name, "--version") == 0) {
        printf("pmiprobe, libpmiwire %s\n", pmiwire_version());
        return 0;
    }
    if (strncmp(name, "--", 2) == 0) /* `pmiprobe --commands` and the like */
        name += 2;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(commands[i].name, name) == 0 && (commands[i].run || argc == 2))
            return commands[i].run ? commands[i].run(argc - 1, argv + 1) : commands[i].print();
    return print_usage(stderr);
}

int main(int argc, char **argv)
{
    int rc = run_command(argc, argv);

    if (fflush(stdout) != 0 || ferror(stdout)) { /* an unprinted verdict is none */
        perror("pmiprobe: cannot write");
        return rc ? rc : 3;
    }
    return rc;
}
