/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heat in a plate, a five-point stencil. The ranks form a grid; a rank's neighbours are those of
 * its row's and its column's team. It puts its edges into their halos. Each rank has two halos that
 * alternate, so that one barrier an iteration is enough.
 *
 * With --checkpoint DIR every rank commits its block every --every iterations to a window of
 * libstorwin, and begins with the newest state that *all* ranks have. A commit has the same number
 * on all ranks, ranks are at most one commit apart, and a file holds the last two.
 */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "program.h"

enum { UP, DOWN, LEFT, RIGHT, N_SIDES };

struct plate {
    struct minirt *rt;
    struct minirt_team *world, *row, *column;
    struct minirt_window *window; /* halo[2][N_SIDES][longest], then the block */
    uint64_t nx, ny, longest;     /* of the plate; of an edge of any rank */
    uint64_t x0, y0, w, h;        /* of this rank's block */
    double *halo, *u, *next, *edge;
    uint64_t iteration;
    struct storwin_window *saved; /* struct state */
    uint64_t commit;              /* number of the next one */
};

/* The contents of a commit: the iteration and the block. */
struct state {
    uint64_t iteration, nx, ny, n_ranks;
    double u[];
};

static double *halo_of(const struct plate *p, uint64_t iteration, int side)
{
    return p->halo + ((iteration % 2) * N_SIDES + (uint64_t)side) * p->longest;
}

/* Put an edge into a neighbour's halo, on the side of this rank. */
static void put_edge(struct plate *p, struct minirt_team *team, uint32_t rank, int side,
                     const double *edge, uint64_t n)
{
    uint64_t offset = (uint64_t)(halo_of(p, p->iteration, side) - p->halo) * sizeof(double), at;

    MUST(p->rt, minirt_window_at(p->window, team, rank, offset, &at));
    MUST(p->rt, minirt_put(team, rank, at, edge, n * sizeof(double)));
}

static void exchange_edges(struct plate *p)
{
    uint32_t x = minirt_rank(p->row), y = minirt_rank(p->column);

    if (y > 0)
        put_edge(p, p->column, y - 1, DOWN, p->u, p->w);
    if (y + 1 < minirt_size(p->column))
        put_edge(p, p->column, y + 1, UP, p->u + (p->h - 1) * p->w, p->w);
    for (int side = LEFT; side <= RIGHT; side++) {
        if (side == LEFT ? x == 0 : x + 1 == minirt_size(p->row))
            continue;
        for (uint64_t i = 0; i < p->h; i++)
            p->edge[i] = p->u[i * p->w + (side == LEFT ? 0 : p->w - 1)];
        put_edge(p, p->row, side == LEFT ? x - 1 : x + 1, side == LEFT ? RIGHT : LEFT, p->edge,
                 p->h);
    }
    MUST(p->rt, minirt_barrier(p->world));
}

/* The plate's own edge keeps its temperature. */
static void compute_step(struct plate *p)
{
    const double *up = halo_of(p, p->iteration, UP), *down = halo_of(p, p->iteration, DOWN);
    const double *left = halo_of(p, p->iteration, LEFT), *right = halo_of(p, p->iteration, RIGHT);
    const double *u = p->u;
    double *swap = p->u;

    for (uint64_t i = 0; i < p->h; i++)
        for (uint64_t j = 0; j < p->w; j++) {
            uint64_t at = i * p->w + j, y = p->y0 + i, x = p->x0 + j;
            double n, s, w, e;

            if (y == 0 || x == 0 || y == p->ny - 1 || x == p->nx - 1) {
                p->next[at] = u[at];
                continue;
            }
            n = i > 0 ? u[at - p->w] : up[j];
            s = i + 1 < p->h ? u[at + p->w] : down[j];
            w = j > 0 ? u[at - 1] : left[i];
            e = j + 1 < p->w ? u[at + 1] : right[i];
            p->next[at] = u[at] + 0.1 * (((n + s) + (w + e)) - 4.0 * u[at]);
        }
    p->u = p->next;
    p->next = swap;
    p->iteration++;
}

/* Opens this rank's file with one commit, 0: the newest. */
static struct storwin_info open_state(struct plate *p, const char *path, uint64_t commit)
{
    const uint64_t bytes = sizeof(struct state) + p->w * p->h * sizeof(double);
    struct storwin_info info = {.size = sizeof(info)};
    struct storwin_opts opts;
    struct storwin_error err;

