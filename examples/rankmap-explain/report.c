/* SPDX-License-Identifier: BSD-3-Clause */
/* The report about a map, as text and as JSON. */
#include "explain.h"

struct row {
    const char *name, *key, *model;
    uint64_t bytes;
};

#define N_ROWS 6

static void rows_of(const struct subject *s, struct row rows[N_ROWS])
{
    struct peer_bytes p;

    peer_count(&s->group, &p);
    rows[0] = (struct row){"plain table", "plain_table", p.table_model, p.table};
    rows[1] = (struct row){"MPICH up to 3.2", "mpich_3_2", "a pointer a rank (VCRT)", p.pointers};
    rows[2] = (struct row){"MPICH 4.0", "mpich_4_0", p.mpich_4_0_model, p.mpich_4_0};
    rows[3] = (struct row){"MPICH main", "mpich_main", p.mpich_main_model, p.mpich_main};
    rows[4] = (struct row){"Open MPI", "open_mpi", "a pointer a rank", p.openmpi};
    rows[5] = (struct row){"Open MPI, sparse", "open_mpi_sparse", p.openmpi_sparse_model,
                           p.openmpi_sparse};
}

static void info_of(const struct subject *s, struct rankmap_info *info)
{
    *info = (struct rankmap_info){.size = sizeof(*info)};
    rankmap_query(s->map, info);
}

static uint64_t bytes_of(const struct rankmap_info *info)
{
    return info->model_bytes + info->pinned_bytes;
}

static void print_levels(FILE *out, const struct rankmap_info *info)
{
    if (info->n_levels == 0 || info->kind == RANKMAP_DIRECT)
        return;
    fprintf(out, "  offset %lld", (long long)info->offset);
    if (info->phase)
        fprintf(out, ", phase %llu", (unsigned long long)info->phase);
    for (uint32_t i = 0; i < info->n_levels; i++) {
        fprintf(out, "%s", i == 0 ? "; " : ", then ");
        if (i + 1 < info->n_levels)
            fprintf(out, "%llu ranks ", (unsigned long long)info->levels[i].count);
        fprintf(out, "%+lld apart", (long long)info->levels[i].stride);
    }
    fputc('\n', out);
}

static void print_first(FILE *out, const struct subject *s)
{
    const uint64_t n = s->group.n;

    fprintf(out, "  ids %llu", (unsigned long long)s->ids[0]);
    for (uint64_t r = 1; r < n && r < 8; r++)
        fprintf(out, " %llu", (unsigned long long)s->ids[r]);
    if (n > 9)
        fprintf(out, " ...");
    if (n > 8)
        fprintf(out, " %llu", (unsigned long long)s->ids[n - 1]);
    fputc('\n', out);
}

void report_text(FILE *out, const struct subject *s, unsigned columns, unsigned n_rows)
{
    struct rankmap_info info;
    struct row rows[N_ROWS];
    char text[512];

    info_of(s, &info);
    rankmap_describe(s->map, text, sizeof(text));
    fprintf(out, "%s%s", s->name, s->count > 1 ? "" : "\n");
    if (s->count > 1)
        fprintf(out, " (%u of them)\n", s->count);
    fprintf(out, "  %s\n", text);
    print_levels(out, &info);
    print_first(out, s);
    print_picture(out, s->ids, (uint32_t)s->group.n, columns, n_rows);
    fprintf(out, "  %-18s %12llu bytes  %s, %llu with the object\n", "librankmap",
            (unsigned long long)bytes_of(&info), info.kind_name,
            (unsigned long long)(info.total_bytes + info.pinned_bytes));
    if (s->is_group) {
        rows_of(s, rows);
        for (unsigned i = 0; i < N_ROWS; i++)
            fprintf(out, "  %-18s %12llu bytes  %s\n", rows[i].name,
                    (unsigned long long)rows[i].bytes, rows[i].model);
    }
    fputc('\n', out);
}

void report_total(FILE *out, const struct subject *subjects, unsigned n)
{
    uint64_t ours = 0, total[N_ROWS] = {0};
    struct row rows[N_ROWS];

    for (unsigned i = 0; i < n; i++) {
        struct rankmap_info info;

        if (!subjects[i].is_group)
            continue;
        info_of(&subjects[i], &info);
        ours += bytes_of(&info) * subjects[i].count;
        rows_of(&subjects[i], rows);
        for (unsigned k = 0; k < N_ROWS; k++)
            total[k] += rows[k].bytes * subjects[i].count;
    }
    fprintf(out, "all communicators of a process\n  %-18s %12llu bytes\n", "librankmap",
            (unsigned long long)ours);
    for (unsigned k = 0; k < N_ROWS; k++)
        fprintf(out, "  %-18s %12llu bytes\n", rows[k].name, (unsigned long long)total[k]);
}

void report_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void report_json(FILE *out, const struct subject *s)
{
    struct rankmap_info info;
    struct row rows[N_ROWS];
    char text[512];

    info_of(s, &info);
    rankmap_describe(s->map, text, sizeof(text));
    fprintf(out, "{\"name\":");
    report_json_string(out, s->name);
    fprintf(out, ",\"count\":%u,\"ranks\":%lu,\"model\":\"%s\",\"description\":", s->count,
            (unsigned long)info.n_ranks, info.kind_name);
    report_json_string(out, text);
    fprintf(out,
            ",\"min_id\":%llu,\"max_id\":%llu,\"distinct\":%s,\"offset\":%lld,\"phase\":%llu,"
            "\"levels\":[",
            (unsigned long long)info.min_id, (unsigned long long)info.max_id,
            info.distinct ? "true" : "false", (long long)info.offset,
            (unsigned long long)info.phase);
    for (uint32_t i = 0; i < info.n_levels; i++) {
        fprintf(out, "%s{\"stride\":%lld", i ? "," : "", (long long)info.levels[i].stride);
        if (i + 1 < info.n_levels)
            fprintf(out, ",\"count\":%llu", (unsigned long long)info.levels[i].count);
        fputc('}', out);
    }
    fprintf(out,
            "],\"runs\":%lu,\"bits\":%lu,\"bytes\":{\"librankmap\":%llu,\"librankmap_object\":%llu",
            (unsigned long)info.n_runs, (unsigned long)info.bits,
            (unsigned long long)bytes_of(&info),
            (unsigned long long)(info.total_bytes + info.pinned_bytes));
    if (s->is_group) {
        rows_of(s, rows);
        for (unsigned i = 0; i < N_ROWS; i++)
            fprintf(out, ",\"%s\":%llu", rows[i].key, (unsigned long long)rows[i].bytes);
    }
    fprintf(out, "}}");
}