    storwin_opts_init(&opts);
    opts.alloc_type = STORWIN_STORAGE;
    opts.pager = STORWIN_PAGER_RESIDENT;
    opts.atomic = STORWIN_ATOMIC_SLOTS; /* every number changes from commit to commit */
    opts.filename = path;
    opts.flags = STORWIN_DISCARD; /* the end of the program is no commit */
    opts.app_version = 1;
    opts.generation = commit;
    if (storwin_alloc(&opts, bytes, &p->saved, &err) < 0)
        program_die(p->rt, path, err.text);
    storwin_query(p->saved, &info);
    return info;
}

/* No file has a commit before all files are there. So beside one that has, a file without a commit
 * is of a job that ended in its first checkpoint, or was lost: to begin anew would give up the
 * others' state. */
static void check_lost(struct plate *p, const char *path, const struct storwin_info *mine)
{
    uint64_t all_old = !mine->created, newest = p->commit - 1;

    MUST(p->rt, minirt_min(p->world, &all_old));
    if (newest == 0 || (newest == 1 && all_old))
        return;
    if (mine->created)
        (void)unlink(path);
    MUST(p->rt, minirt_barrier(p->world)); /* the first that dies ends all */
    program_die(p->rt, path,
                mine->generation > 0
                    ? "another rank has no checkpoint: bring its file back, or remove all of them"
                    : "no checkpoint, and others have one: bring this file back, or remove all of "
                      "them");
}

static void open_checkpoint(struct plate *p, const char *dir)
{
    uint64_t common, lowest, iteration;
    const struct state *state;
    struct storwin_info mine;
    const char *wrong = NULL;
    char path[4096];

    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        program_die(p->rt, dir, strerror(errno));
    snprintf(path, sizeof(path), "%s/heat.%u", dir, minirt_rank(p->world));
    mine = open_state(p, path, 0);
    common = mine.generation;
    state = storwin_base(p->saved);
    /* Also if another rank has none. Reported when no new file can stay behind. */
    if (common > 0 &&
        (state->nx != p->nx || state->ny != p->ny || state->n_ranks != minirt_size(p->world)))
        wrong = "a checkpoint of a plate of another size";
    lowest = ~mine.newest_generation; /* the least of these is of the highest */
    MUST(p->rt, minirt_min(p->world, &lowest));
    p->commit = ~lowest + 1;
    MUST(p->rt, minirt_min(p->world, &common));
    if (common == 0) { /* a rank has none: from the beginning */
        check_lost(p, path, &mine);
        if (!wrong)
            return;
    }
    if (wrong)
        program_die(p->rt, path, wrong);
    if (mine.generation > common) {
        (void)storwin_free(p->saved, NULL);
        (void)open_state(p, path, common); /* which changes nothing in the file */
    }
    state = storwin_base(p->saved);
    iteration = state->iteration;
    MUST(p->rt, minirt_min(p->world, &iteration));
    if (state->iteration != iteration)
        program_die(p->rt, path, "a checkpoint of another run");
    memcpy(p->u, state->u, p->w * p->h * sizeof(double));
    p->iteration = iteration;
    if (minirt_rank(p->world) == 0)
        printf("heat: restarted at iteration %" PRIu64 "\n", iteration);
}

/* No rank continues before all have committed. */
static void commit_state(struct plate *p)
{
    struct state *state = storwin_base(p->saved);
    struct storwin_error err;

    *state = (struct state){p->iteration, p->nx, p->ny, minirt_size(p->world)};
    memcpy(state->u, p->u, p->w * p->h * sizeof(double));
    if (storwin_commit_generation(p->saved, p->commit++, &err) < 0)
        program_die(p->rt, "checkpoint", err.text);
    MUST(p->rt, minirt_barrier(p->world));
    if (minirt_rank(p->world) == 0) {
        printf("heat: checkpoint %" PRIu64 "\n", p->iteration);
        fflush(stdout);
    }
}

/* Where block i of n begins. */
static uint64_t block_start(uint64_t length, uint64_t i, uint64_t n)
{
    return length * i / n;
}

static void divide_plate(struct plate *p)
{
    uint32_t n = minirt_size(p->world), columns = 1, bytes_of_halo;
    uint64_t x, y;

    for (uint32_t c = 1; c * c <= n; c++)
        if (n % c == 0)
            columns = c;
    if (p->nx < columns || p->ny < n / columns)
        program_die(p->rt, "the plate is smaller than the grid of ranks", NULL);
    MUST(p->rt, minirt_team_row(p->world, columns, &p->row));
    MUST(p->rt, minirt_team_column(p->world, columns, &p->column));
    x = minirt_rank(p->row), y = minirt_rank(p->column);
    p->x0 = block_start(p->nx, x, columns);
    p->y0 = block_start(p->ny, y, n / columns);
    p->w = block_start(p->nx, x + 1, columns) - p->x0;
    p->h = block_start(p->ny, y + 1, n / columns) - p->y0;
    p->longest = p->nx > p->ny ? p->nx : p->ny;
    bytes_of_halo = 2 * N_SIDES;
    MUST(p->rt,
         minirt_window_create(p->world, (bytes_of_halo * p->longest + p->w * p->h) * sizeof(double),
                              NULL, &p->window));
    p->halo = minirt_window_base(p->window);
    p->u = malloc(p->w * p->h * sizeof(double));
    p->next = malloc(p->w * p->h * sizeof(double));
    p->edge = malloc(p->h * sizeof(double));
    if (!p->u || !p->next || !p->edge)
        program_die(p->rt, "out of memory", NULL);
    for (uint64_t i = 0; i < p->h; i++)
        for (uint64_t j = 0; j < p->w; j++)
            p->u[i * p->w + j] = p->y0 + i == 0 ? 100.0
                                                : 20.0 + (double)((p->x0 + j) * 7 % 13) -
                                                      (double)((p->y0 + i) * 3 % 11);
}

/* Each rank stores its block behind its halo; rank 0 gets them row by row. */
static void write_plate(struct plate *p, const char *path)
{
    double *mine = p->halo + 2 * N_SIDES * p->longest, *line = malloc(p->nx * sizeof(double));
    uint32_t columns = minirt_size(p->row), rows = minirt_size(p->column);
    FILE *file = NULL;

    memcpy(mine, p->u, p->w * p->h * sizeof(double));
    MUST(p->rt, minirt_barrier(p->world));
    if (minirt_rank(p->world) == 0) {
        file = fopen(path, "wb");
        if (!file || !line)
            program_die(p->rt, path, strerror(errno));
    }
    for (uint64_t y = 0, row = 0; file && y < p->ny; y++) {
        row += y == block_start(p->ny, row + 1, rows);
        for (uint32_t c = 0; c < columns; c++) {
            uint64_t x = block_start(p->nx, c, columns), w = block_start(p->nx, c + 1, columns) - x,
                     at;
            uint32_t rank = (uint32_t)row * columns + c;

            MUST(p->rt, minirt_window_at(
                            p->window, p->world, rank,
                            (2 * N_SIDES * p->longest + (y - block_start(p->ny, row, rows)) * w) *
                                sizeof(double),
                            &at));
            MUST(p->rt, minirt_get(p->world, rank, at, line + x, w * sizeof(double)));
        }
        if (fwrite(line, sizeof(double), p->nx, file) != p->nx)
            program_die(p->rt, path, strerror(errno));
    }
    if (file && fclose(file) != 0)
        program_die(p->rt, path, strerror(errno));
    free(line);
    MUST(p->rt, minirt_barrier(p->world));
}

int main(int argc, char **argv)
{
    const char *dir = program_text(argc, argv, "checkpoint"),
               *out = program_text(argc, argv, "out");
    struct plate p = {.nx = program_number(argc, argv, "nx", 256, 1, 1 << 20),
                      .ny = program_number(argc, argv, "ny", 256, 1, 1 << 20)};
    uint64_t iterations = program_number(argc, argv, "iterations", 200, 0, UINT64_MAX);
    uint64_t every = program_number(argc, argv, "every", 10, 1, UINT64_MAX);

    program_usage(argc, argv,
                  "minirt-heat [--nx N] [--ny N] [--iterations N] [--checkpoint DIR] [--every N] "
                  "[--out FILE]",
                  "nx ny iterations checkpoint every out");
    p.rt = program_start();
    p.world = minirt_world(p.rt);
    divide_plate(&p);
    if (dir)
        open_checkpoint(&p, dir);
    while (p.iteration < iterations) {
        exchange_edges(&p);
        compute_step(&p);
        if (dir && p.iteration % every == 0)
            commit_state(&p);
    }
    if (out)
        write_plate(&p, out);
    if (minirt_rank(p.world) == 0)
        printf("heat: %u ranks, %" PRIu64 " iterations\n", minirt_size(p.world), p.iteration);
    (void)storwin_free(p.saved, NULL);
    MUST(p.rt, minirt_window_free(p.window));
    MUST(p.rt, minirt_team_free(p.row));
    MUST(p.rt, minirt_team_free(p.column));
    free(p.u);
    free(p.next);
    free(p.edge);
    return program_end(p.rt);
}
